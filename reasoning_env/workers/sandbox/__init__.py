"""Limit what a worker process may use, and restrict what a verifier worker may do."""
