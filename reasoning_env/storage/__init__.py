"""Files and folders: checkpoints, files that are never half written, default folders."""
