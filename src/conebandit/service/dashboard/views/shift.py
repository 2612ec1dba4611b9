"""Has the population moved: the alarm, traffic by segment over time, which columns moved, and what that changes."""

from __future__ import annotations

import asyncio
import math
from datetime import UTC, datetime
from typing import Any

from fastapi import Response
from markupsafe import Markup

from conebandit.experiment.declaration import ShiftBlock
from conebandit.experiment.errors import InvalidError
from conebandit.pages.chart import Axis, Panel
from conebandit.pages.palette import series
from conebandit.pages.wording import moment, number, share, shown
from conebandit.service.dashboard.counts.tally import Tally
from conebandit.service.dashboard.kept import Kept
from conebandit.service.dashboard.looks import Look
from conebandit.service.dashboard.pages import Asked, Pages
from conebandit.service.dashboard.segments.moved import BeforeAfter, MovedColumn, Period, compare, traffic
from conebandit.service.dashboard.segments.rules import Rules, rules_of
from conebandit.service.log.times import as_time
from conebandit.service.replies import ShiftReport

WIDTH, HEIGHT = 900, 300  # of traffic over time
SMALL = (120, 34)  # of a picture in a table
MAX_EVIDENCE = 1e6  # that is written as a number; it says no more than
MUCH = "more than a million"


def add_shift(pages: Pages, kept: Kept) -> None:
    """Let people see whether the population has moved; ``kept`` has what was computed before."""
    one_at_a_time = asyncio.Lock()  # so that those who look take few threads, and little of what decisions need
    # Of each experiment that somebody has waited for, of which log, and the last report on it.
    reports: dict[str, tuple[object, ShiftReport]] = {}

    async def alarm_of(asked: Asked) -> dict[str, Any]:
        look = await pages.looks.get(asked.experiment)
        report = await pages.backend.read_long("shift", pages.backend.shift.report, asked.experiment)
        reports[asked.experiment] = look.log, report
        return _alarm(report, look.experiment.shift_block)

    async def population(asked: Asked) -> dict[str, Any]:
        look, tally = await pages.looks.get(asked.experiment), await pages.tallies.get(asked.experiment)
        log, report = reports.get(asked.experiment, (None, None))
        changed = _since(report if log is look.log else None)
        since = _chosen_time(asked.query["since"]) if "since" in asked.query else changed
        async with one_at_a_time:
            found = await pages.backend.in_thread(_population, kept, look, tally, since, changed)
        return {"look": look, "tally": tally, **found}

    @pages.view("/shift")
    async def shift(asked: Asked) -> Response:
        if not asked.query:  # the page first, and then what takes a while
            look, tally = await pages.looks.get(asked.experiment), await pages.tallies.get(asked.experiment)
            return await pages.show(asked, "shift.html", view="Shift", look=look, tally=tally, later=True)
        _chosen_time(asked.query.get("since", ""))  # refuses what is none before a log is read
        values = {**await alarm_of(asked), **await population(asked)}
        return await pages.show(asked, "shift.html", view="Shift", **values, later=False, follow=False)

    @pages.view("/shift/alarm")
    async def alarm(asked: Asked) -> Response:
        values = await alarm_of(asked)
        if values["report"].alarm is not None:  # compare what came before the change with what came after
            values |= {**await population(asked), "follow": True}
        return await pages.show(asked, "shift_alarm.html", **{"follow": False, **values})

    @pages.view("/shift/population")
    async def moved(asked: Asked) -> Response:
        return await pages.show(asked, "shift_population.html", **await population(asked))


# ---- the alarm ------------------------------------------------------------------------------------------------------


def _alarm(report: ShiftReport, shift_block: ShiftBlock) -> dict[str, Any]:
    """What the template for the alarm is given."""
    evidence, most = report.evidence, math.log(1 / report.alpha)
    filled = 1.0 if evidence is None else min(max(math.log(max(evidence, 1.0)) / most, 0.0), 1.0)
    return {
        "report": report,
        "noticed": None if report.alarm is None else as_time(report.alarm.noticed_at, "noticed_at"),
        "since": _since(report),
        "evidence": number(evidence) if evidence is not None and evidence < MAX_EVIDENCE else MUCH,
        "filled": f"{filled:.3f}",
        "chooses": shift_block == "auto",
        "per_context": shift_block in ("auto", 1),  # else the reference is a number of blocks
    }


