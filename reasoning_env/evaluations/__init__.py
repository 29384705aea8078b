"""Evaluation: the fixed set of problems, the run over it, the statistics of the results, and the folder they lie in."""
