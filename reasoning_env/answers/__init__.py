"""Score model text safely with reasoning-gym's verifiers ("the library").

This package runs in worker processes only. No module here imports reasoning_gym; callers pass the library's datasets.
"""
