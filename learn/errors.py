"""What ends a run with one line for its user."""

from __future__ import annotations


class LearnError(Exception):
    """The run cannot go on; the message says why, and what to do."""
