"""Score answers of models safely with the verifiers of reasoning-gym ("the library").

This package runs in worker processes only. No module here imports reasoning_gym; callers pass the library's datasets.
"""
