"""Benchmarks. Run each module with `python -m`; it prints one line of JSON."""
