"""Inference servers, without Atropos: what failures mean, chat completions, and a client for `evaluate` alone."""
