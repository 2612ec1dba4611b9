"""How an experiment came to know what it knows, and how much is still to come."""
