"""Other trainers and frameworks, one module each; every module needs the extra of its own name."""
