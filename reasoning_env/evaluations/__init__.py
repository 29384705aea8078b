"""Evaluate a model on the fixed set of evaluation problems (`problems/evaluation_set.py`).

- run.py: an `Evaluation` sends each problem to a `ServedModel`, judges the completions and saves them in a folder
  (folder.py). The command `evaluate` and trainings use the same class. plan.py has the sampling parameters.
- results.py: an `EvaluationResult` has the statistics (summary.py), which table.py prints. published.py adds a preset's
  published results, comparison.py compares two evaluations, and scores.py has the metrics for a training.
"""
