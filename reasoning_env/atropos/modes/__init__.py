"""Modes of an environment: imported, serve, process and evaluate; the files of groups; the end."""
