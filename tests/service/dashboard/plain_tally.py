"""What a log adds up to, counted plainly: the twin of ``dashboard/counts/counting.py``, from whole bodies."""

import json
import math
from collections import Counter

from conebandit.experiment.declaration import Experiment
from conebandit.service.dashboard.counts.tally import DAY, HOUR
from tests.service.plain_fold import repair_times


def plain_tally(events):  # noqa: PLR0912  (plain means written out)
    """Everything that a :class:`Tally` tells but orders and samples, as tables of plain numbers."""
    bodies = [(e.seq, e.kind, {**json.loads(e.text), **json.loads(e.personal or "{}")}) for e in events]
    end = bodies[-1][2]["at"]
    repair_times(bodies, math.inf)
    experiment = Experiment.from_dict([b["declaration"] for _, kind, b in bodies if kind in ("created", "changed")][-1])
    erased = {b["unit"] for _, kind, b in bodies if kind == "erased"}
    made = {b["id"]: b for _, kind, b in bodies if kind == "decided"}
    gone = {id_ for id_, b in made.items() if b.get("unit") in erased}
    told = Counter(corrections=0, retractions=0, voids=0, late=0)
    known = {id_: {} for id_ in made}  # by metric: whether something was in time, has a value, has one on hold
    void, days, hours, came = set(), Counter(), Counter(), Counter()
    for _, kind, b in bodies:
        if kind == "decided":
            days[b["at"] // DAY, b["arm"]] += 1
            hours[b["at"] // HOUR, b["arm"]] += 1
        if "id" not in b or kind == "decided" or b["id"] in gone:
            continue
        id_, slots = b["id"], known[b["id"]]
        if kind in ("reported", "held"):
            for name in b["values"]:
                metric, slot = experiment.metric(name), slots.setdefault(name, {"placed": 0, "value": 0, "held": 0})
                ends = math.inf if metric.window is None else made[id_]["at"] + metric.window * 1000
                in_time = min(b["at"], b.get("observed_at", math.inf)) <= ends
                slot["placed"] |= in_time and b["at"] <= ends + metric.upload * 1000
                told["late"] += not slot["placed"]
                told["corrections"] += kind == "reported" and slot["value"]
                slot["held"] = kind == "held"
                slot["value"] |= kind == "reported"
                came[b["at"] // DAY, name] += 1
        elif kind == "reviewed":
            for name in b["values"]:
                slots[name]["held"] = 0
                slots[name]["value"] |= b["verdict"] == "release"
        elif kind == "retracted":
            told["retractions"] += len(b["metrics"])
            for name in b["metrics"]:
                slots[name].update(value=0, held=0)
        elif kind == "voided":
            told["voids"] += b["void"]
            (void.add if b["void"] else void.discard)(id_)
    standing = {metric.name: Counter() for metric in experiment.metrics}
    for id_ in made.keys() - void - gone:
        for metric in experiment.metrics:
            slot = known[id_].get(metric.name)
            over = metric.window is not None and made[id_]["at"] + (metric.window + metric.upload) * 1000 < end
            if slot is None:
                word = "open" if not over else "missing" if metric.default is None else "default"
            elif not slot["placed"]:
                word = "late"
                standing[metric.name]["late_default"] += metric.default is not None and over
            else:
                word = "reported" if slot["value"] else "held" if slot["held"] else "withdrawn"
            standing[metric.name][word] += 1
    alive = [known[id_] for id_ in made.keys() - void - gone]
    return {
        **told,
        "void": len(void),
        "erased": len(gone),
        "decisions": Counter(b["arm"] for b in made.values()),
        "on_hold": sum(slot["held"] for slots in alive for slot in slots.values()),
        "standing": standing,
        "days": days,
        "hours": hours,
        "came": came,
        "made": made,
        "counted": made.keys() - void - gone,
    }
