"""What a log says, written out plainly: the twin of ``log/state.py`` that shares no code with it but the policy."""

import base64
import json
import math
import zlib

from conebandit.experiment.declaration import Experiment
from conebandit.experiment.policy import make_policy


def plain_fold(events, learned=None):  # noqa: PLR0912  (plain means written out)
    """The policy after a list of events; ``learned``, a list, gets every metric that was learned, and of what.

    That is the id of a decision, or the number of a past row.
    """
    learned = [] if learned is None else learned
    bodies = [(e.seq, e.kind, {**json.loads(e.text), **json.loads(e.personal or "{}")}) for e in events]
    view = max([b["upto"] for _, kind, b in bodies if kind == "revised"], default=0)  # corrections count up to there
    repair_times(bodies, view)
    declared = [b["declaration"] for seq, kind, b in bodies if kind == "created" or (kind == "changed" and seq <= view)]
    experiment = Experiment.from_dict(declared[-1])
    arms = list(experiment.arms)
    arms += [b["arm"] for seq, kind, b in bodies if kind == "arm_added" and seq <= view]
    for seq, kind, b in bodies:
        if kind == "arm_retired" and seq <= view:
            arms.remove(b["arm"])
    policy = make_policy(experiment, arms)
    erased = {b["unit"] for seq, kind, b in bodies if kind == "erased" and seq <= view}
    of_erased = {b["id"] for _, kind, b in bodies if kind == "decided" and b.get("unit") in erased}
    bodies = [e if e[2].get("id") not in of_erased else (e[0], "nothing", {"at": e[2]["at"]}) for e in bodies]
    metrics = {m.name: m for m in experiment.metrics}
    decided = {b["id"]: (seq, b) for seq, kind, b in bodies if kind == "decided"}

    history = {id_: [] for id_ in decided}
    for seq, kind, b in bodies:
        if "id" in b and kind != "decided":
            history[b["id"]].append((seq, kind, b))

    def known_of(id_, upto):  # noqa: PLR0912
        """What is known of a decision: places and values of its metrics, its context, whether it is void."""
        made = decided[id_][1]
        places, values, held, x, void = {}, {}, {}, made["x"], False
        for seq, kind, b in history[id_]:
            if seq > upto:
                continue
            if kind in ("reported", "held"):
                for name, value in b["values"].items():
                    m = metrics[name]
                    end = math.inf if m.window is None else made["at"] + m.window * 1000
                    observed = min(b["at"], b.get("observed_at", math.inf))
                    if observed <= end and b["at"] <= end + m.upload * 1000:
                        places.setdefault(name, seq)
                    held.pop(name, None)
                    if kind == "held":
                        held[name] = value
                    else:
                        values[name] = value
            elif kind == "reviewed":
                for name, value in b["values"].items():
                    assert held.pop(name) == value
                    if b["verdict"] == "release":
                        values[name] = value
            elif kind == "retracted":
                for name in b["metrics"]:
                    values.pop(name, None)
                    held.pop(name, None)
            elif kind == "voided":
                void = b["void"]
            elif kind == "context_corrected":
                x = b["x"]
            else:
                raise AssertionError(kind)
        for name, value in values.items():
            if metrics[name].outside == "clip":
                low, high = metrics[name].range
                values[name] = low if value < low else high if value > high else value
        return places, values, {**made, "x": x}, void

    def learn(decision, names, values):
        if decision["arm"] in arms:
            learned.extend((name, decision["id"]) for name in names)
            reward = [math.nan] * len(metrics)
            for i, name in enumerate(metrics):
                if name in names:
                    worst = metrics[name].worst
                    reward[i] = values[name] if worst is None else max(worst - values[name], 0.0)
            policy.observe(decision["x"], arms.index(decision["arm"]), reward)

    for _, kind, b in bodies[1:2]:
        if kind == "learned":
            past = json.loads(zlib.decompress(base64.b64decode(b["data"])))
            for number, (x, arm, row) in enumerate(zip(past["contexts"], past["arms"], past["values"], strict=True)):
                measured = {name: value for name, value in zip(metrics, row, strict=True) if value is not None}
                learn({"id": number, "x": x, "arm": experiment.arms[arm]}, set(measured), measured)

    closed, now = set(), 0
    for seq, kind, b in bodies:
        due = []
        now = b["at"] if kind == "clock_repaired" else max(now, b["at"])
        for id_, (made, decision) in decided.items():
            for i, (name, m) in enumerate(metrics.items()):
                if m.default is not None and made < seq and (id_, name) not in closed:
                    deadline = decision["at"] + (m.window + m.upload) * 1000
                    if deadline < now:
                        due.append((deadline, made, i, id_, name))
        for *_, id_, name in sorted(due):
            closed.add((id_, name))
            places, _, decision, void = known_of(id_, max(view, seq - 1))
            if name not in places and not void:
                learn(decision, {name}, {name: metrics[name].default})
        if "id" in b and kind != "decided":
            places, values, decision, void = known_of(b["id"], max(view, seq))
            here = {name for name, place in places.items() if place == seq and name in values}
            if here and not void:
                learn(decision, here, values)
    return policy


def plain_edge_decisions(events):
    """The ids of decisions that were made at edges, each made again from the log up to where its state was published.

    Written out for logs without safety rules; what a policy that has a retired arm does is told by other tests.
    """
    published, checked = {}, []
    for i, event in enumerate(events):
        body = {**json.loads(event.text), **json.loads(event.personal or "{}")}
        if event.kind == "published":  # with the events before it, and the windows that have closed by its time
            published[event.seq] = plain_fold(events[: i + 1])
        if event.kind == "decided" and "edge" in body:
            policy, upto = published[body["edge"]["state"]], events[: body["edge"]["state"]]
            of_arms = [json.loads(e.text) | {"kind": e.kind} for e in upto]
            arms = list(of_arms[0]["declaration"]["arms"])
            view = max([b["upto"] for b in of_arms if b["kind"] == "revised"], default=0)
            for seq, b in enumerate(of_arms, start=1):
                if b["kind"] == "arm_added" and seq <= view:
                    arms.append(b["arm"])
                if b["kind"] == "arm_retired" and seq <= view:
                    arms.remove(b["arm"])
            decision = policy.decide(body["x"], body["id"])
            chances = {arm: p for arm, p in zip(arms, decision.probabilities.tolist(), strict=True) if p > 0}
            assert body["choice"]["probabilities"] == chances, body
            assert body["choice"]["arm"] == arms[decision.arm]
            assert body["choice"]["propensity"] == decision.propensity
            baseline = of_arms[0]["declaration"].get("baseline", of_arms[0]["declaration"]["arms"][0])
            assert body["arm"] == (body["choice"]["arm"] if body["mode"] == "live" else baseline)
            checked.append(body["id"])
    return checked


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
