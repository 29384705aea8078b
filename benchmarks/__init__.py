"""Benchmarks; each is a module to run, and prints one line of JSON."""
