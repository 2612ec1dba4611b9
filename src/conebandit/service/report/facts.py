"""All that a report tells, at one position of the log and by nothing but the log."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from conebandit.experiment.declaration import Experiment
from conebandit.experiment.policy import Served
from conebandit.service.dashboard.counts.tally import Tally
from conebandit.service.errors import CorruptionError
from conebandit.service.export import MAX_PAUSE
from conebandit.service.log.entries import Entry, read_as
from conebandit.service.log.events import (
    Changed,
    ContextCorrected,
    Created,
    Erased,
    Learned,
    Retracted,
    Reviewed,
    Revised,
    Voided,
)
from conebandit.service.log.replay import fold_page, start, view_at
from conebandit.service.log.state import State
from conebandit.service.replies import RuleStatus, ShiftReport
from conebandit.service.shift import ShiftWatch
from conebandit.service.stores.base import Store
from conebandit.service.stores.records import Head
from conebandit.service.stores.session import PAGE

# What is counted of events, and in which words; of those about decisions, and of others.
ABOUT_DECISIONS = {
    "contexts corrected": ContextCorrected.kind,
    "values retracted": Retracted.kind,
    "decisions declared void, or valid again": Voided.kind,
    "values on hold that were reviewed": Reviewed.kind,
}
ABOUT_ALL = {
    "units erased": Erased.kind,
    "changes of the declaration": Changed.kind,
    "revisions, from which on all of this counts": Revised.kind,
}


@dataclass(frozen=True)
class Facts:
    """An experiment at one position of its log.

    Attributes
    ----------
    experiment
        As declared; its ``arms`` are those that the policy has, in the order of its indices.
    head, at
        The last event that counts, and its time in milliseconds since 1970.
    state
        Checksum of the state that the log leads to.
    policy
        In this state.
    version
        The last event from which it has learned.
    observations, learned
        Of how many decisions and past rows a value was learned: of any metric, and of each.
    arms
        For each arm by name, retired ones too, whether it can be served.
    barred
        Arms that safety rules leave out.
    stage, mode, revising
        As of then; whether corrections or changes do not count yet.
    units
        How many units have been seen; None if none are declared.
    rules
        What each safety rule has seen.
    tally
        What the log adds up to.
    shift
        Whether the law of the contexts has changed.
    library
        The release that began the log.
    past
        The event that has past rows; None if there were none.
    amended
        How often what was changed afterwards, in words.
    """

    experiment: Experiment
    head: Head
    at: int
    state: str
    policy: Served
    version: int
    observations: int
    learned: dict[str, int]
    arms: dict[str, bool]
    barred: frozenset[str]
    stage: str
    mode: str
    revising: bool
    units: int | None
    rules: tuple[RuleStatus, ...]
    tally: Tally
    shift: ShiftReport
    library: str
    past: Learned | None
    amended: dict[str, int]

    @property
    def orders(self) -> tuple[Entry, ...]:
        """What people and rules did, in order."""
        return self.tally.orders


def gather(store: Store, tally: Tally, watch: ShiftWatch) -> Facts:
    """Everything at the end of what a tally has counted, all of a log.

    Parameters
    ----------
    store
        Where the log is.
    tally
        It says how far the log is to be read.
    watch
        Nobody else may use it: what it has seen must not lie beyond the tally.
    """
    id_, head = tally.experiment, head_of(store, tally)
    with store.read() as session:
        first = read_as(Created, session.events(id_, 0, 1)[0])
        past = session.of_kinds(id_, (Learned.kind,), min(head.seq, 2))
    state = state_at(store, id_, head)
    return Facts(
        experiment=replace(state.experiment, arms=state.known),
        head=head,
        at=state.at,
        state=state.digest(),
        policy=state.policy,
        version=state.version,
        observations=state.observations,
        learned=dict(zip(state.experiment.metric_index, state.learned, strict=True)),
        arms=dict(state.arms),
        barred=frozenset(state.rules.barred(state.at)),
        stage=state.stage,
        mode=state.mode,
        revising=state.corrected_from is not None,
        units=None if state.experiment.units is None else state.n_units,
        rules=tuple(state.rules.status(state.at)),
        tally=tally,
        shift=watch.report(id_, head),
        library=first.library,
        past=read_as(Learned, past[0]) if past else None,
        amended=_amended(store, id_, head),
    )


def head_of(store: Store, tally: Tally) -> Head:
    """The last event that a tally has counted."""
    with store.read() as session:
        last = session.events(tally.experiment, tally.seen - 1, tally.seen)
    if not last:
        raise CorruptionError(f"{tally.experiment}: event {tally.seen} is missing from the log.")
    return last[0].head


def state_at(store: Store, experiment_id: str, head: Head) -> State:
    """The state at a head, from the latest snapshot before it on; decisions in this process come first."""
    with store.read() as session:
        state = start(session, experiment_id, view_at(session, experiment_id, head.seq), before=head.seq + 1)
    more = True
    while more:
        began = time.perf_counter()
        with store.read() as session:
            more = fold_page(session, state, head)
        time.sleep(min(time.perf_counter() - began, MAX_PAUSE))
    return state


def _amended(store: Store, id_: str, head: Head) -> dict[str, int]:
    found = {words: _count(store, id_, kind, head) for words, kind in ABOUT_DECISIONS.items()}
    for words, kind in ABOUT_ALL.items():
        found[words] = _count(store, id_, kind, head, about_decisions=False)
    return found


def _count(store: Store, id_: str, kind: str, head: Head, *, about_decisions: bool = True) -> int:
    """How many events of a kind there are, counted a page at a time."""
    found, after, more = 0, 0, True
    while more:
        with store.read() as session:
            look_up = session.amendments if about_decisions else session.next_about_no_decision
            page = look_up(id_, (kind,), after, head.seq, PAGE)
        found, more = found + len(page), len(page) == PAGE
        after = page[-1].seq if page else after
    return found


def order_words(entry: Entry) -> str:
    """What an order says, beside its kind: names and numbers, in a few words."""
    body = entry.event.to_body()
    left_out = ("at", "declaration", "data")
    return ", ".join(f"{name} {_plain(value)}" for name, value in body.items() if name not in left_out)


def _plain(value: object) -> str:
    if isinstance(value, dict):
        return "; ".join(f"{name} {_plain(each)}" for name, each in value.items())
    return f"{value:.4g}" if isinstance(value, float) else str(value)
