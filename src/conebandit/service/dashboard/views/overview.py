"""Which experiments there are, how one of them is doing, and how the service is."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import Response

from conebandit.pages.palette import series
from conebandit.service.dashboard.counts.tally import Tally
from conebandit.service.dashboard.pages import Asked, Pages
from conebandit.service.dashboard.words import summary
from conebandit.service.dashboard.words.alarms import Alarms
from conebandit.service.dashboard.words.telling import arm_words, by_whom, told
from conebandit.service.http.backend import Backend
from conebandit.service.http.callers import CALLER
from conebandit.service.http.keys import may_use

MAX_ORDERS = 12  # that are shown; the log has all
MAX_WAIT = 0.5  # seconds for the word of the writer that the store can be written to
MAX_ARMS = 200  # in the table of traffic


def add_overview(pages: Pages) -> None:
    """Let people see all experiments, and one of them."""
    alarms, all_lines = Alarms(pages.backend), summary.Lines(pages.backend.store)

    @pages.home()
    async def experiments(asked: Asked) -> Response:
        key = CALLER.get().key
        ids = [id_ for id_ in await pages.backend.experiments() if may_use(key, id_)]
        lines = await pages.backend.in_thread(all_lines.get, ids)
        tallies = await pages.tallies.get_all(ids)
        rows = [_row(line, tallies.get(line.id)) for line in lines]
        shifts = await alarms.known({line.id: line.head for line in lines if line.readable}, "all")
        ahead = {id_: seconds for id_, seconds in pages.backend.writer.ahead.items() if id_ in tallies}
        values: dict[str, Any] = {
            "rows": rows,
            "shifts": shifts,
            "stopped": sum(bool(line.stopped) for line in lines),
            "shifted": sum(report is not None and report.alarm is not None for report in shifts.values()),
            "health": await _health(pages.backend, ahead),
        }
        template = "experiments_part.html" if asked.part else "experiments.html"
        return await pages.show(asked, template, **values)

    @pages.view("")
    async def overview(asked: Asked) -> Response:
        id_ = asked.experiment
        present = await pages.backend.in_turn(id_, lambda turn: summary.now(turn, id_))
        tally = await pages.tallies.get(id_)
        shift = (await alarms.known({id_: present.head}, f"one {id_}"))[id_]
        template = "overview_part.html" if asked.part else "overview.html"
        ahead = {name: seconds for name, seconds in pages.backend.writer.ahead.items() if name == id_}
        values: dict[str, Any] = {"shift": shift, "alarm": "" if shift is None else summary.alarm_words(shift)}
        values["health"] = await _health(pages.backend, ahead)
        return await pages.compute(
            lambda: pages.page(asked, template, view="Overview", **values, **_shown(present, tally))
        )


def _row(line: summary.Line, tally: Tally | None) -> dict[str, Any]:
    """One experiment in the table of all."""
    return {
        **line._asdict(),
        "decisions": None if tally is None else tally.n_decisions,
        "lacking": summary.share_lacking(tally),
        "read": 0.0 if tally is None or not line.events else min(tally.seen / line.events, 1.0),
        "readable": line.readable and not (tally is not None and tally.problem),
    }


def _shown(present: summary.Now, tally: Tally) -> dict[str, Any]:
    """What the template is given of an experiment."""
    served = {arm.name: arm.active for arm in present.description.arms}
    made = {**dict.fromkeys(served, 0), **tally.decisions}
    arms = sorted(made.items(), key=lambda item: -item[1])
    reasons = [entry.event for entry in tally.orders if entry.event.kind == "stage_changed"]
    return {
        "now": present,
        "life": summary.life(present.description, present.halted),
        "reason": getattr(reasons[-1], "reason", "") if reasons else "",
        "tally": tally,
        "metrics": [(metric, tally.standing.get(metric.name)) for metric in present.experiment.metrics],
        "rules": summary.rule_lines(present.statuses, present.rules),
        "arms": [(name, count, arm_words(name, served, present.barred)) for name, count in arms[:MAX_ARMS]],
        "more_arms": len(arms) - MAX_ARMS,
        "decisions_chart": summary.decisions_chart(tally.traffic),
        "outcomes_chart": summary.outcomes_chart(tally.traffic),
        "swatches": [(series(k), name) for k, name in enumerate(tally.traffic.outcomes)],
        "orders": [
            (entry.event.at, told(present.experiment, entry.event), by_whom(entry.by))
            for entry in reversed(tally.orders[-MAX_ORDERS:])
        ],
    }


async def _health(backend: Backend, ahead: dict[str, float]) -> list[summary.Health]:
    """What ``/readyz`` and ``/metrics`` know; ``ahead`` are logs that are ahead of the clock, of those one may see."""
    key = CALLER.get().key
    trying = asyncio.create_task(backend.try_writing())
    await asyncio.wait({trying}, timeout=MAX_WAIT)
    writable = None if not trying.done() else trying.exception() is None
    return summary.health(backend.writer, ahead, writable=writable, totals=key is None or not key.experiments)
