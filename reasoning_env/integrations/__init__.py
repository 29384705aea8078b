"""Other trainers and frameworks, one module each. A module needs the extra of its name."""
