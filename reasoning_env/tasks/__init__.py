"""Choose which problem comes next: selection of tasks, sampling, seeds, parameters."""
