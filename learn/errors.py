"""The error that ends a run with one line for the user."""

from __future__ import annotations


class LearnError(Exception):
    """The run cannot continue; the message names the cause and the remedy."""
