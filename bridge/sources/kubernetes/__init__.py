"""The Kubernetes source: one informer for each kind and namespace, on the official client.

scope       what is served of a cluster, and how it is asked for
access      which server, and as whom: kubeconfig, or what a pod is given
api         one request: time limits, and every failure translated (transport, failures)
deep        JSON in which something is too deep to be decoded
identity    what tells one cluster from another
resources   a kind as paths name it; discovery: found out where a rule does not say it
answers     list pages and watch lines, decoded and checked (pure)
sight       what is known of one kind in one namespace, and what an event changes in it (pure)
retrying    when to ask again (pure)
informer    list, then watch, for ever: the loop and its thread
reasons     why a kind is held, and what to do about it
leases      the Lease that says who is in charge; candidate: the thread that holds it, or stands by
troubles    what the log says of a server
kinds       what the informers of one kind know, told as one
source      all of it, as the bridge's source
survey      the same once, for commands
origin      a cluster as the place where objects come from
"""
