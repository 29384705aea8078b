"""The `report` command: one HTML file, without a server or a network, of what dumps and evaluations hold."""
