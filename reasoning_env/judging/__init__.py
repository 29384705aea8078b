"""Verdicts for others: the server of verdicts over HTTP, and its client."""
