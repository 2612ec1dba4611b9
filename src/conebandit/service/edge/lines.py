"""Lines of a spool: a letter that says what it is, a checksum, and JSON as it will be sent."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from functools import lru_cache
from json.encoder import encode_basestring_ascii as quoted
from typing import Any, NamedTuple, Self
from zlib import crc32

from conebandit.service.client.requests import Context
from conebandit.service.log.selection import Choice, Selection
from conebandit.service.replies import Assignment
from conebandit.service.stores.records import canonical, new_id

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


class Asked:
    """A decision to make.

    Attributes
    ----------
    id, context, x, unit
        As it was asked for; ``x`` as the policy sees it.
    key
        What it is drawn by, and the log calls it: the id, or a random name where there are units.
    """

    __slots__ = ("context", "id", "key", "unit", "x")

    def __init__(self, id_: str, context: Context, x: list[float], unit: str | None) -> None:
        self.id, self.context, self.x, self.unit = id_, context, x, unit
        self.key = id_ if unit is None else f"d_{new_id()}"


def decision_text(asked: Asked, at: int, selection: Selection, *, stale: bool) -> str:
    """A decision as JSON, put together by hand: there are many of them."""
    mode, arm, propensity, active, choice, _ = selection
    of_unit = "" if asked.unit is None else f'"unit":{quoted(asked.unit)},"alias":"{asked.key}",'
    return (
        f'{{"id":{quoted(asked.id)},{of_unit}"at":{at},"mode":"{mode}","arm":{_name(arm)},'
        f'"propensity":{value_text(propensity)},"active":[{_names(active)}],"choice":{_choice_text(choice)},'
        f'"context":{table_text(asked.context)}{_STALE if stale else ""}}}'
    )


_STALE = ',"stale":true'
_name = lru_cache(maxsize=1024)(quoted)


@lru_cache(maxsize=1024)
def _names(names: tuple[str, ...]) -> str:
    return ",".join(map(quoted, names))


def _choice_text(choice: Choice | None) -> str:
    if choice is None:
        return "null"
    arm, propensity, probabilities = choice
    table = "null" if probabilities is None else table_text(probabilities)
    return f'{{"arm":{_name(arm)},"propensity":{value_text(propensity)},"probabilities":{table}}}'


def value_text(value: Any) -> str:
    """A value of a table as JSON; that has no word for numbers that are none."""
    kind = type(value)
    if kind is float and -math.inf < value < math.inf:
        return repr(value)
    return quoted(value) if kind is str else canonical(value)


def table_text(table: Mapping[str, Any]) -> str:
    """A table of numbers and texts as JSON."""
    return f"{{{','.join([f'{quoted(name)}:{value_text(table[name])}' for name in table])}}}"


def assignment(id_: str, selection: Selection, version: str) -> Assignment:
    """What a caller is told."""
    asked = None if selection.choice is None else version
    made = selection
    return Assignment(id_, made.arm, made.propensity, made.active, made.mode, asked, made.probabilities)


def read_decision(text: bytes, version: str) -> tuple[Assignment, Context, str | None]:
    """What a caller was told, in which context and about which unit."""
    made = json.loads(text)
    selection = Selection.from_body({**made, "version": None})
    return assignment(made["id"], selection, version), made["context"], made.get("unit")
