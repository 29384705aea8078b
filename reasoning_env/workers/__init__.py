"""Run the library in child processes that generate problems and score answers."""
