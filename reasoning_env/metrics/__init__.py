"""Metrics: outcomes of groups, counts of the parts, the recorder, intervals."""
