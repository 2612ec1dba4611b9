"""What a log says, written out plainly: the twin of ``log/state.py`` that shares no code with it but the policy."""

import base64
import json
import math
import zlib

from conebandit.experiment.declaration import Experiment
from conebandit.experiment.policy import make_policy


def plain_fold(events):  # noqa: PLR0912  (plain means written out)
    """The policy after a list of events."""
    bodies = [(e.seq, e.kind, json.loads(e.text)) for e in events]
    experiment = Experiment.from_dict(bodies[0][2]["declaration"])
    view = max([b["upto"] for _, kind, b in bodies if kind == "revised"], default=0)  # corrections count up to there
    repair_times(bodies, view)
    arms = list(experiment.arms)
    arms += [b["arm"] for seq, kind, b in bodies if kind == "arm_added" and seq <= view]
    for seq, kind, b in bodies:
        if kind == "arm_retired" and seq <= view:
            arms.remove(b["arm"])
    policy = make_policy(experiment, arms)
    metrics = {m.name: m for m in experiment.metrics}
    decided = {b["id"]: (seq, b) for seq, kind, b in bodies if kind == "decided"}

    last = {}  # the value that was reported last, as far as it counts
    for seq, kind, b in bodies:
        if kind == "reported":
            for name, value in b["values"].items():
                if seq <= view or (b["id"], name) not in last:
                    last[b["id"], name] = value

    def learn(decision, names, values):
        if decision["arm"] in arms:
            reward = [math.nan] * len(metrics)
            for i, name in enumerate(metrics):
                if name in names:
                    worst = metrics[name].worst
                    reward[i] = values[name] if worst is None else max(worst - values[name], 0.0)
            policy.observe(decision["x"], arms.index(decision["arm"]), reward)

    for _, kind, b in bodies[1:2]:
        if kind == "learned":
            past = json.loads(zlib.decompress(base64.b64decode(b["data"])))
            for x, arm, row in zip(past["contexts"], past["arms"], past["values"], strict=True):
                measured = {name: value for name, value in zip(metrics, row, strict=True) if value is not None}
                learn({"x": x, "arm": experiment.arms[arm]}, set(measured), measured)

    def in_time(b, name):
        window = metrics[name].window
        return window is None or b["at"] <= decided[b["id"]][1]["at"] + window * 1000

    def comes(id_, name, seq):  # a value that counts, as far as is known when event seq is folded
        told = [b for s, kind, b in bodies if kind == "reported" and s < max(seq, view + 1) and b["id"] == id_]
        return any(in_time(b, name) for b in told if name in b["values"])

    seen, counted, now = set(), set(), 0
    for seq, kind, b in bodies:
        due = []
        now = b["at"] if kind == "clock_repaired" else max(now, b["at"])
        for id_, (made, decision) in decided.items():
            for i, (name, m) in enumerate(metrics.items()):
                if m.default is not None and made < seq and (id_, name) not in counted:
                    deadline = decision["at"] + m.window * 1000
                    if deadline < now and not comes(id_, name, seq):
                        due.append((deadline, made, i, id_, name))
        for *_, id_, name in sorted(due):
            counted.add((id_, name))
            learn(decided[id_][1], {name}, {name: metrics[name].default})
        if kind == "reported":
            decision = decided[b["id"]][1]
            new = {n for n in b["values"] if (b["id"], n) not in seen}
            seen |= {(b["id"], n) for n in new}
            count = {n for n in new if in_time(b, n)}
            counted |= {(b["id"], n) for n in count}
            if count:
                learn(decision, count, {n: last[b["id"], n] for n in count})
    return policy


def repair_times(bodies, view):
    """Where the clock was wrong, decisions are made when it was repaired, and all else happened when it was right."""
    given = {seq: b["at"] for seq, _, b in bodies}
    repairs = [(seq, b["after"]) for seq, kind, b in bodies if kind == "clock_repaired" and seq <= view]
    for seq, kind, b in bodies:
        holds = seq
        for repair, after in repairs if kind == "decided" else repairs[::-1]:
            if after < holds < repair:
                holds = repair if kind == "decided" else after
        b["at"] = given[holds] if holds else 0
