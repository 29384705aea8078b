"""The client of inference servers. It does not import Atropos."""
