"""Lines of a spool: a letter that says what it is, a checksum, and JSON as it will be sent."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import lru_cache
from json.encoder import encode_basestring_ascii as quoted
from typing import Any, NamedTuple, Self
from zlib import crc32

from conebandit.experiment.units import Units, as_unit
from conebandit.service.client.requests import Context
from conebandit.service.log.selection import Selection
from conebandit.service.log.templates import list_in, name_in, table_in, value_texts
from conebandit.service.replies import Assignment
from conebandit.service.stores.records import new_id

STATE, DECISION, OUTCOME = b"S", b"D", b"O"
HEAD = 10  # bytes before the JSON


class StateMark(NamedTuple):
    """The published state that the decisions after it were made from."""

    state: int
    check: str
    version: str

    def line(self) -> bytes:
        """For a spool."""
        return line(STATE, json.dumps(list(self)).encode())

    @classmethod
    def read(cls, found: bytes) -> Self | None:
        """Read it from a line; None if that is damaged."""
        return cls(*json.loads(found[HEAD:])) if is_whole(found) else None


def line(kind: bytes, text: bytes) -> bytes:
    r"""A line of a spool.

    Examples
    --------
    >>> line(OUTCOME, b"{}")
    b'Od447ec89 {}\n'
    """
    return b"%b%08x %b\n" % (kind, crc32(text, kind[0]), text)


def is_whole(found: bytes) -> bool:
    r"""Whether a line is as it was written.

    Examples
    --------
    >>> is_whole(b'Od447ec89 {}\n'), is_whole(b'Od447ec89 {')
    (True, False)
    """
    return found[-1:] == b"\n" and found[1:HEAD] == b"%08x " % crc32(found[HEAD:-1], found[0])


def remains(found: bytes) -> bytes:
    r"""What is left of a damaged line: how long it is, and whether a state may have been in it.

    Decisions after such a line are from nobody knows which state.

    Examples
    --------
    >>> remains(b'Od447ec89 {"id\n'), remains(b'X87af37c8 [2, \n')[:1]
    (b'\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00', b'S')
    """
    of_state = found[:1] not in (DECISION, OUTCOME) or _HEAD_OF_STATE.search(found)
    return STATE + bytes(len(found) - 1) if of_state else bytes(len(found))


_HEAD_OF_STATE = re.compile(rb"[0-9a-f]{8} \[\d")


class Asked(NamedTuple):
    """Decisions to make, column by column.

    Attributes
    ----------
    ids, contexts, units
        As they were asked for.
    keys
        What they are drawn by, and the log calls them: their ids, or random names where there are units.
    """

    ids: Sequence[str]
    contexts: Sequence[Context]
    units: Sequence[str | None]
    keys: Sequence[str]


def keys_of(ids: Sequence[str], units: Sequence[str | None], declared: Units | None) -> Sequence[str]:
    """The keys of decisions, if they are about units as the experiment wants it."""
    for unit in units:
        as_unit(unit, declared)
    return ids if declared is None else [f"d_{new_id()}" for _ in ids]


def decision_texts(asked: Asked, at: int, made: Sequence[Selection], *, stale: bool) -> list[str]:
    """Decisions as JSON, put together by hand: there are many of them, and most differ in their values alone.

    So all values are written together, and put into templates, of which there is one for all decisions of a shape.
    """
    values: list[Any] = []
    templates = []
    for selection, context, unit in zip(made, asked.contexts, asked.units, strict=True):
        mode, arm, propensity, active, choice, _ = selection
        chosen = chances = None
        values.append(propensity)
        if choice is not None:
            chosen, propensity, table = choice
            values.append(propensity)
            if table is not None:
                chances = tuple(table)
                values += table.values()
        values += context.values()
        templates.append(_template(mode, arm, active, chosen, chances, tuple(context), unit is not None, stale))
    texts, when, end, found = value_texts(values), str(at), 0, []
    for id_, unit, key, (template, size) in zip(asked.ids, asked.units, asked.keys, templates, strict=True):
        names = (quoted(id_),) if unit is None else (quoted(id_), quoted(unit), key)
        start, end = end, end + size
        found.append(template % (*names, when, *texts[start:end]))
    return found


@lru_cache(maxsize=1024)
def _template(  # noqa: PLR0917  (what makes up a shape)
    mode: str,
    arm: str,
    active: tuple[str, ...],
    chosen: str | None,
    chances: tuple[str, ...] | None,
    columns: tuple[str, ...],
    of_unit: bool,
    stale: bool,
) -> tuple[str, int]:
    """Decisions of a shape, with places for names, time and values, and how many values there are."""
    names = '"id":%s,"unit":%s,"alias":"%s"' if of_unit else '"id":%s'
    choice, size = "null", 1 + len(columns)
    if chosen is not None:
        table, size = "null" if chances is None else table_in(chances), size + 1 + len(chances or ())
        choice = f'{{"arm":{name_in(chosen)},"propensity":%s,"probabilities":{table}}}'
    text = (
        f'{{{names},"at":%s,"mode":"{mode}","arm":{name_in(arm)},"propensity":%s,"active":{list_in(active)},'
        f'"choice":{choice},"context":{table_in(columns)}{_STALE if stale else ""}}}'
    )
    return text, size


_STALE = ',"stale":true'


def assignment(id_: str, selection: Selection, version: str) -> Assignment:
    """What a caller is told."""
    mode, arm, propensity, active, choice, _ = selection
    made = object.__new__(Assignment)
    # As its constructor does, which is twice as slow: that of a frozen dataclass makes a call for each field.
    vars(made).update(
        id=id_,
        arm=arm,
        propensity=propensity,
        active=active,
        mode=mode,
        policy_version=None if choice is None else version,
        probabilities={arm: propensity} if choice is None or mode != "live" else choice.probabilities,
        repeated=False,
    )
    return made


def read_decision(text: bytes, version: str) -> tuple[Assignment, Context, str | None]:
    """What a caller was told, in which context and about which unit."""
    made = json.loads(text)
    selection = Selection.from_body({**made, "version": None})
    return assignment(made["id"], selection, version), made["context"], made.get("unit")
