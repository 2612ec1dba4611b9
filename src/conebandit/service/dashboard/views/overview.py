"""Which experiments there are, and how one of them is doing."""

from __future__ import annotations

from fastapi import Response

from conebandit.service.dashboard.pages import Asked, Pages
from conebandit.service.http.callers import CALLER
from conebandit.service.http.keys import may_use


def add_overview(pages: Pages) -> None:
    """Let people see all experiments, and one of them."""

    @pages.home()
    async def experiments(asked: Asked) -> Response:
        key = CALLER.get().key
        ids = [id_ for id_ in await pages.backend.experiments() if may_use(key, id_)]
        return pages.show(asked, "experiments.html", experiments=ids)

    @pages.view("")
    async def overview(asked: Asked) -> Response:
        look = await pages.looks.get(asked.experiment)
        return pages.show(asked, "overview.html", view="Overview", look=look)
