"""Run the library in worker processes that generate problems and score answers."""
