"""What every view is registered with: who may see it, how it is shown, and what becomes of refusals."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from starlette.exceptions import HTTPException

from conebandit._version import __version__
from conebandit.experiment.errors import RefusalError
from conebandit.pages.template import ASSETS, asset, render, version
from conebandit.service.dashboard.looks import Looks
from conebandit.service.dashboard.sessions import COOKIE, PATH, Session, Sessions
from conebandit.service.errors import UnavailableError
from conebandit.service.http import keys
from conebandit.service.http.access import Doorkeeper
from conebandit.service.http.backend import Backend
from conebandit.service.http.callers import CALLER
from conebandit.service.http.errors import UNAVAILABLE
from conebandit.service.log.entries import MAX_ACTOR

SIGN_IN = f"{PATH}/sign-in"
EXPERIMENTS = f"{PATH}/experiments"  # so that an experiment may have any id, "static" too
# Pages load what is ours and nothing else, run no script that stands in them, and can be put into no frame.
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cache-control": "no-store",
}
# Path below that of the experiment, name, and the scope that it takes; in the order of the navigation.
VIEWS: list[tuple[str, str, str]] = [
    ("", "Overview", "read"),
    ("/front", "Front", "read"),
    ("/segments", "Segments", "read"),
    ("/shift", "Shift", "read"),
    ("/what-if", "What if", "read"),
    ("/progress", "Progress", "read"),
    ("/log", "Log", "read"),
    ("/control", "Control", "admin"),
    ("/report", "Report", "read"),
]

Query = dict[str, str]
View = Callable[["Asked"], Awaitable[Response]]

log = logging.getLogger("conebandit.service")


@dataclass(frozen=True)
class Visitor:
    """Who looks: name of the key (empty while there are none), who that is, what the key opens, a token for forms."""

    name: str
    actor: str
    scopes: tuple[str, ...]
    csrf: str

    def may(self, scope: str) -> bool:
        """Whether they may do what takes this scope."""
        return not self.name or scope in self.scopes or "admin" in self.scopes


@dataclass(frozen=True)
class Asked:
    """A request for a page.

    Attributes
    ----------
    request
        As it came.
    experiment
        The experiment in its path; empty if there is none.
    query
        What was asked for, by name; of several values of one name the last.
    form
        What a form has sent; empty for requests that only look.
    visitor
        Who asks.
    part
        Whether htmx asks for a part of a page.
    """

    request: Request
    experiment: str
    query: Query
    form: Query
    visitor: Visitor
    part: bool


class Pages:
    """Views are added here.

    Parameters
    ----------
    app
        Gets the routes; they are not in the schema of the API.
    door
        Knows who may pass.
    backend
        What views ask.
    sessions
        Of those who have signed in.

    Attributes
    ----------
    looks
        Experiments with copies of their policies.
    """

    def __init__(self, app: FastAPI, door: Doorkeeper, backend: Backend, sessions: Sessions) -> None:
        self._app, self._door, self._sessions = app, door, sessions
        self.backend, self.looks = backend, Looks(backend)

    # ---- for views ----------------------------------------------------------------------------------------------

    def view(self, path: str, scope: str = "read") -> Callable[[View], View]:
        """Register what answers ``GET /dashboard/experiments/{experiment}`` followed by ``path``."""
        return self._route(f"{EXPERIMENTS}/{{experiment}}{path}", "GET", scope)

    def action(self, path: str, scope: str = "admin") -> Callable[[View], View]:
        """Register what a form does that is sent there; it must carry the token of the session."""
        return self._route(f"{EXPERIMENTS}/{{experiment}}{path}", "POST", scope)

    def show(self, asked: Asked, template: str, status: int = 200, **values: Any) -> HTMLResponse:
        """A page, or a part of one, from a template in ``templates/dashboard``."""
        names: dict[str, Any] = {"experiment": asked.experiment} if asked.experiment else {}
        return self._page(asked.visitor, template, status, **names, **values)

    def back(self, asked: Asked, path: str, said: str = "") -> RedirectResponse:
        """After an action: to a view, with words on what was done."""
        query = f"?{urlencode({'said': said})}" if said else ""
        return RedirectResponse(f"{EXPERIMENTS}/{quote(asked.experiment)}{path}{query}", 303, headers=HEADERS)

    # ---- routes -------------------------------------------------------------------------------------------------

    def add_common(self) -> None:
        """Signing in and out, and the files that pages load."""

        @self._app.get(PATH + "/static/{name}", include_in_schema=False)
        async def static(name: str) -> Response:
            if name not in ASSETS:
                raise HTTPException(404, "there is no such file.")
            return _asset(name)

        @self._app.get(SIGN_IN, include_in_schema=False)
        async def sign_in(request: Request) -> Response:
            if await self._door.is_open():
                return RedirectResponse(PATH, 303)
            return self._sign_in_page(_local(request.query_params.get("next", "")))

        @self._app.post(SIGN_IN, include_in_schema=False)
        async def enter(request: Request) -> Response:
            form = await _form(request)
            where, actor = _local(form.get("next", "")), form.get("actor", "").strip()
            key = await self._door.find(form.get("key", "").strip()) if _same_origin(request) else None
            if key is None or keys.has_expired(key) or not keys.may(key, "read"):
                return self._sign_in_page(where, "This is not a key that opens the dashboard.", 401)
            if len(actor) > MAX_ACTOR or not actor.isprintable():
                return self._sign_in_page(where, f"A name has at most {MAX_ACTOR} printable characters.", 422)
            answer = RedirectResponse(where, 303, headers=HEADERS)
            self._set_cookie(request, answer, self._sessions.begin(key.id, actor))
            return answer

        @self._app.post(f"{PATH}/sign-out", include_in_schema=False)
        async def leave(request: Request) -> Response:
            session, form = self._session(request), await _form(request)
            answer = RedirectResponse(SIGN_IN, 303, headers=HEADERS)
            if session is not None and self._sessions.is_token(session, form.get("csrf", "")):
                answer.delete_cookie(COOKIE, path=PATH)
            return answer

    def home(self) -> Callable[[View], View]:
        """Register what answers ``GET /dashboard``."""
        return self._route(PATH, "GET", "read")

    def _route(self, path: str, method: str, scope: str) -> Callable[[View], View]:
        def register(view: View) -> View:
            async def answer(request: Request) -> Response:
                return await self._answer(request, view, scope)

            self._app.add_api_route(path, answer, methods=[method], include_in_schema=False, response_model=None)
            return view

        return register

    async def _answer(self, request: Request, view: View, scope: str) -> Response:
        """Let a view answer, or say why it does not."""
        open_to_all = await self._door.is_open()
        session = self._session(request)
        if session is None or (not session.key and not open_to_all):
            if not open_to_all:
                return _to_sign_in(request)
            session = self._sessions.begin("")  # for the token of its forms
        try:
            await self._door.check_session(request, scope, session.key, session.actor or None)
        except HTTPException as refusal:
            if refusal.status_code == 401:
                return _to_sign_in(request)
            return self._problem(self._visitor(session), refusal.status_code, str(refusal.detail))
        visitor = self._visitor(session)
        form = {} if request.method == "GET" else await _form(request)
        if request.method != "GET" and not self._is_ours(request, session, form):
            return self._problem(visitor, 403, "This form is too old, or not from this page. Go back and try again.")
        asked = Asked(
            request=request,
            experiment=request.path_params.get("experiment", ""),
            query=dict(request.query_params),
            form=form,
            visitor=visitor,
            part="hx-request" in request.headers,
        )
        try:
            answer = await view(asked)
        except UnavailableError:
            log.warning("the dashboard: the store does not answer")
            answer = self._problem(visitor, 503, UNAVAILABLE)
        except RefusalError as refusal:
            answer = self._problem(visitor, refusal.status, str(refusal))
        self._set_cookie(request, answer, self._sessions.renewed(session))
        return answer

    # ---- small parts --------------------------------------------------------------------------------------------

    def _page(self, visitor: Visitor, template: str, status: int = 200, **values: Any) -> HTMLResponse:
        versions = {name: version(name) for name in ASSETS}
        always: dict[str, Any] = {"visitor": visitor, "views": VIEWS, "view": "", "versions": versions}
        text = render(f"dashboard/{template}", **{**always, **values}, version=__version__)
        return HTMLResponse(text, status, headers=HEADERS)

    def _problem(self, visitor: Visitor, status: int, words: str) -> Response:
        heading = {403: "Not allowed", 404: "Not found", 503: "Not available"}.get(status, "This cannot be done")
        return self._page(visitor, "problem.html", status, heading=heading, problem=words)

    def _sign_in_page(self, where: str, problem: str = "", status: int = 200) -> Response:
        nobody = Visitor("", "", (), "")
        return self._page(nobody, "sign_in.html", status, next=where, problem=problem, max_actor=MAX_ACTOR)

    def _session(self, request: Request) -> Session | None:
        return self._sessions.read(request.cookies.get(COOKIE, ""))

    def _set_cookie(self, request: Request, answer: Response, session: Session) -> None:
        """The browser sends it to the dashboard only, and no script can read it."""
        secure = request.url.scheme == "https"
        value = self._sessions.cookie(session)
        answer.set_cookie(COOKIE, value, path=PATH, httponly=True, samesite="lax", secure=secure)

    def _visitor(self, session: Session) -> Visitor:
        key, token = CALLER.get().key, self._sessions.token(session)
        if key is None:
            return Visitor("", session.actor, (), token)
        return Visitor(key.name, session.actor, tuple(key.scopes.split(",")), token)

    def _is_ours(self, request: Request, session: Session, form: Mapping[str, str]) -> bool:
        """Whether a form comes from a page of this session."""
        given = request.headers.get("x-csrf-token") or form.get("csrf", "")
        return _same_origin(request) and self._sessions.is_token(session, given)


def _asset(name: str) -> Response:
    headers = {"cache-control": "public, max-age=31536000, immutable", "x-content-type-options": "nosniff"}
    return Response(asset(name), media_type=ASSETS[name], headers=headers)


async def _form(request: Request) -> Query:
    """The fields of a form; what cannot be read is not there."""
    body = (await request.body()).decode("utf-8", "replace")
    return dict(parse_qsl(body, keep_blank_values=True, max_num_fields=1000))


def _same_origin(request: Request) -> bool:
    """Whether a browser says that the request comes from a page of this service; others say nothing."""
    origin = request.headers.get("origin")
    return origin is None or urlsplit(origin).netloc == request.headers.get("host")


def _local(where: str) -> str:
    """Where to go after signing in: a page of the dashboard and nothing else."""
    fine = where.startswith(PATH + "/") or where == PATH or where.startswith(PATH + "?")
    return where if fine and "\\" not in where and where.isprintable() else PATH


def _to_sign_in(request: Request) -> Response:
    """To the page for signing in, and from there back; htmx is told to load a whole page."""
    here = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    if request.method != "GET":
        here = PATH
    target = f"{SIGN_IN}?{urlencode({'next': here})}"
    if "hx-request" in request.headers:
        return Response(status_code=204, headers={**HEADERS, "hx-redirect": f"{SIGN_IN}?{urlencode({'next': PATH})}"})
    return RedirectResponse(target, 303, headers=HEADERS)
