"""The model config of this node: read, compared, and turned into ops that are never lost.

`quantity`, `spec`, `configfile`, `diff`, `outbox` and `modelset` are pure. `sync` moves ops between
outbox, store and session; `watch` is the thread that reads the file.
"""
