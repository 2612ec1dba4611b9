"""Who looks at the dashboard: a signed cookie in place of the API key, and tokens for whatever changes something.

The cookie holds the id of the key, not the key, and is signed with a secret that only this process knows (or those that
were given the same one). The key is looked up at each request: whoever revokes it ends the session.
"""

from __future__ import annotations

import base64
import hmac
import json
import os
import secrets
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from conebandit.experiment.errors import InvalidError
from conebandit.service.stores.seals import read_secret

COOKIE = "conebandit_session"
PATH = "/dashboard"
LIFETIME = 3600  # seconds without a request after which one has to sign in again
VARIABLE = "CONEBANDIT_SESSION_KEY"
MIN_KEY = 16  # bytes
RENEWED_AFTER = 60  # seconds
MAX_ENDED = 10_000  # sessions that are known to have ended
MAX_LIFETIME = 12 * 3600  # seconds after which one has to, whatever one did


class Session(NamedTuple):
    """What a cookie says.

    Attributes
    ----------
    key
        Id of the API key; empty while there are none.
    actor
        Who signed in, as they said; empty if they did not.
    begun
        When they signed in, in seconds since 1970.
    ends
        When the session ends unless there is another request before.
    id
        Told apart by this.
    """

    key: str
    actor: str
    begun: int
    ends: int
    id: str


OPEN = Session("", "", 0, 0, "")  # of everybody while there are no keys: it has no cookie


class Sessions:
    """Makes cookies and reads them.

    Parameters
    ----------
    secret
        What they are signed with; several processes that serve one dashboard need the same one. Random by default.
    clock
        Gives seconds since 1970.

    Examples
    --------
    >>> sessions = Sessions()
    >>> session = sessions.begin("a1b2c3", "dr. who")
    >>> sessions.read(sessions.cookie(session)) == session, sessions.read("forged.cookie") is None
    (True, True)
    """

    def __init__(self, secret: bytes | None = None, clock: Callable[[], float] = time.time) -> None:
        self._secret, self._clock = secret or secrets.token_bytes(32), clock
        self._ended: dict[str, float] = {}  # ids of sessions, and until when their cookies might be good

    def begin(self, key: str, actor: str = "") -> Session:
        """A new session."""
        now = int(self._clock())
        return Session(key, actor, now, now + LIFETIME, secrets.token_urlsafe(12))

    def renewed(self, session: Session) -> Session:
        """The same session after a request: its time begins anew, but never goes beyond its longest time.

        Within a minute nothing changes, so that few replies carry a cookie.
        """
        ends = min(int(self._clock()) + LIFETIME, session.begun + MAX_LIFETIME)
        return session if ends - session.ends < RENEWED_AFTER else session._replace(ends=ends)

    def end(self, session: Session) -> None:
        """Take no cookie of this session any more: one may be on its way to the browser, or somebody has a copy.

        Other processes do not know of it.
        """
        now = self._clock()
        known = {id_: until for id_, until in self._ended.items() if until > now}
        self._ended = dict([*known.items(), (session.id, session.begun + MAX_LIFETIME)][-MAX_ENDED:])

    def cookie(self, session: Session) -> str:
        """What the browser keeps."""
        body = base64.urlsafe_b64encode(json.dumps(session).encode()).decode().rstrip("=")  # cookies quote what has it
        return f"{body}.{self._sign('session', body)}"

    def read(self, cookie: str) -> Session | None:
        """The session of a cookie; None if it is not ours, or over."""
        body, _, signature = cookie.partition(".")
        if not _same(signature, self._sign("session", body)):
            return None
        try:
            session = Session(*json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4))))
        except (ValueError, TypeError):
            return None  # of another release with the same secret
        return session if self._clock() < session.ends and session.id not in self._ended else None

    def token(self, session: Session) -> str:
        """What a form of this session must carry."""
        return self._sign("form", session.id)

    def is_token(self, session: Session, given: str) -> bool:
        """Whether a form of this session has sent this."""
        return _same(given, self.token(session))

    def seal(self, token: str, words: str) -> str:
        """Comes with words in an address that the session of this token is to see, so that nobody else can say them."""
        return self._sign("said", f"{token} {words}")

    def is_seal(self, token: str, words: str, given: str) -> bool:
        """Whether these words are ours."""
        return _same(given, self.seal(token, words))

    def _sign(self, purpose: str, text: str) -> str:
        return hmac.new(self._secret, f"{purpose} {text}".encode("utf-8", "surrogatepass"), sha256).hexdigest()


def find_session_key(path: Path | None) -> bytes | None:
    """The secret in a file, if one is given, or else in the environment, if there; not in both."""
    given = os.environ.get(VARIABLE)
    if path is None:
        return None if given is None else _checked_key(given, VARIABLE)
    if given is not None:
        raise InvalidError(f"there is a session key in {path} and in {VARIABLE}: give one of them.")
    return _checked_key(read_secret(path, "session key"), str(path))


def _checked_key(text: str, where: str) -> bytes:
    """Without what is in it: it is a secret."""
    key = text.strip().encode("utf-8", "surrogateescape")
    if len(key) < MIN_KEY:
        raise InvalidError(f"{where}: a session key has at least {MIN_KEY} bytes; make one with openssl rand -hex 32.")
    return key


def _same(given: str, expected: str) -> bool:
    """Whether two signatures are the same; takes as long for one that is almost right."""
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), expected.encode())
