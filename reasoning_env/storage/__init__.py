"""What stays on disk: checkpoints, files that are never half written, folders."""
