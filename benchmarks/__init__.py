"""Benchmarks; each module is run with `python -m` and prints one line of JSON."""
