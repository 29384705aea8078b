"""Completions from Atropos' server objects, through their outages."""
