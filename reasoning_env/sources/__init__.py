"""Where problems come from: the contract of a source, and the modules of a user that add tasks to reasoning-gym."""
