"""What a tree tells about the arms that it offers in a context."""

from __future__ import annotations

from dataclasses import dataclass

from conebandit.validate.arrays import FloatArray


@dataclass(frozen=True)
class Bin:
    """One bin on the way from the root to a context."""

    level: int
    lower: FloatArray
    upper: FloatArray
    seen: int


@dataclass(frozen=True)
class Elimination:
    """Why an arm is no longer played.

    ``margins`` are the leads of ``by`` over the arm on each facet that are left after both estimates are taken at their
    worst (preset ``sound``), or by how much the arm misses the printed rule (preset ``paper``).
    """

    arm: int
    observation: int
    by: int
    level: int
    margins: FloatArray


@dataclass(frozen=True)
class Explanation:
    """Everything that led to the arms a context is offered."""

    path: tuple[Bin, ...]
    active: tuple[int, ...]
    eliminated: tuple[Elimination, ...]
