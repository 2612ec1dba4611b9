"""What if other exchange rates held, or another resolution: the front on the same estimates, beside the present one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from fastapi import Response

from conebandit.experiment.errors import InvalidError
from conebandit.experiment.facets import facets_of
from conebandit.experiment.standing import Standing
from conebandit.experiment.what_if import Comparison, Hypothesis, compare, cone_in_words, present
from conebandit.service.dashboard.arms.charts import axis_label, margins, overview
from conebandit.service.dashboard.arms.contexts import Context, fields, read_context, recent_context
from conebandit.service.dashboard.arms.rows import ArmsAt, arms_at, arms_now, retired
from conebandit.service.dashboard.arms.suppositions import (
    MAX_ALL_PAIRS,
    is_said_by_rates,
    rate_rows,
    resolutions,
    supposed,
)
from conebandit.service.dashboard.looks import Look
from conebandit.service.dashboard.pages import Asked, Pages, Query
from conebandit.service.dashboard.views.front import to_context

PATH = "/what-if"


def add_what_if(pages: Pages) -> None:
    """Let people see what other preferences would change."""

    @pages.view(PATH)
    async def what_if(asked: Asked) -> Response:
        look = await pages.looks.get(asked.experiment)
        if "recent" in asked.query:
            recent = await pages.backend.read_long("events", recent_context, pages.backend.store, look.experiment)
            return to_context(asked, PATH, recent)
        context = read_context(look.experiment, asked.query)
        return await pages.compute(_show, pages, asked, look, context)


def _show(pages: Pages, asked: Asked, look: Look, context: Context) -> Response:
    form = {"fields": fields(look.experiment, context), "no_recent": "none" in asked.query}
    template = "what_if_part.html" if asked.part else "what_if.html"
    return pages.page(asked, template, view="What if", **{**form, **_shown(look, context, asked.query)})


def _shown(look: Look, context: Context, query: Query) -> dict[str, Any]:
    """What the template is given; where what was entered cannot be, the present front and what is wrong."""
    experiment, problem, compared = look.experiment, "", None
    hypothesis = present(experiment)
    try:
        hypothesis = supposed(experiment, query)
        compared = _compared(look, hypothesis, context)
        now = arms_at(look, compared.now, experiment.cone)
    except InvalidError as error:
        problem, now = str(error), arms_now(look, context)
    spreads = _spreads(now)
    return {
        "look": look,
        "metrics": [(metric, axis_label(metric)) for metric in experiment.metrics],
        "all_said": is_said_by_rates(experiment),
        "choose": len(experiment.metrics) > MAX_ALL_PAIRS,
        "rates": rate_rows(experiment, query, spreads),
        "resolutions": resolutions(experiment, query),
        "spreads": spreads,
        "problem": problem,
        "compared": compared,
        "hypothesis": hypothesis,
        "words": cone_in_words(experiment.cone, experiment.metrics),
        "now": overview(now.drawn),
        "then": overview(arms_at(look, compared.then, hypothesis.cone).drawn) if compared else [],
        "pairs": list(zip(compared.now, compared.then, strict=True)) if compared else [],
        "changes": _changes(compared, hypothesis) if compared else [],
        "n_drawn": now.n_drawn,
    }


def _compared(look: Look, hypothesis: Hypothesis, context: Context) -> Comparison:
    with look.lock:
        return compare(hypothesis, look.policy, look.experiment.encode(context), retired(look))


def _changes(compared: Comparison, hypothesis: Hypothesis) -> list[tuple[str, str, list[str]]]:
    """Arms that enter the front and leave it: a name, what becomes of it, and by how much it is beaten then."""
    facets = facets_of(hypothesis.cone, hypothesis.experiment.metrics)
    found: list[tuple[str, str, list[str]]] = [(arm.outlook.arm, "enters the front", []) for arm in compared.enter]
    return found + [(arm.outlook.arm, _leaves(arm), margins(arm, facets)) for arm in compared.leave]


def _leaves(arm: Standing) -> str:
    by = arm.outlook.beaten_by
    return "leaves the front" if by is None else f"leaves the front, most likely beaten by {by}"


def _spreads(arms: ArmsAt) -> dict[str, float]:
    """By how much the estimates of arms differ in each metric; nothing where that is not known."""
    found = {}
    for metric in arms.drawn.metrics:
        values: Sequence[float] = [arm.outlook.estimates[metric.name].estimate for arm in arms.drawn.arms]
        known = [value for value in values if math.isfinite(value)]
        if known and max(known) > min(known):
            found[metric.name] = max(known) - min(known)
    return found
