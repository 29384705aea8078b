"""Evaluation of a model on the fixed problems of a session (`problems/evaluation_set.py`).

- An `Evaluation` (run.py) asks a `ServedModel` each problem of the set, judges its completions and keeps them in a
  folder (folder.py). `evaluate` asks one server; a training asks its own servers in the same way. plan.py has the
  sampling, and what makes two evaluations equal.
- An `EvaluationResult` (results.py) has the figures (summary.py), which table.py prints, beside the published results
  of a preset (published.py). comparison.py puts evaluations side by side, scores.py those of one training.
"""
