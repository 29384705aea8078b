"""Build prompts with chat templates, recognise thinking formats, and convert completions between tokens and text."""
