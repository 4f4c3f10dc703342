"""What applies a resource to the node: today as a file."""
