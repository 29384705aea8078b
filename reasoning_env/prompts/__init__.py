"""Prompts: messages, chat templates and thinking formats. Completions: from tokens to text, and from text to tokens."""
