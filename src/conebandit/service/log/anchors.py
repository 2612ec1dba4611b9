"""Anchors: positions of a log and their checksums, kept where nobody who can change the log can change them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, Self

from conebandit.experiment.errors import InvalidError
from conebandit.service.stores.records import Head, canonical
from conebandit.service.stores.seals import key_of
from conebandit.service.stores.session import Session

STORE_LOG = "(store)"  # stands for the log of the store itself, where there would be an experiment; no id has brackets
_POSITION_AND_CHECK = re.compile(r"([1-9][0-9]{0,17}):((?:[A-Za-z0-9_-]{1,32}\.)?[0-9a-f]{32})")


class Anchor(NamedTuple):
    """That a log had this checksum at this position.

    Attributes
    ----------
    experiment
        Whose log; ``(store)`` for that of the store itself.
    head
        Where it ended then.
    time
        When, as text; empty if nobody said.
    """

    experiment: str
    head: Head
    time: str = ""

    def line(self) -> str:
        """As a line of JSON."""
        (seq, check), keyed = self.head, key_of(self.head.check) is not None
        table = {"time": self.time, "experiment": self.experiment, "seq": seq, "check": check, "keyed": keyed}
        return canonical(table) + "\n"

    @classmethod
    def parse(cls, line: str) -> Self:
        """Read such a line.

        Examples
        --------
        >>> anchor = Anchor("checkout", Head(3, "k1." + "0" * 32), "2026-01-31T12:00:00Z")
        >>> Anchor.parse(anchor.line()) == anchor
        True
        """
        try:
            table = json.loads(line)
            experiment, time = table["experiment"], table.get("time", "")
            head = position_and_check(f"{table['seq']}:{table['check']}")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            head = None
        if head is None or not isinstance(experiment, str) or not isinstance(time, str):
            raise InvalidError(f"an anchor is a line with experiment, seq and check; got {line[:80]!a}.")
        return cls(experiment, head, time)


def position_and_check(text: str) -> Head | None:
    """Read ``SEQ:CHECK``; None if it is something else.

    Examples
    --------
    >>> position_and_check("3:k1.00000000000000000000000000000000")
    Head(seq=3, check='k1.00000000000000000000000000000000')
    """
    found = _POSITION_AND_CHECK.fullmatch(text)
    return None if found is None else Head(int(found[1]), found[2])


def read_anchors(path: Path) -> Iterator[Anchor]:
    """The anchors in a file, one in each line."""
    with path.open(encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, start=1):
            try:
                yield Anchor.parse(line)
            except InvalidError as error:
                raise InvalidError(f"{path}, line {number}: {error}") from None


def missed_anchors(session: Session, experiment_id: str, anchors: Iterable[Anchor]) -> list[str]:
    """Which anchors a log does not hold, in words. The caller has checked its seals."""
    last, missed = head_of(session, experiment_id), []
    for anchor in sorted(set(anchors)):
        seq, check = anchor.head
        when = f" ({anchor.time})" if anchor.time else ""
        if seq > last.seq:
            missed.append(f"the log was cut off: it has {last.seq} events, and there was an event {seq}{when}.")
        elif _check_at(session, experiment_id, seq) != check:
            missed.append(f"event {seq} has not the checksum {check} that it had{when}: the log was written anew.")
    return missed


def head_of(session: Session, experiment_id: str) -> Head:
    """Where a log ends: that of an experiment, or of the store."""
    return session.operations_head() if experiment_id == STORE_LOG else session.existing_head(experiment_id)


def _check_at(session: Session, experiment_id: str, seq: int) -> str:
    if experiment_id == STORE_LOG:
        return session.operation_check(seq)
    return session.events(experiment_id, seq - 1, seq)[0].check
