"""Audit verifiers: probe them with answers that deserve nothing, watch what they do, and report the defects.

Begin with `command.py`. README.md in this folder tells what an audit does.
"""
