"""Commands for maintainers of this project. They are not installed."""
