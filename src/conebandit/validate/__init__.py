"""Checks of arguments, the box of contexts, storage: the bottom of the house, which imports nothing of ours."""
