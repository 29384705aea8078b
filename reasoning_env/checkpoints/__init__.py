"""Checkpoints: the state of a run on disk, in a folder that one process holds at a time."""

from .files import Checkpoint, CheckpointError, read_checkpoint
from .keeper import Resumed, StateKeeper

__all__ = ["Checkpoint", "CheckpointError", "Resumed", "StateKeeper", "read_checkpoint"]
