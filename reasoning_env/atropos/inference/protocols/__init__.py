"""The protocols in which servers give tokens and log-probabilities as they were sampled."""

from .completions import COMPLETIONS
from .sglang import SGLANG
from .vllm import VLLM

__all__ = ["COMPLETIONS", "SGLANG", "VLLM"]
