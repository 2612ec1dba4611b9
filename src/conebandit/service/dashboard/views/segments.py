"""Who gets what: rules that can be read, and a map of one or two context columns."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import urlencode

import numpy as np
from fastapi import Response
from markupsafe import Markup

from conebandit.experiment import entries
from conebandit.experiment.columns import Categorical, Column, by_column
from conebandit.experiment.declaration import Experiment
from conebandit.experiment.outlook import units_of, with_units
from conebandit.pages.palette import series
from conebandit.service.dashboard.arms.contexts import PREFIX, Context, context_query, fields, read_context
from conebandit.service.dashboard.arms.rows import arms_now
from conebandit.service.dashboard.counts.tally import Sample, Tally
from conebandit.service.dashboard.kept import Kept
from conebandit.service.dashboard.looks import Look
from conebandit.service.dashboard.pages import Asked, Pages
from conebandit.service.dashboard.segments import map_chart, maps
from conebandit.service.dashboard.segments.map_chart import COLOURINGS, WORDS, Colouring
from conebandit.service.dashboard.segments.maps import Tiles
from conebandit.service.dashboard.segments.rules import Rules, rules_of, sample_of
from conebandit.validate.arrays import FloatArray


@dataclass(frozen=True)
class Choice:
    """What is to be seen: the columns of the map, its colours, and a context.

    Attributes
    ----------
    columns
        None, one or two.
    colouring
        What colours mean.
    context
        A value for each column; those of the map say which tile is looked at.
    usual
        A context like most; what is as usual is not part of an address.
    """

    columns: tuple[Column, ...]
    colouring: Colouring
    context: Context
    usual: Context

    @classmethod
    def read(cls, query: Mapping[str, str], kept: Kept, look: Look, tally: Tally) -> Choice:
        """From a query; an ``InvalidError`` says what is wrong with it."""
        experiment, contexts = look.experiment, sample_of(look, tally.sample)
        usual = maps.typical(experiment, contexts)
        context = read_context(experiment, {**{PREFIX + name: str(value) for name, value in usual.items()}, **query})
        names = [query[side] for side in ("x", "y") if query.get(side)]
        names = names or _usual_columns(experiment, rules_of(kept, look, tally))
        known = {column.name: column for column in experiment.columns}
        columns = [known[entries.one_of(name, tuple(known), "x and y")] for name in dict.fromkeys(names)]
        colouring: Colouring = entries.one_of(query.get("colour") or COLOURINGS[0], COLOURINGS, "colour")
        return cls(tuple(columns), colouring, context, usual)

    def address(self, context: Context | None = None) -> str:
        """Where this is seen, or the same map at another context."""
        changed = self.context if context is None else {**self.context, **context}
        names = [column.name for column in self.columns]
        asked: dict[str, Any] = {**dict(zip(("x", "y"), names, strict=False)), "colour": self.colouring}
        for name, value in changed.items():
            if value != self.usual[name]:
                asked[PREFIX + name] = value if isinstance(value, str) else f"{value:.6g}"
        return f"?{urlencode(asked)}"


def add_segments(pages: Pages, kept: Kept) -> None:
    """Let people see who gets what; ``kept`` has what was computed before."""
    one_at_a_time = asyncio.Lock()  # so that those who look take few threads, and little of what decisions need

    @pages.view("/segments")
    async def segments(asked: Asked) -> Response:
        look, tally = await pages.looks.get(asked.experiment), await pages.tallies.get(asked.experiment)
        if not asked.query and not asked.part:  # the page first, and then what takes a while
            return await pages.show(asked, "segments.html", view="Segments", look=look, tally=tally, later=True)
        async with one_at_a_time:
            return await pages.backend.in_thread(_show, pages, asked, kept, look, tally)

    @pages.view("/segments/rules")
    async def rules(asked: Asked) -> Response:
        look, tally = await pages.looks.get(asked.experiment), await pages.tallies.get(asked.experiment)
        async with one_at_a_time:
            found = await pages.backend.in_thread(_rules, kept, look, tally)
        return await pages.show(asked, "segments_rules.html", look=look, tally=tally, **found)


def _show(pages: Pages, asked: Asked, kept: Kept, look: Look, tally: Tally) -> Response:
    """The map, or the whole page; in a thread, since that is computed, and then much to write."""
    choice = Choice.read(asked.query, kept, look, tally)
    values: dict[str, Any] = {"look": look, "tally": tally, "map": _map(kept, look, tally, choice)}
    if not asked.part:
        whole = {"view": "Segments", "later": False, **_rules(kept, look, tally)}
        return pages.page(asked, "segments.html", **values, **whole)
    answer = pages.page(asked, "segments_map.html", **values)
    if "x" in asked.query:  # somebody has chosen it
        answer.headers["hx-push-url"] = f"{asked.request.url.path}{choice.address()}"
    return answer


# ---- rules ----------------------------------------------------------------------------------------------------------


def _rules(kept: Kept, look: Look, tally: Tally) -> dict[str, Any]:
    """What the template for rules is given."""
    experiment = look.experiment
    rules = rules_of(kept, look, tally)
    return {
        "rules": rules,
        "metrics": with_units([metric.name for metric in experiment.metrics], units_of(experiment.metrics)),
        "addresses": [] if rules is None else [_address_of(own, rules.usual) for own in rules.typical],
        "css": {name: series(k) for k, name in enumerate(experiment.arms)},
    }


def _address_of(context: Context, usual: Context) -> str:
    """Where one sees a context on the map."""
    return Choice((), COLOURINGS[0], context, usual).address()


# ---- the map --------------------------------------------------------------------------------------------------------


def _map(kept: Kept, look: Look, tally: Tally, choice: Choice) -> dict[str, Any]:
    """What the template for the map is given."""
    experiment, contexts = look.experiment, sample_of(look, tally.sample)
    tiles, around = None, np.ones(len(contexts), dtype=np.bool_)
    values: dict[str, Any] = {"picture": Markup(""), "legend": [], "left_out": [], "numbered": None}
    if choice.columns:
        others = tuple(v for name, v in choice.context.items() if name not in [c.name for c in choice.columns])
        key = ("map", look.log, look.version, tally.seen, tally.at, tuple(c.name for c in choice.columns), others)
        tiles = kept.get(key, partial(_tiles, look, choice, contexts))
        chosen = tiles.number_of(choice.context)
        around = _around(tiles, chosen, experiment, contexts)
        places = [choice.address(tiles.values(number)) for number in range(len(tiles.made))]
        drawn = map_chart.picture(tiles, experiment.arms, choice.colouring, places.__getitem__, chosen)
        values = {
            "picture": drawn,
            "legend": map_chart.coloured(tiles, experiment.arms, choice.colouring).legend,
            "left_out": [side for side in tiles.sides if side.left_out],
            "numbered": tiles.sides[0] if map_chart.is_numbered(tiles.sides[0]) else None,
        }
    decisions = _by_arm(tally, tally.sample, around)
    return {
        **values,
        "tiles": tiles,
        "arms": arms_now(look, choice.context).rows,
        "decisions": decisions,
        "columns": [column.name for column in experiment.columns],
        "sides": [column.name for column in choice.columns],
        "colouring": choice.colouring,
        "colourings": WORDS,
        "fields": fields(experiment, choice.context),
        "context": context_query(choice.context),
        "metrics": with_units([metric.name for metric in experiment.metrics], units_of(experiment.metrics)),
        "css": {name: series(k) for k, name in enumerate(experiment.arms)},
        "where": ", ".join(f"{c.name} {map_chart.value_words(choice.context[c.name])}" for c in choice.columns),
    }


def _tiles(look: Look, choice: Choice, contexts: FloatArray) -> Tiles:
    rows = maps.rows_within(look.policy, maps.MAX_TILES)
    sides = maps.make_sides(choice.columns, look.experiment, contexts, rows)
    return maps.make_tiles(look, sides, choice.context, contexts)


def _around(tiles: Tiles, chosen: int | None, experiment: Experiment, contexts: FloatArray) -> Any:
    """Which contexts of a sample (n, d) are in a tile, whatever their other columns are."""
    parts = {column.name: part for column, part in by_column(experiment.columns, contexts)}
    inside = np.full(len(contexts), chosen is not None)
    if chosen is not None:
        for side, place in zip(tiles.sides, divmod(chosen, tiles.shape[1]), strict=False):
            inside &= side.places(parts[side.column.name]) == place
    return inside


def _by_arm(tally: Tally, sample: Sample, inside: Any) -> dict[str, int]:
    """How often each arm was served among some decisions of a sample."""
    counts = np.bincount(sample.arm[inside], minlength=len(tally.arms)).tolist()
    return dict(zip(tally.arms, counts, strict=True))


def _usual_columns(experiment: Experiment, rules: Rules | None) -> list[str]:
    """Two columns to begin with: those that rules for most contexts ask about, then numbers, then others."""
    asked_about = dict.fromkeys((column.name for column in experiment.columns), 0)
    for segment in () if rules is None else rules.segments:
        for name in {condition.column for condition in segment.conditions}:
            asked_about[name] += segment.size
    ranked = sorted(experiment.columns, key=lambda c: (-asked_about[c.name], isinstance(c, Categorical)))
    return [column.name for column in ranked[:2]]
