"""What other policies would have done, from a log: values in every metric, with regions, and the front of policies."""
