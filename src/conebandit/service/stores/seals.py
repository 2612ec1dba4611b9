"""Seals: the checksum of a record over itself and everything before it, with a secret key if there is one.

Without a key, whoever can write to the store can change a log and compute all checksums again. With one, only who has
the key can. What that is worth, and what not: docs/threat-model.md.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Mapping
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Self

from conebandit.experiment.errors import InvalidError
from conebandit.service.errors import SealKeyError

START = "0" * 32  # the checksum before the first record
VARIABLE = "CONEBANDIT_SEAL_KEYS"
MIN_SECRET, MAX_SECRET = 32, 64  # characters; BLAKE2 takes keys of up to 64 bytes

_PLAIN = len(START)  # characters of a checksum without a key
_KEYED = re.compile(r"([A-Za-z0-9_-]{1,32})\.[0-9a-f]{32}")  # a checksum with a key
_KEY = re.compile(rf"([A-Za-z0-9_-]{{1,32}}):([\x21-\x7e]{{{MIN_SECRET},{MAX_SECRET}}})")
_READABLE_BY_OTHERS = 0o077


class Seals:
    """The keys that the records of a store are sealed and checked with; none by default.

    A checksum is 32 hexadecimal digits, after the id of the key and a dot if there is one. A key also covers the id of
    the experiment, so that a record cannot be moved to another log.

    Parameters
    ----------
    keys
        Secrets by the ids of the keys. The last one seals; all of them are good for checking.

    Attributes
    ----------
    current
        The id of the key that seals; None if there are no keys.

    Examples
    --------
    >>> seals = Seals({"k1": "a secret of at least 32 characters".replace(" ", "-")})
    >>> sealed = seals.seal("checkout", START, "what is sealed")
    >>> sealed[:3], seals.matches(sealed, "checkout", START, "what is sealed")
    ('k1.', True)
    >>> seals.matches(sealed, "checkout", START, "something else")
    False
    >>> Seals().matches(sealed, "checkout", START, "what is sealed")
    Traceback (most recent call last):
        ...
    conebandit.service.errors.SealKeyError: this log is sealed with key 'k1', which is not here: ...
    """

    def __init__(self, keys: Mapping[str, str] | None = None) -> None:
        self._keyed = {id_: blake2b(key=secret.encode(), digest_size=16) for id_, secret in (keys or {}).items()}
        self.current = next(reversed(self._keyed), None)

    @classmethod
    def parse(cls, text: str, where: str) -> Self:
        """Keys from lines ``id:secret``; empty ones, and those that begin with ``#``, say nothing."""
        keys: dict[str, str] = {}
        for number, line in enumerate(text.splitlines(), start=1):
            if not line.strip() or line.startswith("#"):
                continue
            found = _KEY.fullmatch(line.strip())
            if found is None or found[1] in keys:
                raise InvalidError(  # without the line: it may be a secret
                    f"{where}, line {number}: a key is ID:SECRET, with an id of its own (letters, digits, - and _) and "
                    f"a secret of {MIN_SECRET} to {MAX_SECRET} characters. Make one with conebandit seal-key new."
                )
            keys[found[1]] = found[2]
        if not keys:
            raise InvalidError(f"{where} has no key. Make one with conebandit seal-key new.")
        return cls(keys)

    @classmethod
    def from_file(cls, path: Path) -> Self:
        """The keys in a file, which nobody but its owner may read."""
        return cls.parse(read_secret(path, "seal keys"), str(path))

    @classmethod
    def from_environment(cls) -> Self:
        """The keys in the variable ``CONEBANDIT_SEAL_KEYS``, if it is set: lines as in a file."""
        text = os.environ.get(VARIABLE)
        return cls() if text is None else cls.parse(text, VARIABLE)

    def seal(self, experiment: str, before: str, record: str) -> str:
        """The checksum of a new record, which follows on one with checksum ``before``."""
        if self.current is not None:
            return f"{self.current}.{self._keyed_sum(self.current, experiment, before, record)}"
        if key_of(before) is not None:
            raise _missing_key(before)
        return _plain_sum(before, record)

    def matches(self, sealed: str, experiment: str, before: str, record: str) -> bool:
        """Whether a record has the right checksum; a ``SealKeyError`` if it takes a key that is not here.

        A record without a key never follows on one with a key.
        """
        if len(sealed) == _PLAIN:
            return len(before) == _PLAIN and sealed == _plain_sum(before, record)
        id_ = key_of(sealed)
        if id_ is None:
            return False
        if id_ not in self._keyed:
            raise _missing_key(sealed)
        return secrets.compare_digest(sealed, f"{id_}.{self._keyed_sum(id_, experiment, before, record)}")

    def check_head(self, experiment: str, last: str) -> None:
        """A ``SealKeyError`` if a log that ends with this checksum must not go on.

        If there is a key here, a log without one was begun before there was, or somebody has taken its seals off and
        changed it. To seal what comes next would vouch for that, so a person has to say which it is.
        """
        if self.current is not None and last != START and key_of(last) is None:
            raise SealKeyError(
                f"the log of {experiment!a} is not sealed with a key, and there is one here. Either it was begun "
                f"before: then look at it with conebandit verify, and run conebandit experiment seal {experiment}. Or "
                "somebody has changed it and taken off its seals."
            )
        key = key_of(last)
        if key is not None and key not in self._keyed:
            raise _missing_key(last)

    def _keyed_sum(self, id_: str, experiment: str, before: str, record: str) -> str:
        sum_ = self._keyed[id_].copy()
        sum_.update(f"{experiment}\n{before}\n{record}".encode("utf-8", "surrogatepass"))
        return sum_.hexdigest()


