"""Inputs that are nearly good, for everything that reads what others wrote. `make fuzz`."""
