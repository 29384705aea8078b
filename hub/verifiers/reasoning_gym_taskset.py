"""The taskset for verifiers and prime-rl, which load a taskset by the name of a top-level module."""

from reasoning_env.integrations.verifiers import ReasoningGymTaskset

__all__ = ["ReasoningGymTaskset"]
