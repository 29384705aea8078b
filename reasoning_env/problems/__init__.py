"""The stream of problems: selection of tasks, sampling, levels, seeds, references, and the problems in flight."""
