"""Count outcomes, answers, problems, workers and groups, and format the counts as metrics and as progress lines."""
