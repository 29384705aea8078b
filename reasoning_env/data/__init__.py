"""Read and write files of problems, verdicts and training rows of any size, with bounded memory."""