UNKEYED = Seals()


def find_seals(path: Path | None) -> Seals:
    """The keys in a file, if one is given, or else in the environment; not in both."""
    if path is None:
        return Seals.from_environment()
    if VARIABLE in os.environ:
        raise InvalidError(f"there are seal keys in {path} and in {VARIABLE}: give one of them.")
    return Seals.from_file(path)


def read_secret(path: Path, what: str) -> str:
    """What is in a file with secrets; an ``InvalidError`` if others than its owner may read it."""
    try:
        text, mode = path.read_text(encoding="utf-8"), path.stat().st_mode
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidError(f"the {what} {path} cannot be read: {error}") from None
    if os.name == "posix" and mode & _READABLE_BY_OTHERS:
        raise InvalidError(f"others may read the {what} {path}: run chmod 600 on it, or make it anew.")
    return text


def key_of(sealed: str) -> str | None:
    """The id of the key in a checksum; None if there is none.

    Examples
    --------
    >>> key_of("k1.00000000000000000000000000000000"), key_of(START)
    ('k1', None)
    """
    found = None if len(sealed) == _PLAIN else _KEYED.fullmatch(sealed)
    return None if found is None else found[1]


def new_key(id_: str | None = None) -> str:
    """A line with a new key.

    Examples
    --------
    >>> new_key("k1")[:3], Seals.parse(new_key("k1"), "here").current
    ('k1:', 'k1')
    """
    line = f"{secrets.token_hex(4) if id_ is None else id_}:{secrets.token_urlsafe(32)}"
    Seals.parse(line, "--id")
    return line


def add_key(path: Path, line: str) -> None:
    """Put a key at the end of a file, which is made for its owner alone if it is missing. From then on it seals."""
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    text = path.read_text(encoding="utf-8")
    Seals.parse(f"{text}\n{line}", str(path))  # the id may be there already
    with path.open("a", encoding="utf-8") as file:
        file.write(f"{'' if not text or text.endswith(chr(10)) else chr(10)}{line}\n")


def _plain_sum(before: str, record: str) -> str:
    return blake2b(f"{before}\n{record}".encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _missing_key(sealed: str) -> SealKeyError:
    return SealKeyError(
        f"this log is sealed with key {key_of(sealed)!a}, which is not here: give the file that has it as --seal-keys, "
        f"or its keys in the variable {VARIABLE}."
    )
