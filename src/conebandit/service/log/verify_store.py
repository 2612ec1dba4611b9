"""Is what a store keeps beside its experiments what its own log leads to? Keys, their terms, and which logs there are.

Somebody who can write to the store could make a key, widen one, or remove an experiment with all its events. With a
sealing key the log of the store cannot be made to say so, and that it was removed as a whole is seen where there are
keys, or where other logs name keys: those were made, and the log would tell.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from conebandit.service.log import bodies
from conebandit.service.log.anchors import STORE_LOG, Anchor, missed_anchors
from conebandit.service.log.operations import operation_body
from conebandit.service.stores.keys import KEY_TERMS, KeyRow
from conebandit.service.stores.records import Record
from conebandit.service.stores.seals import key_of
from conebandit.service.stores.session import Session

_UNKNOWN_KEY = "somebody has put it there, or a release that kept no such log. Revoke it, and make another one."


@dataclass(frozen=True)
class StoreVerification:
    """What was found.

    Attributes
    ----------
    operations
        How many the log of the store has; each matches its seal.
    keys
        How many API keys were compared with it.
    problems
        What does not agree, in words.
    key
        Id of the key that the log is sealed with; None if there is none.
    keyed_from
        Position of the first operation with a key; 0 if there is none.
    anchors
        How many were compared.
    """

    operations: int
    keys: int
    problems: tuple[str, ...]
    key: str | None
    keyed_from: int
    anchors: int


def verify_store(
    session: Session, named: Mapping[str, Collection[str]] | None = None, anchors: Collection[Anchor] = ()
) -> StoreVerification:
    """Read the log of the store, and compare keys and experiments with it.

    Parameters
    ----------
    session
        A look at the store.
    named
        By experiment, the names of the API keys that its events came with.
    anchors
        What the log of the store must hold.

    Raises
    ------
    CorruptionError
        If the log is not what was written.
    SealKeyError
        If it is sealed with a key that is not here.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from conebandit.service.http.keys import create_key
    >>> from conebandit.service.stores.base import open_store
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = open_store(str(pathlib.Path(folder) / "log.db"))
    ...     with store.write() as session:
    ...         _ = create_key(session, "checkout page", ["decide"])
    ...     with store.read() as session:
    ...         report = verify_store(session)
    ...     store.close()
    >>> report.operations, report.keys, report.problems
    (1, 1, ())
    """
    if not session.has_operations:
        return StoreVerification(0, 0, (), None, 0, 0)
    records, rows = session.operations(), session.api_keys()
    told = _Told.read(records)
    problems = [
        *_unsealed(session, records),
        *missed_anchors(session, STORE_LOG, anchors),
        *told.keys_that_differ(rows),
        *(f"experiment {id_!a} is not in the store, and nobody has archived it." for id_ in told.missing(session)),
        *told.unknown_names(named or {}, rows),
    ]
    keyed = (record.seq for record in records if key_of(record.check) is not None)
    key = key_of(records[-1].check) if records else None
    return StoreVerification(len(records), len(rows), tuple(problems), key, next(keyed, 0), len(anchors))


@dataclass
class _Told:
    """What the log of a store says, read to its end."""

    keys: dict[str, dict[str, str]]  # those that there should be, by id; what the log says of each
    revoked: set[str]  # ids
    names: set[str]  # of all keys that there were
    experiments: dict[str, None]  # those that there should be
    imported: set[str]  # experiments whose events may name keys of another store

    @classmethod
    def read(cls, records: list[Record]) -> _Told:
        told = cls({}, set(), set(), {}, set())
        for record in records:
            told._take(record)
        return told

    def _take(self, record: Record) -> None:
        body = operation_body(record)
        match record.kind:
            case "key_created":
                id_ = bodies.text(body, "id")
                self.keys[id_] = {term: bodies.text(body, term) for term in KEY_TERMS if term in body}
                self.names.add(bodies.text(body, "name"))
            case "key_revoked":
                id_ = bodies.text(body, "id")
                self.keys.pop(id_, None)
                self.revoked.add(id_)
                self.names.add(bodies.text(body, "name"))
            case "created" | "imported":
                self.experiments[bodies.text(body, "experiment")] = None
                if record.kind == "imported":
                    self.imported.add(bodies.text(body, "experiment"))
            case "archived":
                self.experiments.pop(bodies.text(body, "experiment"), None)

    def keys_that_differ(self, rows: list[KeyRow]) -> Iterator[str]:
        """Keys that are there and should not be, or the other way round, or that open something else."""
        there = {row.id: row for row in rows}
        for id_, row in there.items():
            if id_ in self.revoked:
                yield f"key {id_} ({row.name!a}) was revoked, and is in the store again: revoke it."
            elif id_ not in self.keys:
                yield f"the log of the store does not say that key {id_} ({row.name!a}) was made: {_UNKNOWN_KEY}"
            for term, made in self.keys.get(id_, {}).items():
                if (is_ := getattr(row, term)) != made:
                    values = "" if term == "digest" else f": {is_!a} in the store and {made!a} in its log"
                    yield f"key {id_} ({row.name!a}) was changed after it was made, {term}{values}. Revoke it."
        for id_, made_with in self.keys.items():
            if id_ not in there:
                yield f"key {id_} ({made_with['name']!a}) is gone from the store, and nobody has revoked it."

    def missing(self, session: Session) -> list[str]:
        """Experiments that were begun or imported, and are not there."""
        there = set(session.experiments())
        return [id_ for id_ in self.experiments if id_ not in there]

    def unknown_names(self, named: Mapping[str, Collection[str]], rows: list[KeyRow]) -> Iterator[str]:
        """Keys that events came with, and of which nothing else tells."""
        known = self.names | {row.name for row in rows}
        for experiment, names in named.items():
            for name in sorted(set(names) - known if experiment not in self.imported else ()):
                yield (
                    f"events of {experiment!a} came with a key {name!a}, and the log of the store does not know it: "
                    "that log was removed or cut off, or the key was made and revoked by a release that kept none."
                )


def _unsealed(session: Session, records: list[Record]) -> list[str]:
    """A log without a key, where there is one."""
    if session.seals.current is None or not records or key_of(records[-1].check) is not None:
        return []
    return [
        "the log of the store is not sealed with a key, and there is one here. Either it was begun before: then look "
        "at it with conebandit experiment audit, and run conebandit experiment seal. Or somebody took off its seals."
    ]
