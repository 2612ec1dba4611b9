"""How experiments and the service are doing, in the words and pictures of the overview."""

from __future__ import annotations

import itertools
import logging
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from conebandit.experiment.declaration import Experiment
from conebandit.experiment.rules import BurnInRule, CapRule, Rule
from conebandit.pages import wording
from conebandit.pages.chart import Axis, Panel
from conebandit.pages.palette import series
from conebandit.service.dashboard.counts.tally import DAY, HOUR, Periods, Tally
from conebandit.service.dashboard.words.telling import STAGES, THEN
from conebandit.service.engine.clock import MAX_STEP
from conebandit.service.engine.turn import Turn
from conebandit.service.engine.writer import Writer
from conebandit.service.errors import CorruptionError, SealKeyError
from conebandit.service.log import events
from conebandit.service.log.entries import read
from conebandit.service.replies import Description, RuleStatus, ShiftReport
from conebandit.service.stores.base import Store
from conebandit.service.stores.records import BEGINNING, Head
from conebandit.service.stores.session import Session

MODES = {
    "live": "the policy decides",
    "shadow": "the baseline is served, and what the policy would do is logged",
    "off": "the baseline is served, and the policy is not asked",
}
MIN_PERIODS = 11  # before the last one, that a picture has room for
MAX_PERIODS = 400  # in a picture; of more, the latest
MAX_WAITING = 1000  # requests; more make a long queue
MAX_CURVES = 8  # as many as there are colours
log = logging.getLogger("conebandit.service")
_LIFE = (events.Created, events.StageChanged, events.ModeChanged, events.Stopped, events.Lifted)


# ---- many experiments -----------------------------------------------------------------------------------------------


class Line(NamedTuple):
    """One experiment among others, by what the log says of it outside of decisions, if it can be read."""

    id: str
    stage: str = ""
    mode: str = ""
    events: int = 0
    head: Head = BEGINNING
    at: int | None = None
    stopped: tuple[str, ...] = ()
    readable: bool = True


class Lines:
    """Experiments as they are now, one line for each; of a log that has not grown, the last one is good.

    Parameters
    ----------
    store
        Where the logs are.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[str, tuple[Head, Line]] = {}

    def get(self, ids: Sequence[str]) -> list[Line]:
        """Those of some experiments; what there is not any more is left out."""
        found = {id_: self._line(id_) for id_ in ids}
        return [line for line in found.values() if line is not None]

    def _line(self, experiment_id: str) -> Line | None:
        try:
            with self._store.read() as session:
                head, known = session.head(experiment_id), self._known.get(experiment_id)
                if head is None:
                    return None
                if known is not None and known[0] == head:
                    return known[1]
                line = _line(session, experiment_id, head)
        except (CorruptionError, SealKeyError) as error:  # others can still be seen
            log.error("%s: the log cannot be read: %s", experiment_id, error)
            return Line(experiment_id, readable=False)
        self._known[experiment_id] = head, line
        return line


def _line(session: Session, experiment_id: str, head: Head) -> Line:
    stage, mode, stopped = "running", "live", dict[str, None]()
    for record in session.of_kinds(experiment_id, [kind.kind for kind in _LIFE], head.seq):
        match read(record).event:
            case events.Created(declaration=declared):
                stage, mode = declared.get("stage", stage), declared.get("mode", mode)
            case events.StageChanged() as event:
                stage = event.stage
            case events.ModeChanged() as event:
                mode = event.mode
            case events.Stopped() as event:
                stopped[event.rule] = None
            case events.Lifted() as event:
                stopped.pop(event.rule, None)
    last = session.events(experiment_id, head.seq - 1, head.seq)
    if not last:
        raise CorruptionError(f"{experiment_id}: event {head.seq}, the last one of the log, is missing.")
    return Line(experiment_id, stage, mode, head.seq, head, read(last[0]).event.at, tuple(stopped))


def share_lacking(tally: Tally | None) -> float | None:
    """The share of values that are missing, all metrics together; None if that is not known."""
    standing = [] if tally is None else list(tally.standing.values())
    total = sum(one.total for one in standing)
    return sum(one.lacking for one in standing) / total if total else None


# ---- one experiment -------------------------------------------------------------------------------------------------


class Now(NamedTuple):
    """What the writer knows of an experiment.

    ``barred``: arms that safety rules leave out now. ``halted``: what they let happen to all decisions, a key of
    ``THEN``; empty if nothing.
    """

    experiment: Experiment
    description: Description
    head: Head
    at: int
    statuses: tuple[RuleStatus, ...]
    rules: Mapping[str, Rule]
    barred: frozenset[str]
    halted: str


def now(turn: Turn, experiment_id: str) -> Now:
    """In the writer's thread, so only what is quick."""
    description, report = turn.describe(experiment_id), turn.rules(experiment_id)
    state = turn.transaction.state(experiment_id)
    rules, at = state.rules, turn.transaction.time(state)
    halted = "stop" if rules.left(at) == 0 else "baseline" if rules.only_baseline(at) else ""
    barred = frozenset(rules.barred(at))
    return Now(state.experiment, description, state.head, state.at, report.rules, dict(rules.rules), barred, halted)


