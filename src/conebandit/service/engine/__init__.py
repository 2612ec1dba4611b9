"""Deciding, reporting and changing, one transaction at a time."""
