"""Where objects come from. Every source says the same events."""
