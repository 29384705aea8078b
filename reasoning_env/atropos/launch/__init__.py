"""From a command line and a file to the configs of a run, its log without keys, and the words at its end."""
