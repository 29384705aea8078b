"""What is counted: outcomes of groups, what the parts report of themselves, intervals."""
