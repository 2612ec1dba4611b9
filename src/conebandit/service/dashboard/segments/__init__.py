"""Who gets what: rules, maps, and what has moved in the population."""
