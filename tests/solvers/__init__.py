"""Solvers that answer a problem from the text of its question alone, to check the served answers.

No module here imports the library, its generators or its verifiers. None reads a problem's metadata or reference
answer. `table.py` has the solver of each task, and says what a solver cannot check.
"""