def life(described: Description, halted: str = "") -> str:
    """Stage and mode in words, and what safety rules let happen in place of them.

    Examples
    --------
    >>> described = Description("e", "live", (), 1, False, {}, stage="running")
    >>> life(described)
    'The experiment runs: the policy decides.'
    >>> life(described, "stop")
    'The experiment runs, but by a safety rule: no more decisions.'
    """
    if described.stage == "running" and halted:
        return f"{STAGES['running']}, but by a safety rule: {THEN[halted]}."
    if described.stage == "running":
        return f"{STAGES['running']}: {MODES[described.mode]}."
    then = {
        "draft": "there are no decisions until somebody begins it",
        "paused": "there are no new decisions, and outcomes still count",
        "ended": "there are no new decisions, and nothing of it can be changed",
    }
    return f"{STAGES[described.stage]}: {then[described.stage]}."


class RuleLine(NamedTuple):
    """How close a safety rule is.

    Attributes
    ----------
    rule, says, arm, status
        As the API has them.
    way
        How much of the way to where it stops something has been gone, from 0 to 1; None if there is no such way.
    words
        The same in words.
    seen
        What it has seen, in words.
    """

    rule: str
    says: str
    arm: str | None
    status: str
    way: float | None
    words: str
    seen: str


def rule_lines(statuses: Sequence[RuleStatus], rules: Mapping[str, Rule]) -> list[RuleLine]:
    """Every rule and, for those that watch arms, every arm; those that have fired first, then the closest.

    Examples
    --------
    >>> status = RuleStatus("few", "at most 20", "open", decisions=5)
    >>> [line] = rule_lines([status], {"few": CapRule("few", at_most=20, arm=None, period=None, then="stop")})
    >>> line.way, line.words
    (0.25, '5 of 20 decisions')
    """
    found = [_rule_line(status, rules[status.rule]) for status in statuses]
    return sorted(found, key=lambda line: (line.status != "stopped", -(line.way or 0.0)))


def _rule_line(status: RuleStatus, rule: Rule) -> RuleLine:
    line = RuleLine(status.rule, status.says, status.arm, status.status, None, "", "")
    if isinstance(rule, BurnInRule):
        over = status.decisions >= rule.decisions
        return line._replace(words="over" if over else f"{status.decisions:,} of {rule.decisions:,} decisions")
    if isinstance(rule, CapRule):
        words = f"{status.decisions:,} of {rule.at_most:,} decisions"
        return line._replace(way=min(status.decisions / rule.at_most, 1.0), words=words)
    if status.needed is None:
        return line._replace(words="nothing was decided that it watches")
    seen = f"{status.known:,} values of {status.decisions:,} decisions"
    if status.mean is not None:
        seen += f", mean {wording.number(status.mean)} ({wording.number(status.low)} to {wording.number(status.high)})"
    words = f"evidence {wording.number(status.evidence)}; it fires at {wording.number(status.needed)}"
    if status.status == "stopped":
        words = f"has fired: {THEN[rule.then]}"
    return line._replace(way=_way(status.evidence, status.needed), words=words, seen=seen)


def _way(evidence: float | None, needed: float) -> float:
    """Evidence is a product of many bets, so that the way to what is needed is one of logarithms."""
    if evidence is None or evidence == math.inf:
        return 1.0
    return min(max(math.log(max(evidence, 1.0)) / math.log(needed), 0.0), 1.0)


def alarm_words(report: ShiftReport) -> str:
    """What an alarm says; empty if there is none."""
    alarm = report.alarm
    if alarm is None:
        return ""
    where = "" if alarm.coordinate is None else f" in {wording.shown(alarm.coordinate)}"
    if alarm.pair is not None:
        where = f" in {' with '.join(map(wording.shown, alarm.pair))}"
    since = "" if alarm.since is None else f", probably since {alarm.since[:16].replace('T', ' ')} UTC"
    return f"The population has changed{where}{since}: noticed after {alarm.at:,} contexts."


# ---- pictures -------------------------------------------------------------------------------------------------------


