"""Simulated dose-finding trials: what a design does to its patients, and how often it finds the right dose."""
