"""From a command line and a file to a run's configs, its log without keys, and the words at its end."""
