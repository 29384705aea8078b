"""Measure tasks and verifiers: the audit, difficulty, contamination."""
