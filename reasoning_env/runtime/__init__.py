"""Small tools for a running process: tasks, threads, retries, signals, the terminal."""
