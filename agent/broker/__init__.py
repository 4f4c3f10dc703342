"""What the agent says to the broker, hears from it, and says again."""
