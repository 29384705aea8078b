"""The modes of an environment (used by own code, by `serve` or by `process`), files of groups, and the shutdown."""
