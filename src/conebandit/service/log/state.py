"""The state of an experiment: a fold over its log, and nothing else."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np

from conebandit.experiment.declaration import Experiment, Mode, Stage
from conebandit.experiment.policy import Served, make_policy
from conebandit.experiment.rows import Rows
from conebandit.service.errors import CorruptionError
from conebandit.service.log.bodies import MAX_TIME
from conebandit.service.log.edges import LastPublished
from conebandit.service.log.entries import Entry
from conebandit.service.log.events import (
    Amendment,
    ArmAdded,
    ArmRetired,
    Changed,
    ClockRepaired,
    Created,
    Decided,
    Erased,
    Event,
    Learned,
    Lifted,
    ModeChanged,
    Published,
    Revised,
    Sealed,
    StageChanged,
    Stopped,
)
from conebandit.service.log.past import unpack
from conebandit.service.log.repairs import Repairs
from conebandit.service.log.reports import Reports
from conebandit.service.log.rules import Rules, declared_rules
from conebandit.service.log.windows import Windows
from conebandit.service.stores.records import BEGINNING, Head, canonical
from conebandit.service.stores.session import Session

PAST = 2  # position of past rows in a log, if there are any


Look = Callable[["State", Entry], None]


class State:
    """What the log up to ``head`` says.

    The policy learns what is reported at once, one metric or several. A correction, or an arm that comes or goes,
    changes what should have been learned long ago, and so does another policy; the log is folded anew for it, which
    takes a while. So it counts from a later event on, ``revised``, which says up to where corrections and changes are
    known: the *view*. Until then the policy goes on as if they had not come, except that a retired arm is never served
    again. So it is in the log which state belongs to which position, for every process and for ``verify``.

    Parameters
    ----------
    experiment
        The declaration, as it was changed up to the view.
    known
        The arms that the policy has, in the order of its indices.
    view
        Position up to which corrections are known.

    Attributes
    ----------
    head
        The last event that was folded.
    at
        Its time, in milliseconds since 1970; decreases only where the clock was repaired.
    stage, mode, rules
        Whether there are decisions at all, who makes them, and what the safety rules say to it: as of ``head``.
    version
        Position of the last event that changed what the policy knows.
    learned, observations
        Of how many decisions and past rows a value was learned, defaults included: of each metric, and of any.
    corrected_from
        Position from which on the policy would have learned something else, had it known of the corrections and
        changes of arms after the view; None if there are none.
    stale
        Whether the log went on with another view, so that :func:`~conebandit.service.log.replay.rebuild` must be asked
        for the state.
    last_snapshot
        Position of the last snapshot that is known to be in the store, or to be on its way there.
    erased
        Units whose decisions do not count; they are erased by what the log says up to the view.
    n_units
        Of experiments with units: how many have had a decision, without those that are erased.
    published
        The last state that edges were given; None if there was none.
    """

    def __init__(self, experiment: Experiment, known: tuple[str, ...], view: int = 0) -> None:
        self.experiment, self.known, self.view = experiment, known, view
        self.arms = dict.fromkeys(experiment.arms, True)  # name to whether it can be served
        self.mode: Mode = experiment.mode
        self.stage: Stage = experiment.stage
        self.rules = Rules()
        self.head = BEGINNING
        self.at, self.version = 0, 0
        self.learned, self.observations = [0] * len(experiment.metrics), 0
        self.corrected_from: int | None = None
        self.stale = False
        self.last_snapshot = 0
        self.erased: frozenset[str] = frozenset()
        self.n_units = 0
        self.published: LastPublished | None = None
        self._index = {name: k for k, name in enumerate(known)}
        self.policy: Served = make_policy(experiment, known)
        self._windows = Windows(experiment)
        self._ahead = False  # whether past rows were learned that no event has told of yet

    @property
    def repairs(self) -> Repairs:
        """Repairs of the clock up to the view."""
        return self._windows.repairs

    def see(self, view: int, repairs: Repairs, erased: frozenset[str] = frozenset()) -> None:
        """Have another view, and know the repairs of the clock and the erased units up to there."""
        self.view, self._windows.repairs, self.erased = view, repairs, erased

    # ---- folding ------------------------------------------------------------------------------------------------

    def fold(self, entry: Entry, session: Session, reports: Reports | None = None, look: Look | None = None) -> None:
        """Take in the next event, which follows on ``head``.

        Parameters
        ----------
        session
            For decisions whose windows close by it.
        reports
            For an event about a decision that was made before: all that is known of it up to this one or up to the
            view, whichever is later.
        look
            Called when windows have closed by the time of the event, before anything that the event itself does.
        """
        repaired = isinstance(entry.event, ClockRepaired)
        check_order(entry, 0 if repaired or self.repairs.concern(entry.seq) else self.at)
        self.head, self.at = entry.head, entry.event.at if repaired else max(self.at, entry.event.at)
        self.close_windows(self.at, self.head.seq, session)
        if look is not None:
            look(self, entry)
        self._take(entry.event, reports)

    def fold_decisions(self, head: Head, first: Decided, ids: Sequence[str], session: Session) -> None:
        """Take in decisions of one moment, up to ``head``; for those that no unit and no safety rule counts."""
        seq = head.seq - len(ids) + 1
        self.fold(Entry(Head(seq, ""), first), session)  # the others close no more windows
        self._windows.add_all(seq + 1, ids[1:], first.at)
        self.head = head

    def _take(self, event: Event, reports: Reports | None) -> None:
        seq = self.head.seq
        match event:
            case Created() | Changed():
                self.rules.declare(declared_rules(event.declaration), seq)
                if isinstance(event, Changed):  # what was declared first is there from the beginning
                    self._note_correction(seq, 0)
            case Decided():
                self._windows.add_all(seq, [event.id], event.at)
                self.n_units += event.visit is not None and event.visit.number == 1 and not self._is_erased(event)
                self.rules.decide(seq, event.selection.arm, event.at)
            case Amendment():
                if reports is None:
                    raise CorruptionError(f"event {seq} ({event.kind}): there is no decision {event.id!a} before it.")
                self._learn_report(seq, reports)
            case ArmAdded() | ArmRetired():
                self.arms[event.arm] = isinstance(event, ArmAdded)
                self._note_correction(seq, 0)
            case ClockRepaired():
                self._note_correction(seq, event.after + 1)
            case Erased():
                self._note_correction(seq, event.first)
            case Learned():
                self._learn_past(event)
            case Revised():
                self.version = seq
                self.stale = event.upto > self.view
            case _:
                self._take_order(event)

    def _take_order(self, event: Event) -> None:
        """What events do that teach the policy nothing."""
        seq = self.head.seq
        match event:
            case ModeChanged():
                self.mode = event.mode
            case StageChanged():
                self.stage = event.stage
            case Stopped() | Lifted():
                self.rules.take(event, seq)
            case Published():
                self.published = LastPublished(seq, event.check, event.at)
            case Sealed():
                pass  # that is for who reads the records
            case _:
                raise CorruptionError(f"event {seq}: it is not known what {event!r} does.")

    def close_windows(self, at: int, seq: int, session: Session) -> None:
        """Count the defaults of windows that closed before ``at``; event ``seq`` is why we look."""
        for number, reports in self._windows.close(at, max(self.view, seq - 1), session):
            metric, arm = self.experiment.metrics[number], reports.decided.selection.arm
            assert metric.default is not None  # only such metrics wait
            if not self._is_erased(reports.decided):
                self._learn_of(reports, {number: metric.default}, seq)
                self.rules.settle(reports.position, arm, metric.name, metric.default)

    def _is_erased(self, decided: Decided) -> bool:
        """Whether a decision does not count: its unit is erased in this view, or its data are gone by a later one."""
        return decided.erased or decided.unit in self.erased

    def _note_correction(self, seq: int, first: int) -> None:
        """Event ``seq`` says that from ``first`` on something else should have been learned."""
        if seq > self.view:
            self.corrected_from = first if self.corrected_from is None else min(self.corrected_from, first)

    def _learn_report(self, seq: int, reports: Reports) -> None:
        report, decided = reports.at(seq), reports.decided
        if report.corrects and (decided.selection.arm in self._index or self.rules.rules):
            self._note_correction(seq, report.corrects)
        if report.counts and not self._is_erased(decided):
            values = {self.experiment.metric_index[name]: value for name, value in report.counts.items()}
            self._learn_of(reports, values, seq)
            for name, value in report.counts.items():
                self.rules.settle(reports.position, decided.selection.arm, name, value)

    def learn_ahead(self, rows: Rows) -> None:
        """Learn past rows before the event that has them is folded: that takes a while, and a fold may hold a lock."""
        self._learn_rows(rows)
        self._ahead = True

    def _learn_past(self, event: Learned) -> None:
        if not self._ahead:
            self._learn_rows(unpack(event.data, self.experiment))
        self._ahead = False

    def _learn_rows(self, rows: Rows) -> None:
        """Learn from rows as :meth:`Experiment.learn` does; those of retired arms are left out."""
        for x, arm, row in zip(rows.contexts.tolist(), rows.arms.tolist(), rows.values.tolist(), strict=True):
            known = {m: value for m, value in enumerate(row) if not math.isnan(value)}
            self._learn(self.experiment.arms[arm], x, known, PAST, new=bool(known))

    def _learn_of(self, reports: Reports, values: dict[int, float], seq: int) -> None:
        new = not reports.taught_before(seq, self.view, self._windows.closed(reports.position))
        self._learn(reports.decided.selection.arm, reports.x, values, seq, new=new)

    def _learn(self, arm: str, x: tuple[float, ...], values: dict[int, float], seq: int, *, new: bool) -> None:
        """Learn values of a decision or past row; ``new`` if nothing of it was learned before."""
        if arm not in self._index:
            return  # retired; its data stay in the log
        reward = np.full(len(self.experiment.metrics), np.nan)
        for m, value in values.items():
            reward[m] = self.experiment.metrics[m].reward(value)
            self.learned[m] += 1
        self.observations += new
        self.policy.observe(np.array(x), self._index[arm], reward)
        self.version = seq

    # ---- keeping and comparing ----------------------------------------------------------------------------------

    def plain(self) -> dict[str, Any]:
        """Everything but the policy, in the form that snapshots keep (their keys must not change)."""
        return {
            "arms": list(self.arms.items()),
            "known": self.known,
            "mode": self.mode,
            "head": self.head,
            "at": self.at,
            "version": self.version,
            "learned": list(self.learned),
            "observations": self.observations,
            "pending": self.corrected_from,
            "windows": self._windows.plain(),
            **_plain_of_some(self),
        }

    @classmethod
    def from_plain(cls, experiment: Experiment, plain: dict[str, Any], policy: Served) -> State:
        """The state that :meth:`plain` was asked of, with the policy that it had."""
        self = cls(experiment, tuple(plain["known"]))
        self.policy = policy
        self.arms, self.mode, self.at = dict(plain["arms"]), plain["mode"], plain["at"]
        self.version, self.corrected_from = plain["version"], plain["pending"]
        self.learned, self.observations = list(plain["learned"]), plain["observations"]
        self.head = Head(*plain["head"])
        _resume_some(self, plain)
        self._windows.resume(plain["windows"])
        return self

    def digest(self) -> str:
        """A checksum of everything, each bit of the policy included: two states are the same iff their digests are."""
        plain = self.plain()
        del plain["learned"], plain["observations"]  # they follow, and checksums are those of earlier releases
        return checksum(plain, self.policy)


def _plain_of_some(state: State) -> dict[str, Any]:
    """What only some states have, so that the others are what they were before there was such a thing."""
    return {
        **({} if state.experiment.units is None else {"units": state.n_units}),
        **({} if state.stage == "running" else {"stage": state.stage}),
        **({"rules": state.rules.plain()} if state.rules.rules else {}),
        **({} if state.published is None else {"published": state.published}),
    }


def _resume_some(state: State, plain: dict[str, Any]) -> None:
    """Read it back."""
    state.stage, state.n_units = plain.get("stage", "running"), plain.get("units", 0)
    if "rules" in plain:
        state.rules = Rules.from_plain(plain["rules"])
    if "published" in plain:
        state.published = LastPublished(*plain["published"])


def checksum(plain: dict[str, Any], policy: Served) -> str:
    """Of some entries and each bit of a policy."""
    sum_ = blake2b(canonical(plain).encode(), digest_size=16)
    for name, array in sorted(policy.state().items()):
        sum_.update(f"{name} {array.dtype} {array.shape}".encode())
        sum_.update(np.ascontiguousarray(array).data)
    return sum_.hexdigest()


def check_order(entry: Entry, before: int) -> None:
    """Whether an event can be where it is: a log may come from elsewhere, and seals say only that nobody changed it."""
    seq, event = entry.seq, entry.event
    if isinstance(event, Created) != (seq == 1):
        raise CorruptionError(f"event {seq} ({event.kind}): a log begins with its declaration and has no other.")
    if isinstance(event, Erased) and not 1 < event.first < seq:
        raise CorruptionError(f"event {seq} ({event.kind}): no decision of the unit can be at {event.first}.")
    if isinstance(event, Learned) and seq != PAST:
        raise CorruptionError(f"event {seq} ({event.kind}): past rows come right after the declaration, or not at all.")
    if not before <= event.at <= MAX_TIME:
        raise CorruptionError(
            f"event {seq} ({event.kind}): 'at' must be whole milliseconds since 1970, at most {MAX_TIME} and not "
            f"before the event before it; got {ascii(event.at)[:40]}."
        )
