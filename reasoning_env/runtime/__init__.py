"""Small tools for a running process: tasks, threads, turns, retries, outages, signals, the terminal."""
