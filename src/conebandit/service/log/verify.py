"""Is what was served what the log says? The state is computed anew, and compared with all that was kept of the old one.

A process that serves folds each event once, as it comes, catches up with others, and goes on from another state when
the log says that it was revised. Here the whole log is read once, from its first event, as the last revision sees it,
and what was revised once more, as each revision saw it. Three things tell whether both lead to the same state: every
decision in the log, which is a function of the state that it was made in; every snapshot; and, if one is asked, a
process that is serving. What safety rules have stopped must follow from the state in the same way, and no stop may be
missing.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

from conebandit._version import __version__
from conebandit.service.errors import CorruptionError, SealKeyError
from conebandit.service.log.anchors import Anchor, missed_anchors
from conebandit.service.log.bodies import MAX_POSITION
from conebandit.service.log.choosing import choose, keep
from conebandit.service.log.entries import Entry
from conebandit.service.log.events import ClockRepaired, Decided, Erased, Published, Revised
from conebandit.service.log.repairs import Repairs
from conebandit.service.log.replay import POLICY_KINDS, Watch, fold_page, rebuild, revisions, see_up_to, start
from conebandit.service.log.reports import Reports
from conebandit.service.log.rule_checks import RuleChecks
from conebandit.service.log.snapshots import OtherVersionError, from_parts, least_missed
from conebandit.service.log.state import State
from conebandit.service.log.verify_edges import EdgesOfLog
from conebandit.service.log.verify_ids import IdsOfLog
from conebandit.service.log.verify_units import UnitsOfLog
from conebandit.service.replies import StateDigest
from conebandit.service.stores.records import Head
from conebandit.service.stores.seals import key_of
from conebandit.service.stores.session import Session

MAX_PROBLEMS = 10
# Events that are folded once more for decisions whose states were revised, unless every decision is wanted. A minute or
# two; enough for any log of up to 1000 events, and for one of some 500,000 if its corrections concern recent values.
MAX_FOLDED_AGAIN = 1_000_000
MAX_STATES, STEP = 6, 100  # states in memory to fold from again, and events after which one is kept
MAX_DIFFERENT = 10_000  # decisions whose differences are remembered; those that are left out are known in the end only


@dataclass(frozen=True)
class Verification:
    """What was found.

    Attributes
    ----------
    id
        Of the experiment.
    events
        How many there are; each matches its seal.
    state
        Checksum of the state that they lead to.
    decisions
        How many there are.
    recomputed
        How many of them were made again.
    other_version
        How many were not, because another version of the library made them. The rest was made in a state that was
        revised later, since a value was corrected or an arm was added or retired, and left out to save time.
    erased
        How many cannot be made again, since they rest on data that were erased: decisions of units that are forgotten,
        and those made when the policy had learned, or may have learned, from them.
    snapshots
        How many were compared; those of other versions of the library are not used, and not compared.
    problems
        What does not agree, in words; at most ten.
    key
        Id of the key that the log is sealed with; None if there is none.
    keyed_from
        Position of the first event with a key; those before it could be changed until then.
    anchors
        How many were compared.
    api_keys
        Names of the API keys that its events came with.
    unchecked
        How many decisions of edges the service took on trust, since it could not make them again when they came.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from conebandit.service.http.server import serving
    >>> from conebandit.service.client import Client
    >>> from conebandit.service.stores.base import open_store
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = str(pathlib.Path(folder) / "log.db")
    ...     with serving(path) as address, Client(address) as client:
    ...         _ = client.create({"id": "e", "arms": ["old", "new"], "metrics": [{"name": "clicks"}]})
    ...         _ = client.decide_many("e", [{}] * 5)
    ...     store = open_store(path)
    ...     with store.read() as session:
    ...         report = verify(session, "e")
    ...     store.close()
    >>> report.events, report.recomputed, report.agrees
    (6, 5, True)
    """

    id: str
    events: int
    state: str
    decisions: int
    recomputed: int
    other_version: int
    snapshots: int
    problems: tuple[str, ...]
    key: str | None = None
    keyed_from: int = 0
    anchors: int = 0
    erased: int = 0
    api_keys: frozenset[str] = frozenset()
    unchecked: int = 0

    @property
    def agrees(self) -> bool:
        """Whether all that was compared does."""
        return not self.problems

    @property
    def whole(self) -> bool:
        """Whether every decision was made again that can be."""
        return self.recomputed + self.erased == self.decisions


def verify(
    session: Session,
    experiment_id: str,
    served: StateDigest | None = None,
    *,
    every: bool = False,
    anchors: Collection[Anchor] = (),
) -> Verification:
    """Compute the state anew from the first event, and compare it with what was served.

    Parameters
    ----------
    session
        A look at the store.
    experiment_id
        Which one.
    served
        What a process that is serving says of its state (``GET .../state``); the log is then read up to there.
    every
        Make all decisions again whose states were revised later, however often the log must be read for it.
    anchors
        What the log must hold.

    Raises
    ------
    CorruptionError
        If the log is not what was written.
    SealKeyError
        If it is sealed with a key that is not here.
    """
    session.check_database()
    last = session.existing_head(experiment_id)
    head = last if served is None else Head(served.events, served.check)
    watch = _Watch(session, experiment_id, head, EdgesOfLog(session, experiment_id, every=every))
    digest = rebuild(session, experiment_id, head, snapshots=False, watch=watch).digest()
    left = watch.decide_again_as_it_was(inf if every else MAX_FOLDED_AGAIN)
    deque(session.checked(experiment_id, head, last), maxlen=0)  # what came after the state that is served
    left_out, erased, foreign = watch.not_made_again(left)
    problems = [
        *_unsealed(session, experiment_id, last),
        *missed_anchors(session, experiment_id, anchors),
        *_differences(served, digest),
        *watch.problems(left | left_out | erased),
    ]
    return Verification(
        id=experiment_id,
        events=head.seq,
        state=digest,
        decisions=watch.n_decisions,
        recomputed=watch.n_decisions - len(left_out | foreign | erased),
        other_version=len(foreign - left_out - erased),
        snapshots=watch.compared,
        problems=tuple(problems[:MAX_PROBLEMS]),
        key=key_of(last.check),
        keyed_from=watch.keyed_from,
        anchors=len(anchors),
        erased=len(erased),
        api_keys=frozenset(watch.api_keys),
        unchecked=watch.edges.unchecked,
    )


def _unsealed(session: Session, experiment_id: str, last: Head) -> list[str]:
    """A log without a key, where there is one."""
    try:
        session.seals.check_head(experiment_id, last.check)
    except SealKeyError as error:
        return [str(error)]
    return []


def _differences(served: StateDigest | None, digest: str) -> list[str]:
    if served is None or served.state == digest:
        return []
    return [f"the service has state {served.state}, and the log leads to {digest}."]


@dataclass
class _Watch:
    """Looks on while the log is folded, and compares."""

    session: Session
    experiment_id: str
    head: Head
    edges: EdgesOfLog
    decided: array[int] = field(default_factory=lambda: array("q"))  # positions of decisions, and of published states
    foreign: set[int] = field(default_factory=set)  # positions of decisions that another version has made
    compared: int = 0
    keyed_from: int = 0
    api_keys: set[str] = field(default_factory=set)  # names

    def __post_init__(self) -> None:
        self._snapshots = set(self.session.snapshots(self.experiment_id))
        # Where each one is, and the view from there on.
        self._revisions = revisions(self.session, self.experiment_id, self.head.seq)
        self._new_arms = self._last_change_of_arms()
        self._uncounted: list[tuple[int, int]] = []  # corrections: where each one is, and from where on it matters
        self._rewritten: list[tuple[int, int]] = [(0, self._new_arms)]  # states between these are no more
        self._different: dict[int, str] = {}  # decisions that come out otherwise
        self._published: set[int] = set()  # positions
        self._rules = RuleChecks()
        self._problems: list[str] = []
        self._units = UnitsOfLog(self.session, self.experiment_id)
        self._ids = IdsOfLog(self.session, self.experiment_id)
        self._uncounted_erasures: list[tuple[int, int]] = []  # where each one is, and from where on it matters
        self._forgotten: list[tuple[int, int]] = []  # states between these rest on data that were erased

    def _last_change_of_arms(self) -> int:
        """From where on the policy has had the arms that it has at last."""
        view = self._revisions[-1][1] if self._revisions else 0
        changes = self.session.of_kinds(self.experiment_id, POLICY_KINDS, max(view, 1))
        changed = changes[-1].seq if changes else 0  # a log without its first event is refused when it is folded
        return next((seq for seq, upto in self._revisions if upto >= changed > 1), 0)

    def before(self, state: State, entry: Entry) -> None:
        """Make a decision again; what safety rules demand must be there."""
        self._rules.before(state, entry)
        seq, event = entry.seq, entry.event
        if isinstance(event, Decided):
            self._units.see(state, seq, event)
            self._ids.see(seq, event.id)
            if event.edge is not None:
                self.edges.see_decided(seq, event)
                return
            self.decided.append(seq)
            if seq > self._new_arms:
                self._decide_again(state, seq, event)
        elif isinstance(event, Published):
            self.decided.append(seq)
            self._published.add(seq)
            self.edges.see_published(state, seq, event, known=seq > self._new_arms)

    @property
    def n_decisions(self) -> int:
        """How many decisions there are, wherever they were made."""
        return len(self.decided) - len(self._published) + self.edges.decided

    def not_made_again(self, left: set[int]) -> tuple[set[int], set[int], set[int]]:
        """Positions of decisions that depend on states that were left out, or were erased, or are of other releases."""
        edges, gone = self.edges, self.resting_on_erased()
        erased = (gone - self._published) | edges.made_from(gone) | edges.erased
        left_out = (left - self._published) | edges.made_from(left) | (edges.left_out - erased)
        return left_out, erased, self.foreign | edges.foreign

    def after(self, state: State, entry: Entry, reports: Reports | None) -> None:
        """Note which states are no more; a snapshot must be the state."""
        self._rules.after(state)
        if not self.keyed_from and key_of(entry.head.check) is not None:
            self.keyed_from = entry.seq
        if entry.by is not None and entry.by.key is not None:
            self.api_keys.add(entry.by.key)
        match entry.event:
            case ClockRepaired(after=after):
                self._uncounted.append((entry.seq, after))
            case Erased(first=first):
                self._uncounted_erasures.append((entry.seq, first))
            case Revised(upto=upto):
                self._rewritten += _counted(self._uncounted, entry.seq, upto)
                self._forgotten += _counted(self._uncounted_erasures, entry.seq, upto)
        if reports is not None and (first := reports.at(entry.seq).corrects):
            self._uncounted.append((entry.seq, first))
        if entry.seq in self._snapshots:
            self._compare(state, entry.seq)

    def _between(self, ends: list[tuple[int, int]]) -> set[int]:
        """Positions of decisions that were made after the first and up to the last of some positions."""
        found: set[int] = set()
        reached = 0
        for first, last in sorted(ends):
            low = bisect_right(self.decided, max(first, reached))
            reached = max(last, reached)
            found.update(self.decided[low : bisect_right(self.decided, reached)])
        return found

    def resting_on_erased(self) -> set[int]:
        """Positions of decisions that cannot be made again: of an erased unit, or with what was learned from it."""
        return self._between([(first - 1, last) for first, last in self._forgotten])

    def decide_again_as_it_was(self, most: float) -> set[int]:
        """Make such decisions again, too, from the log as each revision has seen it.

        The rest is left out, and returned, when more than ``most`` events would have to be folded.
        """
        wanted = self._between(self._rewritten) - self.resting_on_erased()
        self._rules.miss(self.head.seq + 1)
        self._rules.wrong = {seq: words for seq, words in self._rules.wrong.items() if not self._was_rewritten(seq)}
        self._different = {seq: words for seq, words in self._different.items() if seq not in wanted}
        self.edges.forget(wanted)
        earlier, after = _EarlierStates(self.session, self.experiment_id), 0
        for revised_at, upto in self._revisions:
            made = self.decided[bisect_right(self.decided, after) : bisect_left(self.decided, revised_at)]
            mine = wanted.intersection(made)
            if mine or earlier.folded:
                if not wanted or earlier.folded + earlier.distance(revised_at) > most:
                    break
                again = _Again(RuleChecks(after), mine, self._decide_again, self.edges)
                earlier.fold(revised_at - 1, again)
                again.rules.miss(revised_at)
                self._rules.wrong |= again.rules.wrong
                wanted -= mine
            earlier.view, after = upto, revised_at
        return wanted

    def _was_rewritten(self, seq: int) -> bool:
        """Whether the state before a position is no more."""
        return any(first < seq <= last for first, last in self._rewritten)

    def _decide_again(self, state: State, seq: int, decided: Decided) -> None:
        version = decided.selection.version
        if version is not None and version.library != __version__:
            self.foreign.add(seq)
            return
        if decided.erased:
            return
        logged = decided.selection
        kept, x = self._units.kept(state, seq, decided), state.experiment.encode(decided.context)
        again = choose(state, x, decided.id, decided.at) if kept is None else keep(kept)
        if logged.choice and again.choice and logged.choice.probabilities is None:  # written before they were kept
            again = again._replace(choice=again.choice._replace(probabilities=None))
        was = {**logged.to_body(), "repeats": decided.repeats}
        is_ = {**again.to_body(), "repeats": None if kept is None else kept.id}
        names = [name for name, value in is_.items() if was[name] != value]
        if names and len(self._different) < MAX_DIFFERENT:
            name = names[0]
            self._different[seq] = f"{name} is {was[name]!r} in the log and {is_[name]!r} from the state"

    def _compare(self, state: State, seq: int) -> None:
        try:
            kept = from_parts(state.experiment, self.session.snapshot(self.experiment_id, seq), self.session.seals)
        except OtherVersionError:
            return
        except (CorruptionError, ValueError, KeyError, TypeError):
            self._problems.append(f"the snapshot at event {seq} is damaged (it is not used, and may be deleted).")
            return
        self.compared += 1
        learned = (state.learned, state.observations)  # which are not in the digest
        if kept.digest() != state.digest() or (kept.learned, kept.observations) != learned:
            self._problems.append(f"the snapshot at event {seq} is not the state that the log leads to.")

    def problems(self, left_out: set[int]) -> list[str]:
        """What does not agree, in words; without some decisions."""
        different = sorted(self._different.keys() - left_out)
        at_edges = sorted(self.edges.different.keys() - left_out - self.resting_on_erased())
        return [
            *self._problems,
            *self._ids.problems(),
            *self._units.problems(self.head.seq, self.session.existing_head(self.experiment_id).seq),
            *(f"event {seq}: {words}." for seq, words in sorted(self._rules.wrong.items()) if not self._forgot(seq)),
            *(f"decision at event {seq}: {self._different[seq]}." for seq in different),
            *(f"event {seq}, of an edge: {self.edges.different[seq]}." for seq in at_edges),
        ]

    def _forgot(self, seq: int) -> bool:
        """Whether the state at a position rests on data that were erased."""
        return any(first <= seq <= last for first, last in self._forgotten)


def _counted(uncounted: list[tuple[int, int]], revised_at: int, upto: int) -> list[tuple[int, int]]:
    """Take out what counts from a revision on; between which positions states are no more for it."""
    counted = [(first, revised_at) for seq, first in uncounted if seq <= upto]
    uncounted[:] = [(seq, first) for seq, first in uncounted if seq > upto]
    return counted


class _Again(NamedTuple):
    """Looks on while a part of the log is folded as it was before a revision."""

    rules: RuleChecks
    wanted: set[int]
    decide_again: Callable[[State, int, Decided], None]
    edges: EdgesOfLog

    def before(self, state: State, entry: Entry) -> None:
        """Make a decision again, or those that were made from a published state, if it is wanted."""
        self.rules.before(state, entry)
        if entry.seq in self.wanted and isinstance(entry.event, Decided):
            self.decide_again(state, entry.seq, entry.event)
        elif entry.seq in self.wanted and isinstance(entry.event, Published):
            self.edges.again(state, entry.seq, entry.event)

    def after(self, state: State, entry: Entry, reports: Reports | None) -> None:
        """Note what safety rules demand."""
        self.rules.after(state)


class _EarlierStates:
    """States of a log as its revisions saw them, one revision after the other; ``view`` is that of the next one.

    A few are kept on the way. Those before the first event that a revision changes are the same after it, so that not
    all is folded again for each one.
    """

    def __init__(self, session: Session, experiment_id: str) -> None:
        self._session, self._id = session, experiment_id
        self._repairs = Repairs.find(session, experiment_id, MAX_POSITION)
        self.view = 0
        self._kept: list[State] = []  # in the order of their positions
        self.folded = 0  # events, so far

    def distance(self, seq: int) -> int:
        """How many events must be folded to get to a position."""
        return seq - (self._kept[-1].head.seq if self._kept else 0)

    def fold(self, last: int, watch: Watch) -> None:
        """Fold up to position ``last``; the revision after it may change what has come before."""
        state = self._copy(self._kept[-1]) if self._kept else start(self._session, self._id, self.view, before=0)
        self.folded += last - state.head.seq
        head = self._session.events(self._id, last - 1, last)[0].head
        while fold_page(self._session, state, head, watch, limit=STEP):
            self._keep(state)
        changed = state.corrected_from
        self._kept = [kept for kept in self._kept if changed is None or kept.head.seq < changed]

    def _keep(self, state: State) -> None:
        if len(self._kept) >= MAX_STATES:
            spare = least_missed([kept.head.seq for kept in self._kept], state.head.seq)
            self._kept = [kept for kept in self._kept if kept.head.seq != spare]
        self._kept.append(self._copy(state))

    def _copy(self, state: State) -> State:
        copy = State.from_plain(state.experiment, state.plain(), state.policy.copy())
        return see_up_to(self._session, copy, self.view, self._repairs.upto(self.view))
