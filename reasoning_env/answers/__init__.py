"""Score model text safely with the library's verifiers.

Runs inside workers only. Nothing here imports reasoning_gym; callers pass the library's datasets.
"""
