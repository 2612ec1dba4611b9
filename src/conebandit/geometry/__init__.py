"""Cones, fronts, gaps and distances."""
