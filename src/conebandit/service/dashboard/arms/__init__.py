"""Arms at a context that somebody chooses, as rows and as pictures."""
