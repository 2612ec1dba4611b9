"""The quick way past the desk: decisions of an edge that are just as they come out here, which nearly all are.

They are made again from the state that they are said to be made from. If all that was sent is the same, to the types
of its numbers, nothing else has to be looked at. Any other batch is for :class:`EdgeDesk`, which says what is wrong.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple, Self

from pydantic_core import from_json, to_json

from conebandit.experiment.errors import InvalidError, RefusalError
from conebandit.service.engine.edge_desk import EdgeDesk
from conebandit.service.engine.ready import ARRIVAL, Ready
from conebandit.service.engine.traffic import DECISION_ID, MAX_AT_ONCE
from conebandit.service.log.bodies import MAX_TIME, Body
from conebandit.service.log.entries import By
from conebandit.service.log.published import PublishedState
from conebandit.service.log.selection import Selection
from conebandit.service.log.texts import PLAIN_TYPES, body_in_order, rows_with_odd_numbers
from conebandit.service.stores.records import canonical

_FLOATS = {float}
_ENTRIES = itemgetter("edge", "state", "check", "decisions")
_SELECTION = itemgetter("mode", "arm", "propensity", "active", "choice")
_N_ENTRIES = 8  # these, and the id, time and context

_NO_TIME = '"at":null'
_NEXT = ']},{"active":['  # where a body ends, and another one begins


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
        xs = [experiment.coordinates(context) for context in contexts]
    except (KeyError, TypeError, InvalidError):
        return None
    made = published.decide(xs, ids)
    if not all(map(_is_same, sent, made)):
        return None
    caused: Body = {} if by is None else by.to_body()
    bodies = []
    for selection, context, at, id_, x in zip(made, contexts, times, ids, xs, strict=True):
        where = {"at": max(at, since), "name": edge, "state": published.seq}
        bodies.append(body_in_order(selection, None, caused, {"context": context, "edge": where, "id": id_}, x))
    return Ready(since, max(since, *times), ids, "\n".join(_texts(bodies)))


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


def _is_same(sent: Mapping[str, Any], right: Selection) -> bool:
    """Whether a selection was sent as it should be. Python takes true for 1, which this does not."""
    mode, arm, propensity, active, choice, _ = right
    chosen = None if choice is None else {"arm": choice[0], "propensity": choice[1], "probabilities": choice[2]}
    if len(sent) != _N_ENTRIES or _SELECTION(sent) != (mode, arm, propensity, list(active), chosen):
        return False
    if choice is None:
        return type(sent["propensity"]) is float
    numbers = sent["propensity"], sent["choice"]["propensity"], *(sent["choice"]["probabilities"] or {}).values()
    return _FLOATS.issuperset(map(type, numbers))


def _texts(bodies: list[Body]) -> list[str]:
    """What :func:`canonical` makes of bodies whose entries are in order, with a mark where the time belongs.

    Pydantic is quicker, and writes the same but for what is not ASCII, and very large and very small numbers.
    """
    text = to_json(bodies).decode()
    texts = text[1:-1].replace(_NEXT, _NEXT.replace(",", "\n", 1)).split("\n")
    if not text.isascii() or "\x7f" in text or len(texts) != len(bodies):  # the last one if a name looks like the end
        texts = list(map(canonical, bodies))
    else:
        for number in _with_odd_numbers(bodies):
            texts[number] = canonical(bodies[number])
    return [text.replace(_NO_TIME, f'"at":{ARRIVAL}', 1) for text in texts]


def _with_odd_numbers(bodies: Sequence[Body]) -> set[int]:
    """Positions of bodies with numbers that may be written with an exponent."""
    numbers: list[float] = []
    ends = []
    for body in bodies:
        numbers += body["x"]
        numbers += [value for value in body["context"].values() if type(value) is float]
        if body["choice"] is not None:
            numbers += body["choice"].get("probabilities", {}).values()
        ends.append(len(numbers))
    return rows_with_odd_numbers(numbers, ends)
