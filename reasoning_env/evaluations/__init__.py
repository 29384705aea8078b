"""Evaluation: the fixed set of problems, the run over it, its statistics, and the folder of results."""
