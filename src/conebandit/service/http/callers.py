"""Who sent a request: the API key, and whom the caller says to act for. Every event that it causes carries both."""

from __future__ import annotations

from contextlib import suppress
from contextvars import ContextVar
from typing import NamedTuple

from starlette.exceptions import HTTPException
from starlette.requests import Request

from conebandit.experiment.errors import InvalidError
from conebandit.service.log.entries import By, as_actor
from conebandit.service.stores.keys import KeyRow

ACTOR = "x-actor"  # the header; OpenAPI documents it for every route that needs a key


class Caller(NamedTuple):
    """Who sent a request.

    Attributes
    ----------
    key
        The API key; None while there are none.
    actor
        Who is behind it, as the caller says; None if it does not.
    """

    key: KeyRow | None = None
    actor: str | None = None

    @property
    def by(self) -> By | None:
        """What events keep of it; None if nobody is known.

        Examples
        --------
        >>> Caller(None, "dr. who").by
        By(key=None, actor='dr. who')
        >>> Caller().by is None
        True
        """
        name = None if self.key is None else self.key.name
        return None if name is None and self.actor is None else By(name, self.actor)


UNKNOWN = Caller()
# Set where a request is let in, and read where its events are made and where it is logged.
CALLER: ContextVar[Caller] = ContextVar("caller", default=UNKNOWN)


def actor_of(request: Request) -> str | None:
    """The actor that a request names; an error 422 if it cannot be one."""
    given = request.headers.getlist(ACTOR)
    if len(given) > 1:
        raise HTTPException(422, f"header X-Actor must be given once; got {len(given)} of them.")
    if not given or not given[0].strip():  # a proxy may send it empty
        return None
    name = given[0]  # read as Latin-1, which is what many clients send
    with suppress(UnicodeDecodeError):
        name = name.encode("latin-1").decode()
    try:
        return as_actor(name, "header X-Actor")
    except InvalidError as error:
        raise HTTPException(422, str(error)) from None
