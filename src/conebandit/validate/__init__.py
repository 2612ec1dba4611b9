"""Checks of arguments, the box of contexts, files of saved policies: the lowest room, which imports nothing of ours."""
