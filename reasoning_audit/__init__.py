"""Audit verifiers: score answers that are known to be right or wrong, watch the verifiers, and report defects.

Read `command.py` first. README.md in this folder describes the audit.
"""
