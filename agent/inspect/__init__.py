"""What the commands show of an agent: from its disk, and from its last word."""
