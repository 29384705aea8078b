"""Prompts: messages, chat templates, thinking, and completions from tokens to text and back."""
