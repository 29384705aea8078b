"""The adapter to Atropos: the only folder that knows its servers, its run-api and its environment class."""
