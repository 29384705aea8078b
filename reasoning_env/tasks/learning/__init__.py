"""Learn from scored groups which tasks and levels to draw."""
