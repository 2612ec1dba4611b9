"""The dashboard, put together."""

from __future__ import annotations

from fastapi import FastAPI

from conebandit.service.dashboard.kept import Kept
from conebandit.service.dashboard.pages import Pages
from conebandit.service.dashboard.sessions import Sessions
from conebandit.service.dashboard.views.control import add_control
from conebandit.service.dashboard.views.front import add_front
from conebandit.service.dashboard.views.log import add_log
from conebandit.service.dashboard.views.overview import add_overview
from conebandit.service.dashboard.views.progress import add_progress
from conebandit.service.dashboard.views.report import add_report
from conebandit.service.dashboard.views.segments import add_segments
from conebandit.service.dashboard.views.shift import add_shift
from conebandit.service.dashboard.views.what_if import add_what_if
from conebandit.service.http.access import Doorkeeper
from conebandit.service.http.backend import Backend

MAX_KEPT = 24  # maps, rules and comparisons of all experiments


def add_dashboard(app: FastAPI, door: Doorkeeper, backend: Backend, secret: bytes | None = None) -> Pages:
    """Let the application show its experiments to people; the pages are to be closed with it.

    Parameters
    ----------
    app
        The service.
    door, backend
        Its own.
    secret
        What cookies are signed with; random by default, so that one has to sign in again after a restart.
    """
    pages, kept = Pages(app, door, backend, Sessions(secret)), Kept(MAX_KEPT)
    pages.add_common()
    add_overview(pages)
    add_front(pages)
    add_segments(pages, kept)
    add_shift(pages, kept)
    add_what_if(pages)
    add_progress(pages)
    add_report(pages)
    add_log(pages)
    add_control(pages)
    pages.add_rest()  # last
    return pages
