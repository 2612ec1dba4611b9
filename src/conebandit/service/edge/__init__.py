"""Deciding in the process of the caller, from a state that the service has published."""

from conebandit.service.edge.edge import Edge

__all__ = ["Edge"]
