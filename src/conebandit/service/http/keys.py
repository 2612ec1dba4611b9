"""API keys: shown once, stored as a hash, compared in constant time."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime
from hashlib import sha256

from conebandit.experiment.errors import InvalidError
from conebandit.service.stores.session import KeyRow, Session

SCOPES = ("decide", "report", "read", "admin")  # admin may do everything

_NOBODY = KeyRow("", "", "", "0" * 64, "")


def create_key(session: Session, name: str, scopes: Sequence[str]) -> str:
    """Make a key; what is returned is kept nowhere.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from conebandit.service.stores.base import open_store
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = open_store(str(pathlib.Path(folder) / "log.db"))
    ...     with store.write() as session:
    ...         key = create_key(session, "checkout page", ["decide", "report"])
    ...         kept = session.api_keys()
    ...     store.close()
    >>> find_key(kept, key).name, may(find_key(kept, key), "admin"), find_key(kept, key + "x")
    ('checkout page', False, None)
    """
    if not scopes or not set(scopes) <= set(SCOPES):
        raise InvalidError(f"scopes must be one or more of {', '.join(SCOPES)}; got {', '.join(scopes) or 'none'}.")
    if not 1 <= len(name) <= 64 or not name.isprintable():
        raise InvalidError(f"name must have 1 to 64 printable characters; got {name!a}.")
    id_, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
    ordered = ",".join(scope for scope in SCOPES if scope in scopes)
    created = datetime.now(UTC).isoformat(timespec="seconds")
    session.add_key(KeyRow(id_, name, ordered, _digest(secret), created))
    return f"cb_{id_}_{secret}"


def find_key(kept: Sequence[KeyRow], given: str) -> KeyRow | None:
    """The kept key that was given; as long for a wrong id as for a wrong secret."""
    _, _, rest = given.partition("_")
    id_, _, secret = rest.partition("_")
    row = next((row for row in kept if row.id == id_), _NOBODY)
    same = hmac.compare_digest(_digest(secret), row.digest)
    return row if same and row is not _NOBODY and given.startswith("cb_") else None


def may(key: KeyRow, scope: str) -> bool:
    """Whether a key opens this."""
    scopes = key.scopes.split(",")
    return scope in scopes or "admin" in scopes


def _digest(secret: str) -> str:
    """A plain hash is enough: a secret has 256 random bits, so it cannot be guessed from a list."""
    return sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
