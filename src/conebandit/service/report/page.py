"""A report as HTML: one file that needs nothing else, and the part of it that the dashboard shows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from math import isfinite
from typing import Any

from markupsafe import Markup

from conebandit._version import __version__
from conebandit.experiment.columns import Categorical, Column
from conebandit.experiment.rules import BurnInRule
from conebandit.pages.palette import series
from conebandit.pages.template import render, style
from conebandit.pages.wording import duration, shown
from conebandit.service.dashboard.words.telling import arm_words
from conebandit.service.log.events import Lifted, Stopped
from conebandit.service.report.facts import Facts, order_words
from conebandit.service.report.findings import Findings, find
from conebandit.service.report.pictures import MAX_ROWS, Pictures

SIZES = {"names", "minimise", "n_arms", "context_dim"}  # of a policy: told elsewhere
MAX_ARMS = 40  # in a table
MAX_ORDERS = 200  # the latest ones
MAX_DRAWN = 4  # metrics with a picture for each segment


def report_body(facts: Facts) -> Markup:
    """Everything but the frame and the time at which it was made; the same whenever it is made from the same log."""
    findings = find(facts)
    colours = {arm: series(k) for k, arm in enumerate(facts.experiment.arms)}
    pictures = Pictures(colours)
    metrics = list(facts.experiment.metric_index)
    traffic = facts.tally.traffic
    values: dict[str, Any] = {
        "facts": facts,
        "experiment": facts.experiment,
        "question": question(facts),
        "toml": [shown(line, 10_000) for line in facts.experiment.to_toml().split("\n")],
        "findings": findings,
        "drawn": _drawn(facts, findings, pictures),
        "max_arms": MAX_ARMS,
        "max_rows": MAX_ROWS,
        "decisions": pictures.decisions(traffic) if len(traffic.starts) else "",
        "outcomes": pictures.outcomes(traffic, metrics) if len(traffic.starts) else "",
        "colours": colours,
        "stops": [entry for entry in facts.orders if isinstance(entry.event, Stopped | Lifted)][-MAX_ORDERS:],
        "orders": facts.orders[-MAX_ORDERS:],
        "earlier": len(facts.orders) > MAX_ORDERS,
        "order_words": order_words,
        "arm_words": arm_words,
        "settings": settings(facts),
        "facets": facts.experiment.cone.facets.tolist(),
    }
    return render("report_body.html", **values)


def report_page(facts: Facts, made: int) -> str:
    """A report as a file: style and pictures are in it, scripts are not.

    Parameters
    ----------
    facts
        What it tells.
    made
        When it is made, in milliseconds since 1970; it stands in the footer, and nowhere else.
    """
    return str(whole_page(report_body(facts), facts.experiment.id, made))


def whole_page(body: Markup, experiment_id: str, made: int) -> Markup:
    """A body that was made before, as a file."""
    when = f"{datetime.fromtimestamp(made / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
    return render("report.html", body=body, id=experiment_id, style=style(), made=when, version=__version__)


def question(facts: Facts) -> list[str]:
    """What is asked, in plain sentences."""
    experiment = facts.experiment
    known = [_column_words(column) for column in experiment.columns]
    arms = [shown(arm) for arm, active in facts.arms.items() if active]
    n = f"{len(arms)} arms" if len(arms) != 1 else "one arm"
    whom = f" for whom, by {_listed(known)}" if known else ", when nothing is known of whom it is for"
    listed = _listed(arms) if len(arms) <= MAX_ROWS else _listed([*arms[:MAX_ROWS], f"{len(arms) - MAX_ROWS} others"])
    said = [f"Which of {n} is best{whom}? The arms: {listed}."]
    for metric in experiment.metrics:
        words = f"{shown(metric.name)}{f', in {metric.units}' if metric.units else ''}:"
        words += f" {'less' if metric.direction == 'min' else 'more'} is better"
        words += f"; a difference below {metric.resolution:g} does not matter" if metric.resolution else ""
        said.append(f"It is judged by {words}.")
    costs = [metric.name for metric in experiment.metrics if metric.direction == "min"]
    return [*said, shown(experiment.cone.turned(costs).describe(), 2000)]  # of the metrics, not of the rewards


def settings(facts: Facts) -> dict[str, str]:
    """Every rule and number that decides what is served, by name."""
    experiment, policy = facts.experiment, facts.policy
    kind, options, _ = policy.saved()
    burn_in = [rule.decisions for rule in experiment.rules if isinstance(rule, BurnInRule)]
    units = experiment.units
    kept = "not declared" if units is None else duration(units.sticky) if isfinite(units.sticky) else "for good"
    found = {
        "policy": kind,
        **{f"policy: {name}": json.dumps(options[name], default=str) for name in sorted(options.keys() - SIZES)},
        "settings as declared": json.dumps(experiment.settings, sort_keys=True),
        "seed": str(experiment.seed),
        "explore: share of decisions drawn from all arms": f"{policy.explore:g}",
        "resolution of each metric": _listed([f"{m.name} {m.resolution:g}" for m in experiment.metrics]),
        "burn-in: first decisions drawn from all arms": str(max(burn_in)) if burn_in else "none",
        "mode now": facts.mode,
        "baseline": experiment.baseline,
        "how long a unit keeps its arm": kept,
        "draws": "by a counter-based generator from seed and id of the decision, so that each can be made again",
        "learned up to event": str(facts.version),
        "decisions and past rows that it has learned from": str(facts.observations),
        "blocks of the shift monitor": str(experiment.shift_block),
        "release that began the log": facts.library,
    }
    if facts.past is not None:
        past = facts.past
        found["past rows, learned first"] = f"{past.rows} of {past.file}, SHA-256 {past.sha256}"
    return {name: shown(value, 2000) for name, value in found.items()}


def _drawn(facts: Facts, findings: Findings, pictures: Pictures) -> list[list[Markup]]:
    """For each segment a picture for each of the first metrics."""
    metrics = facts.experiment.metrics[:MAX_DRAWN]
    return [[pictures.estimates(metric, each.arms) for metric in metrics] for each in findings.found]


def _column_words(column: Column) -> str:
    if isinstance(column, Categorical):
        levels = column.levels if len(column.levels) <= MAX_ROWS else (*column.levels[:MAX_ROWS], "others")
        return f"{shown(column.name)} ({', '.join(map(shown, levels))})"
    return f"{shown(column.name)} ({column.low:g} to {column.high:g})"


def _listed(words: Sequence[str]) -> str:
    return "".join(words[:1]) if len(words) < 2 else f"{', '.join(words[:-1])} and {words[-1]}"
