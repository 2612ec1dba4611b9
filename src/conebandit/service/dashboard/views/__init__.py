"""One file for each view of an experiment: what it asks, and what its template is given."""
