"""The demo: run-api, environment and trainer on one machine, with a scripted policy instead of a model.

The environment runs in a separate process, as in a real training run, so no module here imports it.
"""