def _since(report: ShiftReport | None) -> int | None:
    """Since when the population is another one, if it is."""
    return None if report is None or report.alarm is None else as_time(report.alarm.since, "since")


# ---- the population -------------------------------------------------------------------------------------------------


def _population(kept: Kept, look: Look, tally: Tally, since: int | None, changed: int | None) -> dict[str, Any]:
    """What the template for traffic and for what moved is given."""
    rules = rules_of(kept, look, tally)
    values: dict[str, Any] = {"rules": rules, "pair_of_bars": pair_of_bars, "small_picture": small_picture}
    values["since_field"] = "" if since is None else f"{datetime.fromtimestamp(since / 1000, UTC):%Y-%m-%dT%H:%M:%S}"
    if rules is None:
        return {**values, "comparison": None, "traffic": None}
    key = ("compared", look.log, look.version, tally.seen, tally.at, since)
    periods = traffic(rules, tally.sample)
    return {
        **values,
        "comparison": kept.get(key, lambda: compare(look, rules, tally.sample, since)),
        "traffic": {
            "periods": periods,
            "picture": traffic_picture(rules, periods, changed),
            "css": [series(k) for k in range(len(rules.segments))],
            "marked": changed is not None,
        },
    }


def traffic_picture(rules: Rules, periods: list[Period], changed: int | None) -> Markup:
    """Stacked bars, one for each period, and a line where the population changed."""
    ticks = tuple((k / 4, share(k / 4)) for k in range(5))
    panel = Panel(
        Axis.of_times([periods[0].start, periods[-1].end - 1]),
        Axis("share of the decisions", 0.0, 1.0, ticks),
        width=WIDTH,
        height=HEIGHT,
    )
    for period in periods:
        room, low = 0.08 * (period.end - period.start), 0.0
        for place, part in enumerate(period.shares):
            rule = shown(rules.segments.leaves[place].rule, 120)
            title = f"{moment(period.start)}: {share(part)} of {period.decisions} decisions: {rule}"
            if part > 0:
                panel.box((period.start + room, low), (period.end - room, low + part), series(place), title)
            low += part
    if changed is not None:
        panel.span((changed, 0.0), (changed, 1.0), css="alarm")
    return panel.svg("Share of each segment over time; the table below has the numbers")


def small_picture(column: MovedColumn) -> Markup:
    """How a column was distributed in the earlier part, as outlines, and in the later one, filled."""
    width, height = SMALL
    before, after = column.bins
    step, top = width / len(before), max(*before, *after)
    parts = [
        Markup('<rect class="{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"/>').format(
            css, k * step + 1, height - 1 - value / top * (height - 3), step - 2, value / top * (height - 3)
        )
        for css, values in (("bar", after), ("outline", before))
        for k, value in enumerate(values)
    ]
    name = f"{shown(column.name)}: {column.measured.source_mean:.4g} before, {column.measured.target_mean:.4g} after"
    form = Markup('<svg class="chart small" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>')
    return form.format(width, height, name, Markup("").join(parts))


def pair_of_bars(row: BeforeAfter) -> Markup:
    """Two shares, the earlier one as an outline above the later one."""
    width, height = SMALL
    form = Markup('<rect class="{}" x="1" y="{}" width="{:.1f}" height="12"/>')
    bars = [
        form.format(css, y, value * (width - 2))
        for css, y, value in (("outline", 2, row.before), ("bar", 18, row.after))
    ]
    name = f"{share(row.before)} before, {share(row.after)} after"
    picture = Markup('<svg class="chart small" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>')
    return picture.format(width, height, name, Markup("").join(bars))


def _chosen_time(given: str) -> int | None:
    """Milliseconds since 1970 from what a field for a date and time sends, in UTC; None if it is empty."""
    if not given:
        return None
    try:
        time = datetime.fromisoformat(given)
        return round((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise InvalidError(f"since must be a date and time such as '2026-11-16T09:30'; got {given[:40]!a}.") from None
