"""What every way into the program shares: parsers, options, the page of settings, and how a command's work runs."""
