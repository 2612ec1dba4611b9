"""The short way for decisions and outcomes: what FastAPI does for routes of every kind takes longer than a decision."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple, Protocol

from fastapi import Request, Response
from fastapi.routing import APIRoute
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from conebandit.experiment.declaration import ID
from conebandit.experiment.errors import RefusalError
from conebandit.service.http.access import Doorkeeper
from conebandit.service.http.errors import refusal_reply

JSON = (b"application/json", b"application/json; charset=utf-8")  # what nearly all callers say


class Form(Protocol):
    """Reads a body: a ``TypeAdapter`` of pydantic, or what does the same."""

    def validate_json(self, data: bytes, /) -> Any:
        """What was sent; a ``ValidationError`` if it is not as it should be."""
        ...


class ShortWay(NamedTuple):
    """A route of an experiment whose only other argument is a body.

    Attributes
    ----------
    route
        As FastAPI knows it. It is posted to.
    scope
        Of the keys that open it.
    form
        Of the body.
    answer
        Answers it, given the experiment and the body; as the route does. A ``ValidationError`` if the form has left
        something for later, and that is wrong: then nothing was done.
    """

    route: APIRoute
    scope: str
    form: Form
    answer: Callable[[str, Any], Awaitable[Response]]


class ShortWays:
    """Hands requests that are as they should be to the function of their route right away.

    Any other takes the long way, on which FastAPI finds the words for what is wrong with it; so there is one place that
    refuses.

    Parameters
    ----------
    app
        The long way.
    door
        Says who may pass; before the body is read.
    ways
        Those that there are.
    """

    def __init__(self, app: ASGIApp, door: Doorkeeper, ways: Sequence[ShortWay]) -> None:
        self._app, self._door, self._ways = app, door, ways

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, as ASGI does."""
        if scope["type"] == "http" and scope["method"] == "POST" and not scope.get("root_path"):
            for way in self._ways:
                found = way.route.path_regex.fullmatch(scope["path"])
                if found is not None and ID.fullmatch(found["experiment"]) and _is_json(scope):
                    scope["route"], scope["path_params"] = way.route, {"experiment": found["experiment"]}
                    await self._answer(way, Request(scope, receive), send)
                    return
        await self._app(scope, receive, send)

    async def _answer(self, way: ShortWay, request: Request, send: Send) -> None:
        try:
            await self._door.check(request, way.scope)
            body = await request.body()
            try:
                asked = way.form.validate_json(body)
                answer = await way.answer(request.path_params["experiment"], asked)
            except ValidationError:
                await self._app(request.scope, _once_more(body, request.receive), send)
                return
        except ClientDisconnect:
            await self._app(request.scope, request.receive, send)
            return
        except (RefusalError, HTTPException) as error:
            answer = refusal_reply(error)
        await answer(request.scope, request.receive, send)


def _is_json(scope: Scope) -> bool:
    return any(name == b"content-type" and value in JSON for name, value in scope["headers"])


def _once_more(body: bytes, receive: Receive) -> Receive:
    """Receive a body that has been read already."""
    unread: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_again() -> Message:
        return unread.pop() if unread else await receive()

    return receive_again
