"""Who looks at the dashboard: a signed cookie in place of the API key, and tokens for whatever changes something.

The cookie holds the id of the key, not the key, and is signed with a secret that only this process knows (or those that
were given the same one). The key is looked up at each request: whoever revokes it ends the session.
"""

from __future__ import annotations

import base64
import hmac
import json
import secrets
import time
from collections.abc import Callable
from hashlib import sha256
from typing import NamedTuple

COOKIE = "conebandit_session"
PATH = "/dashboard"
LIFETIME = 3600  # seconds without a request after which one has to sign in again
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

    def begin(self, key: str, actor: str = "") -> Session:
        """A new session."""
        now = int(self._clock())
        return Session(key, actor, now, now + LIFETIME, secrets.token_urlsafe(12))

    def renewed(self, session: Session) -> Session:
        """The same session, if less than half of its time is left with more of it; never beyond its longest time."""
        now = int(self._clock())
        if session.ends - now > LIFETIME // 2:
            return session
        return session._replace(ends=min(now + LIFETIME, session.begun + MAX_LIFETIME))

    def cookie(self, session: Session) -> str:
        """What the browser keeps."""
        body = base64.urlsafe_b64encode(json.dumps(session).encode()).decode()
        return f"{body}.{self._sign('session', body)}"

    def read(self, cookie: str) -> Session | None:
        """The session of a cookie; None if it is not ours, or over."""
        body, _, signature = cookie.partition(".")
        if not hmac.compare_digest(signature.encode(), self._sign("session", body).encode()):
            return None
        session = Session(*json.loads(base64.urlsafe_b64decode(body)))
        return session if self._clock() < session.ends else None

    def token(self, session: Session) -> str:
        """What a form of this session must carry."""
        return self._sign("form", session.id)

    def is_token(self, session: Session, given: str) -> bool:
        """Whether a form of this session has sent this."""
        return hmac.compare_digest(given.encode(), self.token(session).encode())

    def _sign(self, purpose: str, text: str) -> str:
        return hmac.new(self._secret, f"{purpose} {text}".encode(), sha256).hexdigest()
