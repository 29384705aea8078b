"""Evaluation of a model on a fixed set of problems.

- An `EvaluationPlan` (plan.py) says what a model is asked, by the settings or by a `Preset` (presets.py), and makes the
  `EvaluationSet` (problem_set.py).
- An `Evaluation` (run.py) asks a `ServedModel` each problem of the set, judges its completions and keeps them in a
  folder (folder.py). `evaluate` asks one server; a training asks its own servers in the same way.
- An `EvaluationResult` (results.py) has the figures (summary.py), which table.py prints. comparison.py puts
  evaluations side by side, scores.py those of one training.
"""
