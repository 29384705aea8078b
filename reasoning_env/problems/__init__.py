"""The stream of problems: task selection, sampling, levels, seeds, references, and the problems in flight."""
