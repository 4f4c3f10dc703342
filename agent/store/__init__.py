"""What the agent keeps through a loss of power: one SQLite file in its state directory."""
