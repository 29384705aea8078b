"""Read model text with grammars instead of evaluating it."""
