"""Decisions that were made at an edge, in the process of a caller: what the log keeps of how they came about."""

from __future__ import annotations

from typing import NamedTuple, Self

from conebandit.service.log import bodies
from conebandit.service.log.bodies import Body

_MARKS = ("stale", "unchecked")  # which few decisions have


class AtEdge(NamedTuple):
    """Where a decision was made, and from what, before the service heard of it.

    Attributes
    ----------
    name
        Of the edge.
    state
        Position of the event ``published`` whose state it was made from.
    at
        When it was made by the clock of the edge, within what can be: milliseconds since 1970.
    stale
        Whether the state was too old for the edge, which has served the baseline for that reason alone.
    unchecked
        Whether the service could not make it again when it came, and so took it on trust: its state is of another
        release, or rests on data that were erased.
    """

    name: str
    state: int
    at: int
    stale: bool = False
    unchecked: bool = False

    def to_body(self) -> Body:
        """Its part of the body of a decision."""
        body: Body = {"name": self.name, "state": self.state, "at": self.at}
        body |= {name: True for name in _MARKS if getattr(self, name)}
        return {"edge": body}

    @classmethod
    def from_body(cls, body: Body) -> Self | None:
        """Read it from the body of a decision; None if the service itself has made that."""
        if "edge" not in body:
            return None
        edge = bodies.table(body, "edge")
        marks = [name in edge and bodies.yes_or_no(edge, name) for name in _MARKS]
        return cls(bodies.text(edge, "name"), bodies.position(edge, "state"), bodies.date(edge, "at"), *marks)


class LastPublished(NamedTuple):
    """The last state that edges were given: position and time of the event that says so, and its checksum."""

    seq: int
    check: str
    at: int
