"""The Kubernetes source: one informer for each kind and namespace, on the official client.

access     which server, and as whom: kubeconfig, or what a pod is given
api        one GET: time limits, and every failure translated
resources  where a kind is served: group, version and plural, given or discovered
answers    list pages and watch lines, decoded and checked (pure)
sight      what is known of one kind in one namespace, and what an event changes in it (pure)
retrying   when to ask again (pure)
informer   list, then watch, for ever: the loop and its thread
kinds      what the informers of one kind know, told as one
source     all of it, as the bridge's source
survey     the same once, for commands
"""
