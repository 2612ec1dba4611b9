"""What safety rules and stages a log leads to, written out plainly: the twin of ``log/rules.py``.

Rules of one form only: a bound on a metric with a window or none, for each arm or for all together.
"""

import json

from tests import plain_bets


def stage(events):
    """The stage after a list of events."""
    bodies = [(e.kind, json.loads(e.text)) for e in events]
    changed = [b["stage"] for kind, b in bodies if kind == "stage_changed"]
    return changed[-1] if changed else bodies[0][1]["declaration"].get("stage", "running")


def harms(events, rule, arm):
    """For each decision that counts, in their order: how harmful its value is, from 0 to 1; None if it is not known."""
    bodies = [(e.seq, e.kind, json.loads(e.text)) for e in events]
    metric = next(m for m in bodies[0][2]["declaration"]["metrics"] if m["name"] == rule["metric"])
    view = max([b["upto"] for _, kind, b in bodies if kind == "revised"], default=0)
    since, now = 0, bodies[-1][2]["at"]
    for seq, kind, b in bodies:
        if kind in ("created", "changed"):
            rules = b["declaration"].get("rules", [])
            if rule not in rules:
                since = None
            elif since is None:
                since = seq
        if kind == "lifted" and b["rule"] == rule["name"]:
            since = seq
    low, high = metric["range"]
    found = []
    for seq, kind, decision in bodies:
        if kind != "decided" or since is None or seq <= since or arm not in (None, decision["arm"]):
            continue
        window = None if "window" not in metric else {"1h": 3_600_000, "30m": 1_800_000}[metric["window"]]
        closes = None if window is None else decision["at"] + window
        reports = [(s, b) for s, k, b in bodies if k == "reported" and b["id"] == decision["id"]]
        told = [(s, b["at"], b["values"][rule["metric"]]) for s, b in reports if rule["metric"] in b["values"]]
        value = None
        if told and (closes is None or told[0][1] <= closes):
            value = [v for i, (s, _, v) in enumerate(told) if i == 0 or s <= view][-1]
        elif closes is not None and closes < now:
            value = metric.get("default")
        if value is not None:
            value = (value - low) / (high - low) if "above" in rule else (high - value) / (high - low)
        found.append(value)
    return found


def limit(events, rule):
    low, high = next(m for m in events[0].body["declaration"]["metrics"] if m["name"] == rule["metric"])["range"]
    return (rule["above"] - low) / (high - low) if "above" in rule else (high - rule["below"]) / (high - low)


def evidence(events, rule, arm, restart):
    """Of all decisions, and the most of those up to any one of them."""
    values, bound = harms(events, rule, arm), limit(events, rule)
    return plain_bets.all_money(values, bound, restart), plain_bets.most_money(values, bound, restart)
