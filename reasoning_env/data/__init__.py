"""Files of problems, of verdicts and of training data, of any size and with bounded memory."""
