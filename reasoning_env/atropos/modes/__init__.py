"""The modes of an environment (`serve`, `process` and user code), its files of groups, and its shutdown."""
