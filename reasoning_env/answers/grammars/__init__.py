"""Read model text with grammars in place of evaluators."""
