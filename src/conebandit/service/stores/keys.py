"""What a store keeps beside the logs of experiments: API keys, and a sealed log of what was done to itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from conebandit.service.stores.records import BEGINNING, Head, Record, check, seal
from conebandit.service.stores.seals import START, Seals

if TYPE_CHECKING:
    from conebandit.service.stores.session import Connection

# Stands where the scopes of a key would be that is limited in other ways, too; its scopes are then among its terms. A
# release that does not know of terms finds no scope that it knows, and lets nobody pass with such a key.
LIMITED = "limited"
KEY_TERMS = ("name", "scopes", "experiments", "expires", "rate", "digest")  # what the log of the store says of a key


class KeyRow(NamedTuple):
    """What is kept of an API key: not the key.

    Attributes
    ----------
    id, name
        Made, and given.
    scopes
        What it opens, with commas.
    digest
        Hash of the secret.
    created
        When, ISO 8601.
    experiments
        Ids of those that it is for, with commas; empty: all.
    expires
        From when on it opens nothing, ISO 8601; empty: never.
    rate
        How many decisions and outcomes it may ask for, such as ``100/s``; empty: as many as the service allows.
    used
        When it was last used, to the minute, ISO 8601; empty: not yet.
    """

    id: str
    name: str
    scopes: str
    digest: str
    created: str
    experiments: str = ""
    expires: str = ""
    rate: str = ""
    used: str = ""

    @property
    def limited(self) -> bool:
        """Whether it has terms beside its scopes."""
        return bool(self.experiments or self.expires or self.rate)


class KeyTables:
    """The part of a session that keeps keys and the log of the store. That log only grows."""

    def __init__(self, connection: Connection, seals: Seals) -> None:
        self._connection = connection
        self.seals = seals
        self._run = connection.execute

    # ---- keys ---------------------------------------------------------------------------------------------------

    def add_key(self, key: KeyRow) -> None:
        """Keep a key."""
        sql = "INSERT INTO api_keys (id, name, scopes, digest, created) VALUES (?, ?, ?, ?, ?)"
        shown = LIMITED if key.limited else key.scopes
        self._run(sql, (key.id, key.name, shown, key.digest, key.created))
        if key.limited:
            sql = "INSERT INTO key_terms (id, scopes, experiments, expires, rate) VALUES (?, ?, ?, ?, ?)"
            self._run(sql, (key.id, key.scopes, key.experiments, key.expires, key.rate))

    def api_keys(self) -> list[KeyRow]:
        """All keys, oldest first."""
        sql = """SELECT k.id, k.name, COALESCE(t.scopes, k.scopes), k.digest, k.created, COALESCE(t.experiments, ''),
                COALESCE(t.expires, ''), COALESCE(t.rate, ''), COALESCE(u.used, '')
            FROM api_keys k LEFT JOIN key_terms t ON t.id = k.id LEFT JOIN key_uses u ON u.id = k.id
            ORDER BY k.created, k.id"""
        return [KeyRow(*row) for row in self._run(sql)]

    def remove_key(self, id_: str) -> bool:
        """Forget a key; False if there is none."""
        for table in ("key_terms", "key_uses"):
            self._run(f"DELETE FROM {table} WHERE id = ?", (id_,))
        return bool(self._run("DELETE FROM api_keys WHERE id = ?", (id_,)).rowcount == 1)

    def note_uses(self, used: Mapping[str, str]) -> None:
        """When keys were used, by id; a later time that is known stays. In order, so that nobody waits in a ring."""
        sql = """INSERT INTO key_uses (id, used) SELECT id, ? FROM api_keys WHERE id = ?
            ON CONFLICT (id) DO UPDATE SET used = excluded.used WHERE key_uses.used < excluded.used"""
        for id_, at in sorted(used.items()):
            self._run(sql, (at, id_))

    # ---- the log of the store -----------------------------------------------------------------------------------

    def lock_operations(self) -> None:
        """Nobody else operates on the store until we commit, once there was a first operation."""
        list(self._run(f"SELECT seq FROM store_log WHERE seq = 1{self._connection.for_update}"))

    def append_operation(self, kind: str, body: dict[str, Any]) -> None:
        """Append what was done to the store itself, sealed with all before it."""
        self.lock_operations()
        added = False
        while not added:  # somebody else may append the first one at the same time, when there is nothing to lock yet
            before = self.operations_head()
            record = seal(before.check, before.seq + 1, kind, None, body, seals=self.seals)
            sql = "INSERT INTO store_log (seq, kind, body, sealed) VALUES (?, ?, ?, ?) ON CONFLICT (seq) DO NOTHING"
            added = self._run(sql, (record.seq, record.kind, record.text, record.check)).rowcount == 1

    def operations_head(self) -> Head:
        """Where the log of the store ends."""
        last = list(self._run("SELECT seq, sealed FROM store_log ORDER BY seq DESC LIMIT 1"))
        return Head(*last[0]) if last else BEGINNING

    def operation_check(self, seq: int) -> str:
        """The checksum of an operation, as stored; empty if there is none at that position."""
        found = list(self._run("SELECT sealed FROM store_log WHERE seq = ?", (seq,)))
        return str(found[0][0]) if found else ""

    def check_operations_seal(self) -> None:
        """A ``SealKeyError`` if the log of the store cannot go on, for want of a key."""
        self.seals.seal("", self.operations_head().check, "")

    @property
    def has_operations(self) -> bool:
        """Whether there is a log of the store: in one that cannot be changed, an earlier release has kept none."""
        return self._connection.has_table("store_log")

    def operations(self) -> list[Record]:
        """The log of the store; a ``CorruptionError`` if it is not what was written."""
        rows = self._run("SELECT seq, kind, body, sealed FROM store_log ORDER BY seq")
        records = [Record(seq, kind, None, text, sealed) for seq, kind, text, sealed in rows]
        return check(records, START, 0, seals=self.seals)
