"""Estimates in a context over time, and how many more observations until the front is settled."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from fastapi import Response

from conebandit.experiment.entries import one_of
from conebandit.experiment.errors import InvalidError
from conebandit.pages.wording import share
from conebandit.service.dashboard.arms.contexts import Context, context_query, fields, read_context
from conebandit.service.dashboard.looks import Look
from conebandit.service.dashboard.pages import EXPERIMENTS, Asked, Pages, Query
from conebandit.service.dashboard.past.course import Course
from conebandit.service.dashboard.past.progress import (
    Reading,
    Settling,
    arms_shown,
    chart,
    colours_of,
    readings,
    settled_chart,
    settled_words,
)

ALONG = {"time": "time", "observations": "observations"}  # what charts have along their lower edge
POWERS = ("0.5", "0.8", "0.9", "0.95")  # shares of contexts to ask for
PATIENCE = 10.0  # seconds that a simulation waits for the contexts of a long log
MAX_CHARTED = 16  # metrics


class _Wanted(NamedTuple):
    """What is to be shown."""

    context: Context
    by: str
    arm: str


def add_progress(pages: Pages) -> None:
    """Let people see how estimates have come about, and what is still to come."""
    settling, one_at_a_time = Settling(), asyncio.Lock()

    @pages.view("/progress")
    async def progress(asked: Asked) -> Response:
        look = await pages.looks.get(asked.experiment)
        wanted = _wanted(look, asked.query)
        course = await pages.backend.in_thread(pages.courses.ask, asked.experiment)
        return await pages.compute(_show, pages, asked, look, wanted, course)

    @pages.view("/progress/settled")
    async def settled(asked: Asked) -> Response:
        look = await pages.looks.get(asked.experiment)
        power = float(one_of(asked.query.get("power", "0.8"), POWERS, "power"))
        template = "settled_part.html" if asked.part else "settled.html"
        here = f"{EXPERIMENTS}/{quote(asked.experiment)}/progress/settled"
        values: dict[str, Any] = {"here": here, "powers": POWERS, "power": power, "problem": ""}
        try:
            tally = await pages.tallies.get(asked.experiment, patience=PATIENCE)
            if not tally.complete and not tally.problem:
                raise InvalidError(f"The log is still being read, {share(tally.share_read)} of it so far. Ask again.")
            async with one_at_a_time:  # those who wait take no thread
                size = await pages.backend.in_thread(settling.ask, look, tally.sample.x, power)
            picture = settled_chart(size, look.policy.n_observations)
            values |= {"size": size, "sentence": settled_words(size, look), "picture": picture}
        except InvalidError as error:
            values["problem"] = str(error)
        return await pages.show(asked, template, view="Progress", look=look, **values)


def _wanted(look: Look, query: Query) -> _Wanted:
    by = one_of(query.get("by", "time"), tuple(ALONG), "by")
    arm = query.get("arm", "")
    if arm and arm not in look.experiment.arms:
        raise InvalidError(f"arm must be one of {', '.join(look.experiment.arms)[:200]}; got {arm!a}.")
    return _Wanted(read_context(look.experiment, query), by, arm)


def _show(pages: Pages, asked: Asked, look: Look, wanted: _Wanted, course: Course) -> Response:
    """The page, or the part that htmx asks for; in a thread, since both may be large."""
    here = f"{EXPERIMENTS}/{quote(asked.experiment)}/progress"
    query = f"{context_query(wanted.context)}&{urlencode({'by': wanted.by, 'arm': wanted.arm})}"
    found = {**_found(course, look, wanted), "here": here, "again": f"{here}?{query}", "look": look, "wanted": wanted}
    if asked.part:
        return pages.page(asked, "progress_part.html", **found)
    found["fields"] = fields(look.experiment, wanted.context)
    return pages.page(asked, "progress.html", view="Progress", along=ALONG, **found)


def _found(course: Course, look: Look, wanted: _Wanted) -> dict[str, Any]:
    """What the template is given."""
    past = course.past()
    known = readings(course, past, look, look.experiment.encode(wanted.context))
    arms, colours = arms_shown(known[-1], wanted.arm), colours_of(look.experiment.arms)
    charted = look.experiment.metrics[:MAX_CHARTED]
    pictures = [chart(metric, known, arms, colours, wanted.by) for metric in charted] if known[-1].observations else []
    return {
        "readings": known,
        "arms": arms,
        "colours": colours,
        "pictures": pictures,
        "share_read": 1.0 if past.problem else past.share(look.events),
        "problem": past.problem,
        "more": len(known[-1].arms) - len(arms),
        "changes": _changes(known),
    }


def _changes(known: list[Reading]) -> list[tuple[Reading, list[str], list[str]]]:
    """Where the front was another one than at the reading before: which arms came, and which went."""
    found = []
    for before, after in itertools.pairwise(known):
        came = [arm for arm in after.front if arm not in before.front]
        went = [arm for arm in before.front if arm not in after.front]
        if came or went:
            found.append((after, came, went))
    return found
