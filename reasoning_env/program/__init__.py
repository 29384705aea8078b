"""Code shared by all commands: parsers, options, the command `settings`, signals and logs."""
