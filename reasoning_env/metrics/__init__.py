"""Metrics: outcomes of completions and groups, counts of the other parts, the recorder, and the Prometheus format."""
