"""Files and folders: checkpoints, files that are written whole, and default folders."""
