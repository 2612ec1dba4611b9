"""The short way for decisions and outcomes: what FastAPI does for routes of every kind takes longer than a decision."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute
from pydantic import TypeAdapter, ValidationError
from starlette.requests import ClientDisconnect

from conebandit.experiment.declaration import ID
from conebandit.service.http.access import Handler

JSON = ("application/json", "application/json; charset=utf-8")  # what nearly all callers say


def quick(body: Any) -> Callable[[APIRoute, Handler], Handler]:
    """For routes of an experiment whose only other argument is a body of this type.

    A request that is as it should be is handed to the route's function right away. Any other takes the long way, on
    which FastAPI finds the words for what is wrong with it; so there is one place that refuses.
    """
    form: TypeAdapter[Any] = TypeAdapter(body)

    def quicken(route: APIRoute, long_way: Handler) -> Handler:
        async def handle(request: Request) -> Response:
            experiment = request.path_params["experiment"]
            if request.headers.get("content-type") not in JSON or not ID.fullmatch(experiment):
                return await long_way(request)
            try:
                asked = form.validate_python(json.loads(await request.body()))
            except (ValidationError, ValueError, RecursionError, ClientDisconnect):
                return await long_way(request)
            answer: Response = await route.endpoint(experiment, asked)
            return answer

        return handle

    return quicken
