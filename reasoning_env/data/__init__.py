"""Read and write problems, verdicts and training rows in files of any size, with bounded memory."""
