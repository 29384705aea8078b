"""Modes of an environment: imported, serve and process; the files of groups; the end."""
