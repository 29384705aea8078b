"""The name under which verifiers and prime-rl load the taskset: their ids are names of top-level modules."""

from reasoning_env.integrations.verifiers import ReasoningGymTaskset

__all__ = ["ReasoningGymTaskset"]
