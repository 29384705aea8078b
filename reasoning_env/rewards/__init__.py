"""What a completion earns: answer extraction, dual-format scoring, length penalty, group filter."""

from .extraction import Extraction, extract_answer
from .scoring import judge_texts, score_rollouts
from .shaping import apply_length_penalty, has_signal

__all__ = ["Extraction", "apply_length_penalty", "extract_answer", "has_signal", "judge_texts", "score_rollouts"]
