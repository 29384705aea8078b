"""The ways to run: serve, process and evaluate, what they write, and how they end."""
