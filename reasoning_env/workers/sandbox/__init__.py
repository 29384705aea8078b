"""Limit what a worker process can do."""
