"""Events in words, for people who read a log."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from copy import copy
from typing import Any

from conebandit.experiment.declaration import Experiment
from conebandit.experiment.rules import BoundRule
from conebandit.pages.wording import number, shown
from conebandit.service.log import events as kinds
from conebandit.service.log.entries import By, Entry
from conebandit.service.log.events import ERASED, Event
from conebandit.service.log.reports import Reports, Slot
from conebandit.service.log.selection import Selection
from conebandit.service.log.times import as_text

MAX_NAMED = 20  # probabilities or values of a context that are listed; more are counted

KINDS = {  # what people call events of each kind
    "created": "begun",
    "decided": "decision",
    "reported": "outcome",
    "held": "value on hold",
    "reviewed": "review",
    "retracted": "retraction",
    "voided": "void",
    "context_corrected": "context corrected",
    "arm_added": "arm added",
    "arm_retired": "arm retired",
    "mode_changed": "mode",
    "revised": "revision",
    "learned": "past data",
    "sealed": "seal",
    "clock_repaired": "clock repaired",
    "erased": "erasure",
    "published": "state published",
    "changed": "declaration changed",
    "stage_changed": "stage",
    "stopped": "rule fired",
    "lifted": "rule lifted",
}
STAGES = {
    "draft": "The experiment is a draft",
    "running": "The experiment runs",
    "paused": "The experiment pauses",
    "ended": "The experiment has ended",
}
THEN = {"stop": "no more decisions", "baseline": "only the baseline is served", "suspend": "this arm is not served"}
LEFT_OUT = "left out by a safety rule"  # of an arm


def arm_words(arm: str, arms: Mapping[str, bool], barred: Collection[str]) -> str:
    """Whether an arm can be served, in words.

    Examples
    --------
    >>> [arm_words(arm, {"old": True, "new": True, "worse": False}, ["new"]) for arm in ("old", "new", "worse")]
    ['can be served', 'left out by a safety rule', 'retired']
    """
    if not arms.get(arm, False):
        return "retired"
    return LEFT_OUT if arm in barred else "can be served"


def told(experiment: Experiment, event: Event, *, erased: bool = False) -> list[str]:
    """What an event says, for itself: one sentence, and for some events more of them.

    Examples
    --------
    >>> experiment = Experiment.from_dict({"id": "e", "arms": ["a", "b"], "metrics": [{"name": "pain", "units": "cm"}]})
    >>> told(experiment, kinds.Reported(0, "d1", {"pain": 2.0}))
    ['pain 2 cm']
    >>> told(experiment, kinds.StageChanged(0, "paused", "a look at the data"))
    ['The experiment pauses. Reason: a look at the data']
    """
    if isinstance(event, kinds.Decided):
        return _decision(event, erased=erased)
    return [f"{KINDS[event.kind].capitalize()}: {ERASED}."] if erased else _SAID[event.kind](experiment, event)


def history(experiment: Experiment, entries: list[Entry]) -> list[list[str]]:
    """What the events of one decision say, one after the other: the decision first, then what came of it."""
    reports = Reports(experiment, entries[:1])
    words = [told(experiment, entries[0].event)]
    for entry in entries[1:]:
        before, event = {name: copy(slot) for name, slot in reports.slots.items()}, entry.event
        reports.add(entry)
        if not isinstance(event, kinds.Values):
            words.append(told(experiment, event))
            continue
        late = reports.at(entry.seq).late
        slots = {name: before.get(name, Slot()) for name in event.values}
        sentences = [_received(experiment, event, name, slot, late=name in late) for name, slot in slots.items()]
        if reports.void is not None:
            sentences.append("The decision is void, so nothing of this counts.")
        words.append(sentences + _observed(event))
    return words


def by_whom(by: By | None) -> str:
    """Who caused an event; empty if the log does not tell."""
    if by is None or (by.key is None and by.actor is None):
        return ""
    key = "" if by.key is None else f"key {shown(by.key)}"
    return key if by.actor is None else f"{shown(by.actor)} ({key})" if key else shown(by.actor)


def exact(at: int) -> str:
    """A time to the millisecond, as it is in the log.

    Examples
    --------
    >>> exact(1_700_000_000_123)
    '2023-11-14 22:13:20.123 UTC'
    """
    return f"{as_text(at)[:23].replace('T', ' ')} UTC"


def plain(value: float) -> str:
    """A number as it is in the log, with all its digits.

    Examples
    --------
    >>> plain(2.0), plain(0.1)
    ('2', '0.1')
    """
    return repr(value).removesuffix(".0")


# ---- decisions ------------------------------------------------------------------------------------------------------


def _decision(event: kinds.Decided, *, erased: bool) -> list[str]:
    made, visit = event.selection, event.visit
    words = [_served(made, kept=event.repeats is not None)]
    if made.version is not None:
        policy = f"{shown(made.version.policy)} {shown(made.version.library)}"
        words.append(f"Decided by {policy}, which had learned the events up to {made.version.position:,}.")
    if made.choice is not None and made.choice.probabilities is not None:
        likeliest = dict(sorted(made.choice.probabilities.items(), key=lambda arm: -arm[1]))
        words.append(f"Probabilities: {_listed(likeliest, number)}.")
    if event.edge is not None:
        words.append(f"Made at the edge {event.edge.name}, {exact(event.edge.at)}, from state {event.edge.state:,}.")
        if event.edge.unchecked:
            words.append("Taken on trust: nobody could make it again from that state when it came.")
    if visit is not None:
        unit = ERASED if erased or event.names is None else shown(event.names.unit)
        words.append(f"Visit {visit.number:,} of unit {unit}.")
    words.append(f"Context: {ERASED}." if erased else _context(event.context))
    return words


def _served(made: Selection, *, kept: bool) -> str:
    arm = f"Arm {shown(made.arm)}"
    if kept:
        return f"{arm}, which the unit has kept from an earlier decision."
    if made.mode == "live":
        return f"{arm}, with probability {number(made.propensity)}."
    if made.choice is None:
        return f"{arm}, the baseline; the policy was not asked (mode {made.mode})."
    would = f"{shown(made.choice.arm)} with probability {number(made.choice.propensity)}"
    return f"{arm}, the baseline (mode {made.mode}); the policy would have taken {would}."


def _context(context: Mapping[str, Any]) -> str:
    return f"Context: {_listed(context, _cell)}." if context else "Context: nothing was given."


def _cell(value: Any) -> str:
    return plain(value) if isinstance(value, float) else shown(str(value))


def _listed(table: Mapping[str, Any], write: Callable[[Any], str]) -> str:
    some = [f"{shown(name)} {write(value)}" for name, value in list(table.items())[:MAX_NAMED]]
    more = len(table) - len(some)
    return ", ".join(some) + (f" and {more} more" if more else "")


# ---- outcomes -------------------------------------------------------------------------------------------------------


def _values(experiment: Experiment, values: Mapping[str, float]) -> str:
    return ", ".join(f"{shown(name)} {_with_units(experiment, name, value)}" for name, value in values.items())


def _with_units(experiment: Experiment, name: str, value: float) -> str:
    """A draft may have had other metrics."""
    units = experiment.metric(name).units if name in experiment.metric_index else None
    return plain(value) if units is None else f"{plain(value)} {shown(units)}"


def _received(experiment: Experiment, event: kinds.Values, name: str, before: Slot, *, late: bool) -> str:
    value = event.values[name]
    words = f"{shown(name)} {_with_units(experiment, name, value)}"
    if isinstance(event, kinds.Held):
        return f"{words} is on hold until somebody looks at it."
    notes = []
    if before.value is not None and before.value != value:
        notes.append(f"a correction: it was {_with_units(experiment, name, before.value)}")
    elif before.retracted:
        notes.append("in place of what was taken back")
    if before.held is not None:
        notes.append(f"{_with_units(experiment, name, before.held)} is not on hold any more")
    if late:
        notes.append("after its time, so it is kept and does not count")
    elif (counted := experiment.metric(name).counted(value)) != value:
        notes.append(f"outside of its range, so it counts as {_with_units(experiment, name, counted)}")
    return f"{words} ({'; '.join(notes)})." if notes else f"{words}."


def _observed(event: kinds.Values) -> list[str]:
    return [] if event.observed_at is None else [f"Observed {exact(event.observed_at)}."]


def _reported(experiment: Experiment, event: kinds.Reported) -> list[str]:
    return [_values(experiment, event.values), *_observed(event)]


def _held(experiment: Experiment, event: kinds.Held) -> list[str]:
    return [f"{_values(experiment, event.values)}: on hold until somebody looks at it", *_observed(event)]


def _reviewed(experiment: Experiment, event: kinds.Reviewed) -> list[str]:
    done = "Released, so it counts" if event.verdict == "release" else "Rejected"
    return [f"{done}: {_values(experiment, event.values)}. {_reason(event.reason)}"]


def _retracted(_: Experiment, event: kinds.Retracted) -> list[str]:
    return [f"Taken back: {', '.join(map(shown, event.metrics))}. {_reason(event.reason)}"]


def _voided(_: Experiment, event: kinds.Voided) -> list[str]:
    done = "Nothing is learned from this decision" if event.void else "The decision counts again"
    return [f"{done}. {_reason(event.reason)}"]


def _context_corrected(_: Experiment, event: kinds.ContextCorrected) -> list[str]:
    return [f"What is learned is learned in another context. {_reason(event.reason)}", _context(event.context)]


# ---- everything else ------------------------------------------------------------------------------------------------


def _created(_: Experiment, event: kinds.Created) -> list[str]:
    arms, metrics = (len(event.declaration.get(name) or ()) for name in ("arms", "metrics"))
    return [f"The experiment was declared: {arms} arms, {metrics} metrics (release {shown(event.library)})."]


def _stopped(_: Experiment, event: kinds.Stopped) -> list[str]:
    about = "" if event.watched is None else f", about arm {shown(event.watched)}"
    then = THEN.get(event.then, shown(event.then))
    found = f"evidence {number(event.evidence)}, {event.seen.get('known', 0):,.0f} values"
    return [f"Rule {shown(event.rule)} has fired{about}: {then} ({found})."]


def _lifted(experiment: Experiment, event: kinds.Lifted) -> list[str]:
    counts = any(rule.name == event.rule and not isinstance(rule, BoundRule) for rule in experiment.rules)
    again = "is on again, with all that it has counted" if counts else "begins anew"
    done = again if event.then == "restart" else "is off"
    return [f"Rule {shown(event.rule)} was lifted and {done}. {_reason(event.reason)}"]


def _erased(_: Experiment, event: kinds.Erased) -> list[str]:
    many = f"{event.decisions:,} decision{'s' if event.decisions != 1 else ''}"
    return [f"Unit {shown(event.unit)} is to be forgotten, with {many}. {_reason(event.reason)}"]


def _repaired(_: Experiment, event: kinds.ClockRepaired) -> list[str]:
    return [f"The clock is right again; dates after event {event.after:,} were wrong. {_reason(event.reason)}"]


def _reason(reason: str) -> str:
    return f"Reason: {shown(reason, 500)}"


_SAID: dict[str, Callable[[Experiment, Any], list[str]]] = {
    "reported": _reported,
    "held": _held,
    "reviewed": _reviewed,
    "retracted": _retracted,
    "voided": _voided,
    "context_corrected": _context_corrected,
    "created": _created,
    "changed": lambda _, event: [f"Declared otherwise. {_reason(event.reason)}"],
    "mode_changed": lambda _, event: [f"The mode is {event.mode} from here on."],
    "stage_changed": lambda _, event: [f"{STAGES[event.stage]}. {_reason(event.reason)}"],
    "arm_added": lambda _, event: [f"Arm {shown(event.arm)} was added."],
    "arm_retired": lambda _, event: [f"Arm {shown(event.arm)} was retired: it is never served again."],
    "stopped": _stopped,
    "lifted": _lifted,
    "revised": lambda _, event: [f"From here on, corrections and changes up to event {event.upto:,} count."],
    "learned": lambda _, event: [f"Learned from {event.rows:,} past rows of {shown(event.file)}."],
    "sealed": lambda _, __: ["Sealed with a key from here on."],
    "clock_repaired": _repaired,
    "erased": _erased,
    "published": lambda _, __: ["Edges decide from the state as it is here."],
}
