"""Compiled loops. The only room that imports numba; one file for each family of kernels."""
