"""Parse model text with limited grammars instead of evaluating it as code."""
