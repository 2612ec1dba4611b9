"""Shift and theory, measured: how far apart populations are, what the theorems promise, when contexts have moved."""
