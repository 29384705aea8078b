"""Files and folders: checkpoints, files that are replaced whole or not at all, and default folders."""
