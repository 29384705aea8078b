"""Sources of problems: their interface, and the user's modules that add tasks to reasoning-gym."""
