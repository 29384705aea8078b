"""Tools for a running process: the event loop, threads, retries, HTTP addresses, text, and the terminal."""
