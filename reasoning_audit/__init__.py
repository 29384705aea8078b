"""Audit verifiers: score answers of known value, watch what the verifiers do, and report the defects.

Begin with `command.py`. README.md in this folder describes the audit.
"""
