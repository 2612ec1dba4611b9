"""The arms in metric space for a chosen context: who is on the front, how surely, and what beats the others."""

from __future__ import annotations

from itertools import combinations
from typing import Any
from urllib.parse import quote

from fastapi import Response
from fastapi.responses import RedirectResponse

from conebandit.experiment.declaration import Experiment
from conebandit.experiment.errors import InvalidError
from conebandit.experiment.what_if import cone_in_words, present_resolution
from conebandit.service.dashboard.arms.charts import MAX_PANELS, axis_label, pictures
from conebandit.service.dashboard.arms.contexts import Context, context_query, fields, read_context, recent_context
from conebandit.service.dashboard.arms.rows import arms_now, respects, retired
from conebandit.service.dashboard.looks import Look
from conebandit.service.dashboard.pages import EXPERIMENTS, HEADERS, Asked, Pages, Query

PATH = "/front"


def add_front(pages: Pages) -> None:
    """Let people see the front."""

    @pages.view(PATH)
    async def front(asked: Asked) -> Response:
        look = await pages.looks.get(asked.experiment)
        if "recent" in asked.query:
            recent = await pages.backend.read_long("events", recent_context, pages.backend.store, look.experiment)
            return to_context(asked, PATH, recent)
        context, pair = read_context(look.experiment, asked.query), _pair(look.experiment, asked.query)
        return await pages.compute(_show, pages, asked, look, context, pair)


def _show(pages: Pages, asked: Asked, look: Look, context: Context, pair: tuple[int, int]) -> Response:
    """In a thread: of many arms and metrics, to write the page takes longer than to compute what is on it."""
    form: dict[str, Any] = {
        "fields": fields(look.experiment, context),
        "pairs": _pairs(look.experiment),
        "pair": pair,
        "no_recent": "none" in asked.query,
    }
    template = "front_part.html" if asked.part else "front.html"
    return pages.page(asked, template, view="Front", **form, **_shown(look, context, pair))


def to_context(asked: Asked, path: str, context: Context | None) -> RedirectResponse:
    """To the same view at another context; if there is none, at the usual one, with a word on that."""
    query = "none=yes" if context is None else context_query(context)
    return RedirectResponse(f"{EXPERIMENTS}/{quote(asked.experiment)}{path}?{query}", 303, headers=HEADERS)


def _shown(look: Look, context: Context, pair: tuple[int, int]) -> dict[str, Any]:
    """What the template is given, but for the form."""
    arms, experiment = arms_now(look, context), look.experiment
    return {
        "look": look,
        "rows": arms.rows,
        "pictures": pictures(arms.drawn, pair),
        "metrics": [(metric, axis_label(metric)) for metric in experiment.metrics],
        "words": cone_in_words(experiment.cone, experiment.metrics),
        "respects": respects(arms.drawn.facets),
        "resolution": [(m, r) for m, r in zip(experiment.metrics, present_resolution(experiment), strict=True) if r],
        "gone": sorted(retired(look) - set(experiment.arms)),
        "n_drawn": arms.n_drawn,
        "chances": arms.has_chances,
        "beaten": any(not row.standing.outlook.on_front for row in arms.rows),
    }


def _pairs(experiment: Experiment) -> list[tuple[str, str]]:
    """What can be chosen to be drawn, if there are too many pairs to draw them all: a value and words for each."""
    names = [metric.name for metric in experiment.metrics]
    found = list(combinations(range(len(names)), 2))
    return [(f"{i}-{j}", f"{names[i]} and {names[j]}") for i, j in found] if len(found) > MAX_PANELS else []


def _pair(experiment: Experiment, query: Query) -> tuple[int, int]:
    """The positions of two metrics."""
    given, known = query.get("pair", "0-1"), {value for value, _ in _pairs(experiment)}
    if given != "0-1" and given not in known:
        raise InvalidError(f"pair must be two positions of metrics such as 0-1; got {given[:40]!a}.")
    first, _, second = given.partition("-")
    return int(first), int(second)
