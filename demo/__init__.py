"""The demo: a scripted policy server, a toy trainer, and the command that joins them to the environment.

Nothing in here imports the environment: it runs as a process of its own, as it would in a real training run.
"""
