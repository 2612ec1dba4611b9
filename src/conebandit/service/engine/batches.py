"""Decisions that an edge has made from one state, as they were checked: to be compared with the log, or to be kept."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

from conebandit.service.engine.traffic import same_context
from conebandit.service.engine.units import Uploaded
from conebandit.service.log.edges import AtEdge
from conebandit.service.log.entries import By
from conebandit.service.log.events import Decided
from conebandit.service.log.selection import Selection, Version
from conebandit.service.replies import RefusedDecision

TAKEN = "a decision of this id was made elsewhere, or otherwise"


class Batch(NamedTuple):
    """Decisions that an edge has made from one state, as they were checked.

    Attributes
    ----------
    since
        When the state was published: milliseconds since 1970.
    decisions
        Those that may be put into the log, by id.
    refused
        The others, and why.
    """

    since: int
    decisions: dict[str, Uploaded]
    refused: list[RefusedDecision]

    def news(self, known: Mapping[str, Decided]) -> tuple[dict[str, Uploaded], dict[str, str]]:
        """The decisions that are not among those that are known, and those that are there otherwise, and why not."""
        new = {id_: one for id_, one in self.decisions.items() if id_ not in known}
        return new, {id_: TAKEN for id_, made in known.items() if not _is_same(made, self.decisions[id_])}

    def to_text(self, by: By | None) -> str:
        """Its decisions as JSON, with who has sent them."""
        rows = [
            [*one[:5], one.selection._replace(version=None).to_body(), one.selection.version, _marked(one.edge)]
            for one in self.decisions.values()
        ]
        return json.dumps({"since": self.since, "by": by, "decisions": rows}, allow_nan=False)

    @classmethod
    def from_text(cls, text: str) -> tuple[Self, By | None]:
        """Read it back."""
        table = json.loads(text)
        found = [_uploaded(*row) for row in table["decisions"]]
        by = table["by"]
        return cls(table["since"], {one.id: one for one in found}, []), None if by is None else By(*by)


def unchecked(decisions: Mapping[str, Uploaded]) -> int:
    """How many of some decisions nobody could make again."""
    return sum(one.edge.unchecked for one in decisions.values())


def _uploaded(*row: Any) -> Uploaded:
    id_, alias, context, x, unit, body, version, edge = row
    selection = Selection.from_body({**body, "version": version and dict(zip(Version._fields, version, strict=True))})
    return Uploaded(id_, alias, context, tuple(x), unit, selection, AtEdge(*edge))


def _is_same(made: Decided, uploaded: Uploaded) -> bool:
    """Whether a decision is in the log as it was sent; its time may have been put right."""
    if made.edge is None or _where(made.edge) != _where(uploaded.edge):
        return False
    unit = None if made.names is None else made.names.unit
    same = made.selection == uploaded.selection and unit == uploaded.unit
    return same and same_context(made.context, uploaded.context)


def _marked(edge: AtEdge) -> tuple[Any, ...]:
    """As it is kept: earlier releases, which may share the store, read four entries."""
    return edge if edge.unchecked else edge[:4]


def _where(edge: AtEdge) -> AtEdge:
    """What an edge itself says of a decision."""
    return edge._replace(at=0, unchecked=False)
