"""Modes of an environment (user code, `serve`, `process`), files of groups, and the shutdown."""
