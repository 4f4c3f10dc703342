"""The cloud side: from objects to one retained snapshot a node."""
