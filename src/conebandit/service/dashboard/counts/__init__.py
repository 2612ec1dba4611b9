"""Whole logs, counted beside the writer: what they add up to, and a sample of their decisions."""
