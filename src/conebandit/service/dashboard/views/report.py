"""The report: shown here, and as a file to print or to send."""

from __future__ import annotations

import asyncio
import time
from typing import Any
from urllib.parse import quote

from fastapi import Response
from markupsafe import Markup
from starlette.exceptions import HTTPException

from conebandit.experiment.entries import one_of
from conebandit.pages.wording import share
from conebandit.service.dashboard.counts.tally import Tally
from conebandit.service.dashboard.kept import Kept
from conebandit.service.dashboard.pages import EXPERIMENTS, HEADERS, Asked, Pages
from conebandit.service.errors import ConflictError, CorruptionError
from conebandit.service.http.backend import Backend
from conebandit.service.report.facts import gather, head_of
from conebandit.service.report.page import report_body, whole_page
from conebandit.service.report.pdf import chromium, to_pdf
from conebandit.service.shift import ShiftWatch
from conebandit.service.stores.base import Store

FORMATS = {"html": "text/html; charset=utf-8", "pdf": "application/pdf"}
MAX_KEPT = 4  # reports in memory
PATIENCE = 30.0  # seconds that a file waits for a long log
MAX_WAIT = 20.0  # seconds that one waits while PDFs of others are made
BUSY = "Another PDF is being made. Ask again in a moment, or take the report as HTML and print that."


class Reports:
    """Reports, the latest of which are kept. To be asked by one thread at a time: each takes a core for a while.

    Parameters
    ----------
    store
        Where the logs are.
    watch
        For the shift of the contexts; nobody else may use it.
    """

    def __init__(self, store: Store, watch: ShiftWatch) -> None:
        self._store, self._watch = store, watch
        self._kept = Kept(MAX_KEPT)

    def body(self, tally: Tally) -> Markup:
        """The report on all that a tally has counted."""
        key = tally.experiment, head_of(self._store, tally).check
        return self._kept.get(key, lambda: report_body(gather(self._store, tally, self._watch)))

    def page(self, tally: Tally) -> str:
        """The same as a page of its own, made now."""
        return str(whole_page(self.body(tally), tally.experiment, int(time.time() * 1000)))


class Printer:
    """Pages on paper, one after the other: Chromium takes a core, and much memory. Nobody waits for long in vain."""

    def __init__(self, backend: Backend) -> None:
        self._backend, self._printing = backend, asyncio.Lock()

    async def print(self, page: str) -> bytes:
        """A page as PDF; a 503 if others are still being printed after some seconds."""
        try:
            await asyncio.wait_for(self._printing.acquire(), MAX_WAIT)
        except TimeoutError:
            raise HTTPException(503, BUSY, {"retry-after": f"{MAX_WAIT:.0f}"}) from None
        try:
            return await self._backend.in_thread(to_pdf, page)
        finally:
            self._printing.release()


def add_report(pages: Pages) -> None:
    """Let people read the report, and take it with them."""
    store, kernels = pages.backend.store, pages.backend.writer.kernels
    reports, one_at_a_time = Reports(store, ShiftWatch(store, kernels.for_shift)), asyncio.Lock()
    printer = Printer(pages.backend)

    @pages.view("/report")
    async def report(asked: Asked) -> Response:
        tally = await pages.tallies.get(asked.experiment)
        values: dict[str, Any] = {"tally": tally, "here": _here(asked), "pdf": chromium() is not None, "body": ""}
        return await pages.show(asked, "report_part.html" if asked.part else "report.html", view="Report", **values)

    @pages.view("/report/body")
    async def body(asked: Asked) -> Response:
        tally = _whole(await pages.tallies.get(asked.experiment, patience=PATIENCE))
        async with one_at_a_time:  # those who wait take no thread
            made = await pages.backend.in_thread(reports.body, tally)
        if asked.part:
            return Response(str(made), media_type="text/html", headers=HEADERS)
        values: dict[str, Any] = {"tally": tally, "here": _here(asked), "pdf": chromium() is not None, "body": made}
        return await pages.show(asked, "report.html", view="Report", **values)

    @pages.view("/report/file")
    async def file(asked: Asked) -> Response:
        format_ = one_of(asked.query.get("format", "html"), tuple(FORMATS), "format")
        tally = _whole(await pages.tallies.get(asked.experiment, patience=PATIENCE))
        async with one_at_a_time:
            page = await pages.backend.in_thread(reports.page, tally)
        content = page.encode() if format_ == "html" else await printer.print(page)
        name = f'attachment; filename="{asked.experiment}.{format_}"'
        return Response(content, media_type=FORMATS[format_], headers={**HEADERS, "content-disposition": name})


def _here(asked: Asked) -> str:
    return f"{EXPERIMENTS}/{quote(asked.experiment)}/report"


def _whole(tally: Tally) -> Tally:
    """A tally that has counted all, or a refusal."""
    if tally.problem:
        raise CorruptionError(tally.problem)
    if not tally.complete:
        raise ConflictError(
            f"the log is still being read, {share(tally.share_read)} of it so far. Ask again in a while, or have "
            f"'conebandit report {tally.experiment}' make the report."
        )
    return tally
