"""Which problems a run uses: task selection, sampling, levels, references, the stream of problems and evaluations."""
