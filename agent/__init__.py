"""The edge side: from snapshots to what the node has, and from its model config to model ops."""
