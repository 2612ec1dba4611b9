"""API keys: shown once, stored as a hash, compared in constant time. Who made or revoked one is logged."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256

from conebandit.experiment.declaration import ID
from conebandit.experiment.entries import seconds, short
from conebandit.experiment.errors import InvalidError
from conebandit.service.errors import ConflictError
from conebandit.service.http.rates import Rate
from conebandit.service.log.entries import By
from conebandit.service.log.operations import key_names, log_operation
from conebandit.service.stores.keys import KEY_TERMS, KeyRow
from conebandit.service.stores.session import Session

SCOPES = ("decide", "report", "read", "admin")  # admin may do everything
MAX_EXPERIMENTS = 100  # that a key may be restricted to

_NOBODY = KeyRow("", "", "", "0" * 64, "")


def create_key(
    session: Session,
    name: str,
    scopes: Sequence[str],
    *,
    experiments: Sequence[str] = (),
    expires: str = "",
    rate: str = "",
    by: By | None = None,
) -> str:
    """Make a key; what is returned is kept nowhere.

    Parameters
    ----------
    session
        Of the store that keeps its hash.
    name
        By which events name it: no other key may have it, not even one that was revoked.
    scopes
        What it opens.
    experiments
        Ids of those that it is for, be they there or not; none: all.
    expires
        A time from now such as ``90d``, or a date; empty: never.
    rate
        Decisions and outcomes, such as ``100/s``; empty: what the service allows every key.
    by
        Who makes it.

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
    session.lock_operations()
    _check_name_is_new(session, name)
    if rate:
        Rate.parse(rate, "rate")
    id_, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
    ordered = ",".join(scope for scope in SCOPES if scope in scopes)
    key = KeyRow(
        id_, name, ordered, _digest(secret), _iso(datetime.now(UTC)), _experiments(experiments), _expiry(expires), rate
    )
    session.add_key(key)
    log_operation(session, "key_created", {term: getattr(key, term) for term in ("id", *KEY_TERMS)}, by)
    return f"cb_{id_}_{secret}"


def _check_name_is_new(session: Session, name: str) -> None:
    if any(row.name == name for row in session.api_keys()):
        raise ConflictError(f"there is a key {name!r} already, and logs tell keys by their names; take another one.")
    if name in key_names(session):
        raise ConflictError(
            f"there was a key {name!r}, which is revoked. Logs tell keys by their names, and what came with that one "
            "must not be taken for what comes with this one; take another name, such as one with a date or a number."
        )


def revoke_key(session: Session, id_: str, by: By | None = None) -> bool:
    """Make a key worthless; False if there is none."""
    name = next((row.name for row in session.api_keys() if row.id == id_), "")
    found = session.remove_key(id_)
    if found:
        log_operation(session, "key_revoked", {"id": id_, "name": name}, by)
    return found


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


def may_use(key: KeyRow | None, experiment: str) -> bool:
    """Whether a key is for this experiment; without keys everybody may use all."""
    return key is None or not key.experiments or experiment in key.experiments.split(",")


def has_expired(key: KeyRow) -> bool:
    """Whether its time is over."""
    return bool(key.expires) and datetime.now(UTC) >= datetime.fromisoformat(key.expires)


def _experiments(ids: Sequence[str]) -> str:
    if len(ids) > MAX_EXPERIMENTS:
        raise InvalidError(f"a key may be for at most {MAX_EXPERIMENTS} experiments, or for all; got {len(ids)}.")
    for id_ in ids:
        if not ID.fullmatch(id_):
            raise InvalidError(f"experiments must be ids such as 'checkout'; got {short(id_)}.")
    return ",".join(dict.fromkeys(ids))


def _expiry(given: str) -> str:
    """A point in time; dates are those of UTC."""
    if not given:
        return ""
    now = datetime.now(UTC)
    try:
        at = datetime.fromisoformat(given)
        at = at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except (ValueError, OverflowError):
        try:
            at = now + timedelta(seconds=seconds(given, "expires"))
        except InvalidError:
            raise InvalidError(
                f"expires must be a time from now of up to ten years, such as 90d, or a date such as 2030-01-31; "
                f"got {short(given)}."
            ) from None
    if at <= now:
        raise InvalidError(f"expires must be in the future; got {short(given)}.")
    return _iso(at)


def _iso(at: datetime) -> str:
    return at.isoformat(timespec="seconds")


def _digest(secret: str) -> str:
    """A plain hash is enough: a secret has 256 random bits, so it cannot be guessed from a list."""
    return sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
