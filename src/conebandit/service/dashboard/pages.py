"""What every view is registered with: who may see it, how it is shown, and what becomes of refusals."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar
from urllib.parse import parse_qsl, quote, unquote, urlencode

from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from starlette.exceptions import HTTPException

from conebandit._version import __version__
from conebandit.experiment.declaration import ID
from conebandit.experiment.errors import InvalidError, RefusalError
from conebandit.pages.template import ASSETS, asset, render, version
from conebandit.service.dashboard.counts.tallies import Tallies
from conebandit.service.dashboard.looks import Looks
from conebandit.service.dashboard.past.course import Courses
from conebandit.service.dashboard.sessions import COOKIE, OPEN, PATH, Session, Sessions
from conebandit.service.errors import NotFoundError, UnavailableError
from conebandit.service.http.access import NO_KEY, Doorkeeper
from conebandit.service.http.backend import Backend
from conebandit.service.http.callers import CALLER
from conebandit.service.http.connections import FewLines
from conebandit.service.http.errors import FAULT
from conebandit.service.http.logs import fields
from conebandit.service.log.entries import MAX_ACTOR, as_actor

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

LOOKING, DOING = ("GET", "HEAD"), ("POST",)
EVERY_METHOD = (*LOOKING, *DOING, "PUT", "PATCH", "DELETE", "OPTIONS")
MAX_FIELDS = 100  # of a form
MAX_ADDRESS = 2000  # characters of an address to which somebody comes back after signing in

T = TypeVar("T")
Query = dict[str, str]
View = Callable[["Asked"], Awaitable[Response]]
Handler = Callable[[Request], Awaitable[Response]]

log = logging.getLogger("conebandit.service")
sign_ins = logging.getLogger("conebandit.service.sign_ins")  # what strangers cause is said there
sign_ins.addFilter(FewLines())


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


NOBODY = Visitor("", "", (), "")  # who has not signed in
AWAY = "The store does not answer, so there is nothing to show. Nothing was changed; try again in a while."
HEADINGS = {403: "Not allowed", 404: "Not found", 500: "Something is broken", 503: "Not available"}


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
    said
        What an action has said that led here; see :meth:`Pages.back`.
    """

    request: Request
    experiment: str
    query: Query
    form: Query
    visitor: Visitor
    part: bool
    said: str = ""


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
    tallies
        What their logs add up to.
    courses
        Copies of their policies in the past.
    """

    def __init__(self, app: FastAPI, door: Doorkeeper, backend: Backend, sessions: Sessions) -> None:
        self._app, self._door, self._sessions = app, door, sessions
        self.backend, self.looks, self.tallies = backend, Looks(backend), Tallies(backend.store)
        self.courses = Courses(backend.store)
        self._computing, self._writing = asyncio.Lock(), asyncio.Lock()

    # ---- for views ----------------------------------------------------------------------------------------------

    def view(self, path: str, scope: str = "read") -> Callable[[View], View]:
        """Register what answers ``GET /dashboard/experiments/{experiment}`` followed by ``path``."""
        return self._route(f"{EXPERIMENTS}/{{experiment}}{path}", LOOKING, scope)

    def action(self, path: str, scope: str = "admin") -> Callable[[View], View]:
        """Register what a form does that is sent there; it must carry the token of the session."""
        return self._route(f"{EXPERIMENTS}/{{experiment}}{path}", DOING, scope)

    def home(self) -> Callable[[View], View]:
        """Register what answers ``GET /dashboard``."""
        return self._route(PATH, LOOKING, "read")

    async def compute(self, work: Callable[..., T], *args: Any) -> T:
        """Have something computed or written in a thread, for one who looks after the other.

        However many look, they keep one thread busy, not all of those that decisions need; who waits takes none.
        """
        async with self._computing:
            return await self.backend.in_thread(work, *args)

    async def show(self, asked: Asked, template: str, status: int = 200, **values: Any) -> HTMLResponse:
        """A page, or a part of one, from a template in ``templates/dashboard``, written in a thread.

        One after the other, but not after what is computed for others: a page whose values are there is soon written.
        """
        async with self._writing:
            return await self.backend.in_thread(partial(self.page, asked, template, status, **values))

    def page(self, asked: Asked, template: str, status: int = 200, **values: Any) -> HTMLResponse:
        """The same for those who are in a thread already: to fill a long template takes a while."""
        names: dict[str, Any] = {"experiment": asked.experiment} if asked.experiment else {}
        return self._page(asked.visitor, template, status, **{"said": asked.said, **names, **values})

    def back(self, asked: Asked, path: str, said: str = "") -> RedirectResponse:
        """After an action: to a view, with words on what was done. They are sealed, so that no link can forge them."""
        seal = self._sessions.seal(asked.visitor.csrf, said)
        query = f"?{urlencode({'said': said, 'seal': seal})}" if said else ""
        return _redirect(f"{EXPERIMENTS}/{quote(asked.experiment)}{path}{query}")

    # ---- routes -------------------------------------------------------------------------------------------------

    def add_common(self) -> None:
        """Signing in and out, and the files that pages load."""

        @self._open("/", LOOKING)
        async def front_door(_: Request) -> Response:
            return _redirect(PATH)

        @self._open(PATH + "/static/{name}", LOOKING)
        async def static(request: Request) -> Response:
            if request.path_params["name"] not in ASSETS:
                raise NotFoundError("there is no such file.")
            return _asset(request.path_params["name"])

        @self._open(SIGN_IN, LOOKING)
        async def sign_in(request: Request) -> Response:
            if await self._door.is_open():
                return _redirect(PATH)
            return self._sign_in_page(_local(request.query_params.get("next", "")))

        @self._open(SIGN_IN, DOING)
        async def enter(request: Request) -> Response:
            return await self._enter(request, await _form(request))

        @self._open(f"{PATH}/sign-out", DOING)
        async def leave(request: Request) -> Response:
            session, answer = self._session(request), _redirect(SIGN_IN)
            if session is not None and self._is_ours(request, session, await _form(request)):
                self._sessions.end(session)
                answer.delete_cookie(COOKIE, path=PATH)
            return answer

    def add_rest(self) -> None:
        """What is no page, or not asked for like one; added last, since routes are tried one after the other."""

        @self._open(PATH + "/{rest:path}", EVERY_METHOD)
        async def nothing(request: Request) -> Response:
            if not request.path_params["rest"]:
                return _redirect(PATH)
            if request.method in LOOKING:
                raise NotFoundError("there is no such page.")
            raise HTTPException(405, "this cannot be sent here.")

    def _route(self, path: str, methods: Sequence[str], scope: str) -> Callable[[View], View]:
        def register(view: View) -> View:
            @self._open(path, methods)
            async def answer(request: Request) -> Response:
                return await self._answer(request, view, scope)

            return view

        return register

    def _open(self, path: str, methods: Sequence[str]) -> Callable[[Handler], Handler]:
        """Register what answers whoever asks; if it refuses, that is said on a page."""

        def register(handler: Handler) -> Handler:
            async def answer(request: Request) -> Response:
                try:
                    return await handler(request)
                except (HTTPException, RefusalError) as refusal:
                    return self._problem(request, refusal)

            self._app.add_api_route(path, answer, methods=list(methods), include_in_schema=False, response_model=None)
            return handler

        return register

    async def _answer(self, request: Request, view: View, scope: str) -> Response:
        """Let a view answer whoever may ask it; who is not known has to sign in."""
        session = OPEN if await self._door.is_open() else self._session(request)
        if session is None:
            return _to_sign_in(request)
        try:
            await self._door.check_session(request, scope, session.key, session.actor or None)
        except HTTPException as refusal:
            if refusal.status_code == 401:
                return _to_sign_in(request)
            raise
        finally:
            request.state.visitor = self._visitor(session)  # for pages that say what went wrong
        answer = await view(await self._asked(request, session))
        renewed = session if session is OPEN else self._sessions.renewed(session)
        if renewed is not session:
            self._set_cookie(request, answer, renewed)
        return answer

    async def _asked(self, request: Request, session: Session) -> Asked:
        """What a view is asked, if the request is one that it may be asked."""
        experiment, visitor = request.path_params.get("experiment", ""), self._visitor(session)
        if experiment and not ID.fullmatch(experiment):
            raise NotFoundError(f"there is no experiment {experiment[:80]!a}.")
        form = {} if request.method in LOOKING else await _form(request)
        if request.method not in LOOKING and not self._is_ours(request, session, form):
            raise HTTPException(403, "This form is too old, or not from this page. Go back, reload and try again.")
        query = dict(request.query_params)
        said = query.get("said", "")
        return Asked(
            request=request,
            experiment=experiment,
            query=query,
            form=form,
            visitor=visitor,
            part="hx-request" in request.headers,
            said=said if self._sessions.is_seal(visitor.csrf, said, query.get("seal", "")) else "",
        )

    async def _enter(self, request: Request, form: Query) -> Response:
        """Let somebody sign in; refusals are counted, and a few of them logged."""
        where, actor = _local(form.get("next", "")), form.get("actor", "").strip()
        if not _same_origin(request):
            raise HTTPException(403, "This form is not from this page.")
        if await self._door.is_open():
            return _redirect(PATH)
        try:
            key = await self._door.sign_in(form.get("key", "").strip())
            actor = as_actor(actor, "your name") if actor else ""
        except (HTTPException, InvalidError) as refusal:
            words = refusal.detail if isinstance(refusal, HTTPException) else str(refusal)
            remote = None if request.client is None else request.client.host
            sign_ins.warning("somebody was not let in to the dashboard", extra=fields(remote=remote, reason=words))
            words = "this is not a key that opens the dashboard." if words == NO_KEY else words
            status = refusal.status_code if isinstance(refusal, HTTPException) else refusal.status
            return self._sign_in_page(where, words, status)
        answer = _redirect(where)
        self._set_cookie(request, answer, self._sessions.begin(key.id, actor))
        return answer

    # ---- small parts --------------------------------------------------------------------------------------------

    def _page(self, visitor: Visitor, template: str, status: int = 200, **values: Any) -> HTMLResponse:
        versions = {name: version(name) for name in ASSETS}
        always: dict[str, Any] = {"visitor": visitor, "views": VIEWS, "view": "", "versions": versions, "said": ""}
        text = render(f"dashboard/{template}", **{**always, **values}, version=__version__)
        return HTMLResponse(text, status, headers=HEADERS)

    def _problem(self, request: Request, refusal: HTTPException | RefusalError) -> Response:
        """A page that says why there is no other one; nothing of our insides is shown."""
        status, words = _status_and_words(refusal)
        heading = HEADINGS.get(status, "This cannot be done")
        visitor = getattr(request.state, "visitor", NOBODY)
        there = visitor is not NOBODY and status not in (403, 404)  # as far as we know
        experiment = request.path_params.get("experiment") if there else None
        names = {} if experiment is None else {"experiment": experiment}
        answer = self._page(visitor, "problem.html", status, heading=heading, problem=words, **names)
        answer.headers.update(getattr(refusal, "headers", None) or {})  # such as when to come again
        return answer

    def _sign_in_page(self, where: str, problem: str = "", status: int = 200) -> Response:
        return self._page(NOBODY, "sign_in.html", status, next=where, problem=problem, max_actor=MAX_ACTOR)

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


def _status_and_words(refusal: HTTPException | RefusalError) -> tuple[int, str]:
    if isinstance(refusal, HTTPException):
        return refusal.status_code, str(refusal.detail)
    if isinstance(refusal, UnavailableError):
        log.warning("the dashboard: %s", refusal)
        return 503, AWAY
    if refusal.status >= 500:
        log.error("the dashboard: %s", refusal)
        return refusal.status, FAULT
    return refusal.status, str(refusal)


def _redirect(where: str) -> RedirectResponse:
    return RedirectResponse(where, 303, headers=HEADERS)


def _asset(name: str) -> Response:
    headers = {**HEADERS, "cache-control": "public, max-age=31536000, immutable"}
    return Response(asset(name), media_type=ASSETS[name], headers=headers)


async def _form(request: Request) -> Query:
    """The fields of a form; what cannot be read is not there."""
    body = (await request.body()).decode("utf-8", "replace")
    try:
        return dict(parse_qsl(body, keep_blank_values=True, max_num_fields=MAX_FIELDS))
    except ValueError:
        raise InvalidError(f"a form has at most {MAX_FIELDS} fields.") from None


def _same_origin(request: Request) -> bool:
    """Whether a browser says that the request comes from a page of this service; others say nothing."""
    origin = request.headers.get("origin")
    return origin is None or origin.partition("://")[2] == request.headers.get("host")


def _local(where: str) -> str:
    """Where to go after signing in: a page of the dashboard and nothing else."""
    fine = where == PATH or where.startswith((PATH + "/", PATH + "?"))
    path = unquote(where.partition("?")[0])
    if not fine or "\\" in path or not where.isascii() or not where.isprintable() or ".." in path.split("/"):
        return PATH
    return where


def _to_sign_in(request: Request) -> Response:
    """To the page for signing in, and from there back; htmx is told to load a whole page."""
    here = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    if request.method not in LOOKING or len(here) > MAX_ADDRESS:
        here = PATH
    if "hx-request" in request.headers:
        return Response(status_code=204, headers={**HEADERS, "hx-redirect": f"{SIGN_IN}?{urlencode({'next': PATH})}"})
    return _redirect(f"{SIGN_IN}?{urlencode({'next': here})}")
