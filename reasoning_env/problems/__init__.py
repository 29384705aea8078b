"""The stream of problems: selection of tasks, sampling, seeds, references, and the ledger of what is in flight."""
