"""The problems of a run: task selection, sampling, levels, references, evaluation sets and the stream of problems."""
