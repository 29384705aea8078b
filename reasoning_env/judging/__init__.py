"""The reward server (`judge`) over HTTP, and its client."""