def decisions_chart(periods: Periods) -> Markup | None:
    """Decisions by hour or day, as bars; None if there are none."""
    if not periods.decisions.any():
        return None
    per = _per(periods)
    panel = _panel(periods, [periods.decisions], f"decisions per {per}")
    for start, count in zip(*_latest(periods, periods.decisions), strict=True):
        end = start + 0.9 * periods.length
        panel.box((start, 0), (end, count), title=f"{_moment(start, periods)}: {count:,} decisions")
    return panel.svg(f"Decisions per {per}")


def outcomes_chart(periods: Periods) -> Markup | None:
    """Values that came in by hour or day, a line for each metric; None if there are none, or too many metrics."""
    came = periods.outcomes
    if not any(counts.any() for counts in came.values()) or len(came) > MAX_CURVES:
        return None
    per = _per(periods)
    panel = _panel(periods, list(came.values()), f"values per {per}")
    for k, (metric, counts) in enumerate(came.items()):
        points = [(start + periods.length / 2, n) for start, n in zip(*_latest(periods, counts), strict=True)]
        panel.line(_through_nothing(points, periods.length), series(k))
        for at, n in points if len(points) <= 60 else points[-1:]:
            panel.mark(at, n, series(k), f"{wording.shown(metric)}: {n:,}", radius=3)
    return panel.svg(f"Values that came in per {per}, by metric")


def _panel(periods: Periods, curves: Sequence[NDArray[np.int64]], label: str) -> Panel:
    starts = periods.starts[-MAX_PERIODS:].tolist()
    highest = max(int(counts[-MAX_PERIODS:].max(initial=0)) for counts in curves)
    first, end = min(starts[0], starts[-1] - MIN_PERIODS * periods.length), starts[-1] + periods.length
    x = Axis.of_times([first, end + (end - first) // 40])  # room for what is written at the end
    return Panel(x, Axis.around([0, max(highest, 1)], label, within=(0, math.inf)), height=240)


def _latest(periods: Periods, counts: NDArray[np.int64]) -> tuple[list[int], list[int]]:
    return periods.starts[-MAX_PERIODS:].tolist(), counts[-MAX_PERIODS:].tolist()


def _through_nothing(points: Sequence[tuple[float, int]], length: int) -> list[tuple[float, int]]:
    """The same points and zeros at both ends of each gap: a line must not pass over periods in which nothing came.

    Examples
    --------
    >>> _through_nothing([(1, 5), (2, 5), (9, 5)], 1)
    [(1, 5), (2, 5), (3, 0), (8, 0), (9, 5)]
    """
    found = list(points[:1])
    for (before, _), (at, n) in itertools.pairwise(points):
        gap = [before + length, at - length] if at > before + length else []
        found += [*((place, 0) for place in dict.fromkeys(gap)), (at, n)]
    return found


def _per(periods: Periods) -> str:
    return {HOUR: "hour", DAY: "day"}[periods.length]


def _moment(start: int, periods: Periods) -> str:
    return wording.moment(start)[: 10 if periods.length == DAY else 16]


# ---- the service ----------------------------------------------------------------------------------------------------


class Health(NamedTuple):
    """One thing that can be wrong with the service, whether it is, and what is known of it."""

    name: str
    fine: bool
    words: str


def health(writer: Writer, ahead: Mapping[str, float], *, writable: bool | None, totals: bool = True) -> list[Health]:
    """Everything that can be wrong with the service, as ``/readyz`` and ``/metrics`` have it.

    Parameters
    ----------
    writer
        Of the service.
    ahead
        Seconds by which logs are ahead of the clock, by experiment.
    writable
        Whether the store could be written to; None if the writer has not said it yet.
    totals
        Whether to tell what adds up over all experiments; not to whom may see some of them only.
    """
    jumped, differs, waiting = writer.clock_jumped, writer.clock_ahead, writer.waiting
    clock = [f"{wording.shown(id_)}: the log is {wording.duration(s)} ahead of the clock" for id_, s in ahead.items()]
    if abs(jumped) * 1000 > MAX_STEP:
        clock.append(f"the clock of the system was set by {wording.duration(abs(jumped))} while the service ran")
    if abs(differs) * 1000 > MAX_STEP:
        clock.append(f"it differs from the clock of the database by {wording.duration(abs(differs))}")
    store = {
        True: "can be written to",
        False: "cannot be written to: no decision is made",
        None: "has not answered yet",
    }
    found = [
        Health("Store", bool(writable), store[writable]),
        Health("Clock", not clock, "; ".join(clock) or "right, as far as the service can tell"),
    ]
    if not totals:
        return found
    return [
        *found,
        Health("Queue", waiting <= MAX_WAITING, f"{waiting:,} requests wait"),
        Health("Revisions", True, f"{writer.revising:,} logs are being folded anew"),
        Health("Written", True, f"{writer.events_written:,} events in {writer.turns:,} commits since the start"),
    ]
