"""Code shared by all commands (parsers, options, signals, logs), and the command `settings`."""
