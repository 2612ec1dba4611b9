"""Decisions of an edge that were checked, written as the log will have them, but for the time at which they arrive."""

from __future__ import annotations

import json
from typing import NamedTuple, Self

from conebandit.service.engine.batches import Batch
from conebandit.service.engine.units import Uploaded
from conebandit.service.log.entries import By
from conebandit.service.log.events import Decided

ARRIVAL = "\t"  # stands for the time: JSON in one line has none


class Ready(NamedTuple):
    """Decisions that an edge has made from one state, about no units, with nothing left to check but their ids.

    Attributes
    ----------
    since
        When the state was published: milliseconds since 1970.
    latest
        When the last of them was made, as its edge says.
    ids
        Theirs.
    text
        Their bodies, a line for each: as events have them, with :data:`ARRIVAL` in place of the time.
    """

    since: int
    latest: int
    ids: list[str]
    text: str

    def bodies(self, at: int) -> list[str]:
        """The bodies of the events if they arrive at a time."""
        return self.text.replace(ARRIVAL, str(at)).split("\n")

    def to_text(self) -> str:
        """To be kept; the first line has what is not in the bodies."""
        return f"{json.dumps([self.since, self.latest, self.ids])}\n{self.text}"

    @classmethod
    def from_text(cls, text: str) -> Self | None:
        """Read it back; None if this is another form (:meth:`Batch.to_text`)."""
        head, line_break, rest = text.partition("\n")
        if not line_break:
            return None
        since, latest, ids = json.loads(head)
        return cls(since, latest, ids, rest)

    def to_batch(self) -> tuple[Batch, By | None]:
        """The same as single decisions, and who has sent them: where there is something to look at after all."""
        tables = [json.loads(line) for line in self.bodies(self.latest)]
        return Batch(self.since, {one.id: one for one in map(_uploaded, tables)}, []), By.from_body(tables[0])


def read_upload(text: str) -> tuple[Batch, By | None]:
    """The decisions in an upload that was kept, in either form, and who has sent them."""
    ready = Ready.from_text(text)
    return Batch.from_text(text) if ready is None else ready.to_batch()


def _uploaded(body: dict[str, object]) -> Uploaded:
    made = Decided.from_body(body)
    assert made.edge is not None  # such were written
    return Uploaded(made.id, made.id, made.context, made.x, None, made.selection, made.edge)
