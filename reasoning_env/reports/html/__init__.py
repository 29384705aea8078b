"""The `report` command: dumps and evaluations as one HTML file, without a server or a network."""
