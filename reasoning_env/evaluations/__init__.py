"""Evaluation of a model on a fixed set of problems.

`plan_evaluation` makes an `EvaluationPlan` (plan.py) from the settings or from a `Preset` (presets.py). The plan makes
an `EvaluationSet` (problem_set.py). `open_evaluation` opens the `Evaluation` of an `EvaluatedModel` (opening.py). The
evaluation evaluates each problem of the set through its `Evaluator` (run.py) and writes each `EvaluatedProblem` to an
`EvaluationFolder` (folder.py). Figures come from summary.py; table.py prints the figures.
"""
