"""Tools for a running process: asyncio tasks, threads, retries, outages, signals, and the terminal."""
