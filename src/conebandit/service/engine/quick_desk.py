"""The quick way past the desk: decisions of an edge that are just as they come out here, which nearly all are.

They are made again from the state that they are said to be made from. If all that was sent is the same, to the types
of its numbers, nothing else has to be looked at. Any other batch is for :class:`EdgeDesk`, which says what is wrong.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple, Self

from pydantic_core import from_json

from conebandit.experiment.declaration import coordinates_of_many
from conebandit.experiment.errors import InvalidError, RefusalError
from conebandit.service.engine.edge_desk import EdgeDesk
from conebandit.service.engine.ready import ARRIVAL, Ready
from conebandit.service.engine.traffic import DECISION_ID, MAX_AT_ONCE
from conebandit.service.log.bodies import MAX_TIME, Body
from conebandit.service.log.entries import By
from conebandit.service.log.published import PublishedState
from conebandit.service.log.selection import Choice, Selection
from conebandit.service.log.templates import Decisions, Origin, edge_body_texts
from conebandit.service.log.texts import PLAIN_TYPES
from conebandit.service.stores.records import canonical

_FLOATS = {float}
_ENTRIES = itemgetter("edge", "state", "check", "decisions")
_SERVED = itemgetter("mode", "arm", "propensity")
_CHOICE = itemgetter(*Choice._fields)
_N_ENTRIES = 8  # what was served, active and choice, and the id, time and context


class RawUpload(NamedTuple):
    """What an edge has sent, as JSON was read: nobody has looked at the decisions.

    Attributes
    ----------
    edge, state, check
        The name of the edge, and the position and checksum of the state that it has decided from.
    decisions
        One or more.
    body
        All of it as it was sent.
    """

    edge: str
    state: int
    check: str
    decisions: list[Any]
    body: bytes

    @classmethod
    def read(cls, body: bytes) -> Self | None:
        """None if it is not what an edge sends."""
        try:
            table = from_json(body, allow_inf_nan=False)
            edge, state, check, decisions = _ENTRIES(table)
        except (ValueError, KeyError, TypeError):
            return None
        types = tuple(map(type, (edge, state, check, decisions)))
        good = len(table) == len(types) and types == (str, int, str, list) and 1 <= state < 2**53
        return cls(edge, state, check, decisions, body) if good and 1 <= len(decisions) <= MAX_AT_ONCE else None


def ready_at(desk: EdgeDesk, experiment_id: str, sent: RawUpload, by: By | None) -> Ready | None:
    """What an edge has sent, as :func:`ready` gives it; None if this process does not know the state, or none does."""
    try:
        published = desk.find(experiment_id, (sent.state, sent.check), sent.edge)
    except RefusalError:
        return None  # the desk says why, once all that was sent is known to be of the right types
    return None if published is None else ready(published, sent.edge, sent.decisions, by)


def ready(published: PublishedState, edge: str, sent: Sequence[Any], by: By | None) -> Ready | None:
    """Decisions that were sent, as JSON was read; None unless each of them is what an honest edge sends."""
    experiment, since = published.state.experiment, published.at
    if experiment.units is not None or published.state.rules.rules:
        return None  # these are put into the log one by one, and in other words
    try:
        ids, times, contexts = ([one[name] for one in sent] for name in ("id", "at", "context"))
        if not _can_be(ids, times, contexts):
            return None
        xs = coordinates_of_many(experiment, contexts)
        made = published.decide(xs, ids)
        if not _are_same(sent, made):
            return None
    except (KeyError, TypeError, InvalidError):
        return None
    caused: Body = {} if by is None else by.to_body()
    origin = Origin(edge, published.seq, canonical(caused["by"]) if caused else "", ARRIVAL)
    decisions = Decisions(ids, [max(at, since) for at in times], contexts, xs.tolist(), made)
    return Ready(since, max(since, *times), ids, "\n".join(edge_body_texts(origin, decisions)))


def _can_be(ids: list[Any], times: list[Any], contexts: list[Any]) -> bool:
    """Whether these are different ids, times, and contexts of the right types."""
    return (
        set(map(type, ids)) == {str}
        and set(map(type, times)) == {int}
        and set(map(type, contexts)) == {dict}
        and len(set(ids)) == len(ids)
        and all(map(DECISION_ID.fullmatch, ids))
        and min(times) >= 0
        and max(times) <= MAX_TIME
        and PLAIN_TYPES.issuperset(map(type, itertools.chain.from_iterable(map(dict.values, contexts))))
    )


def _are_same(sent: Sequence[Mapping[str, Any]], right: Sequence[Selection]) -> bool:
    """Whether selections were sent as they should be."""
    served, active = list(map(_SERVED, sent)), [one["active"] for one in sent]
    return (
        set(map(len, sent)) == {_N_ENTRIES}
        and served == [selection[:3] for selection in right]
        and active == [list(selection.active) for selection in right]
        and _are_floats([propensity for *_, propensity in served])
        and _same_choices([one["choice"] for one in sent], [selection.choice for selection in right])
    )


def _same_choices(sent: Sequence[Any], right: Sequence[Choice | None]) -> bool:
    """Whether choices were sent as they should be."""
    if right[0] is None:  # and so are all, since they are from one state
        return sent == right
    told = list(map(_CHOICE, sent))
    if told != right or set(map(len, sent)) != {len(Choice._fields)}:
        return False
    tables = [chances.values() for *_, chances in told if chances is not None]
    return _are_floats([propensity for _, propensity, _ in told]) and _are_floats(itertools.chain.from_iterable(tables))


def _are_floats(numbers: Iterable[Any]) -> bool:
    """Whether all are of this type: Python takes true for 1."""
    return _FLOATS.issuperset(map(type, numbers))
