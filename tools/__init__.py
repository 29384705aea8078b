"""What maintainers of this project run; not installed."""
