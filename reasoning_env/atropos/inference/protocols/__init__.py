"""The protocols in which servers give tokens and log-probabilities as they were sampled; a module each."""
