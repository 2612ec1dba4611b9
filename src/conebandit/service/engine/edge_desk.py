"""What edges send is looked at here, beside the turns of the writer, before it is put into the log."""

from __future__ import annotations

import logging
import math
import re
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from conebandit.experiment.declaration import Experiment, Mode
from conebandit.experiment.errors import InvalidError
from conebandit.experiment.units import as_unit
from conebandit.service.engine.batches import Batch
from conebandit.service.engine.published_states import PublishedStates
from conebandit.service.engine.remade_states import RemadeStates
from conebandit.service.engine.traffic import decision_id
from conebandit.service.engine.units import Uploaded
from conebandit.service.errors import ConflictError
from conebandit.service.log.edges import AtEdge
from conebandit.service.log.entries import read
from conebandit.service.log.events import Published
from conebandit.service.log.published import PublishedState
from conebandit.service.log.replay import all_arms, declared_at
from conebandit.service.log.selection import Choice, Selection, Version
from conebandit.service.replies import RefusedDecision
from conebandit.service.stores.base import Store
from conebandit.service.stores.records import Head

EDGE_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
ALIAS = re.compile(r"d_[0-9a-f]{16,64}")  # what an edge has the log call a decision, where there are units
MAX_ID = 128  # characters of an id in a refusal
MAX_KNOWN = 256  # events ``published`` that are remembered
_WHY = "their state is of another release, or rests on data that were erased"
log = logging.getLogger("conebandit.service")


class EdgeDesk:
    """Looks at what edges send; threads may share it.

    A decision is made again from its state, and refused if it comes out otherwise. A state that this process has not
    got is made again from the log. Where nobody can (see :class:`RemadeStates`), the form is checked alone, and the
    decisions are marked as unchecked in the log.

    Parameters
    ----------
    store
        Has the events that say what was published.
    states
        Those that this process has seen.
    """

    def __init__(self, store: Store, states: PublishedStates) -> None:
        self._store, self._states, self._remade = store, states, RemadeStates(store)
        self._known: OrderedDict[tuple[str, int], _Known] = OrderedDict()
        self._knowing = threading.Lock()

    def check(self, experiment_id: str, state: tuple[int, str], edge: str, sent: Sequence[SentDecision]) -> Batch:
        """What of some decisions may be put into the log, and why the rest may not; for ``state`` see :meth:`find`."""
        seq = state[0]
        published = self.find(experiment_id, state, edge)
        head, event, experiment, arms = self._published(experiment_id, seq)
        found: dict[str, Uploaded] = {}
        refused: list[RefusedDecision] = []
        version = Version(event.policy, event.library, event.position)
        if published is None:
            published = self._remade.make(experiment_id, head, event)
        if published is None:
            log.warning("%s: %d decisions of edge %s cannot be checked: %s", experiment_id, len(sent), edge, _WHY)
        reader = _Reader(experiment, arms, version, edge, seq, unchecked=published is None)
        for one in sent:
            try:
                uploaded = reader.read(one)
                if found.setdefault(uploaded.id, uploaded) != uploaded:
                    raise InvalidError("the batch has another decision of this id.")
            except InvalidError as error:
                refused.append(RefusedDecision(one.id[:MAX_ID], str(error)))
        if published is not None:
            wrong = _different(published, list(found.values()))
            refused += [RefusedDecision(id_, reason) for id_, reason in wrong.items()]
            found = {id_: one for id_, one in found.items() if id_ not in wrong}
        return Batch(event.at, found, refused)

    def find(self, experiment_id: str, state: tuple[int, str], edge: str) -> PublishedState | None:
        """The state that an edge says it has decided from; None if this process has not got it.

        ``state`` is the position at which it was published, and its checksum.
        """
        seq, check = state
        if not EDGE_NAME.fullmatch(edge):
            raise InvalidError(f"edge must be 1 to 64 letters, digits, dots, - or _; got {ascii(edge)[:80]}.")
        _, event, *_ = self._published(experiment_id, seq)
        if event.check != check:
            raise _not_published(experiment_id, seq)
        return self._states.find(experiment_id, seq, check) or self._remade.find(experiment_id, seq, check)

    def _published(self, experiment_id: str, seq: int) -> _Known:
        """An event that published a state, and declaration and arms at that time."""
        with self._knowing:
            known = self._known.get((experiment_id, seq))
        if known is not None:
            return known
        with self._store.read() as session:
            session.existing_head(experiment_id)
            records = session.events(experiment_id, seq - 1, seq)
            event = read(records[0]).event if records else None
            if not isinstance(event, Published):
                raise _not_published(experiment_id, seq)
            arms = frozenset(all_arms(session, experiment_id, seq))
            known = _Known(records[0].head, event, declared_at(session, experiment_id, seq), arms)
        with self._knowing:
            self._known[experiment_id, seq] = known
            while len(self._known) > MAX_KNOWN:
                self._known.popitem(last=False)
        return known


class _Known(NamedTuple):
    """What was published, where, and which declaration and arms there were."""

    head: Head
    event: Published
    experiment: Experiment
    arms: frozenset[str]


def _not_published(experiment_id: str, seq: int) -> ConflictError:
    return ConflictError(f"experiment {experiment_id!r} has published no such state at event {seq}.")


class SentChoice(Protocol):
    """What the policy would do, as it was sent: of the right types."""

    arm: str
    propensity: float
    probabilities: dict[str, float] | None


class SentDecision(Protocol):
    """A decision as it was sent: of the right types."""

    id: str
    context: dict[str, Any]
    unit: str | None
    alias: str | None
    at: int
    mode: Mode
    arm: str
    propensity: float
    active: list[str]
    stale: bool

    @property
    def choice(self) -> SentChoice | None:
        """None in mode off."""


class _Reader(NamedTuple):
    """Reads decisions that were made from one state."""

    experiment: Experiment
    arms: frozenset[str]
    version: Version
    edge: str
    state: int
    unchecked: bool

    def read(self, sent: SentDecision) -> Uploaded:
        """A decision, if it can have been made."""
        id_, unit = decision_id(sent.id, generate=False), as_unit(sent.unit, self.experiment.units)
        alias = id_ if unit is None else sent.alias
        if alias is None or (unit is not None and not ALIAS.fullmatch(alias)):
            raise InvalidError(f"alias must be d_ and 16 to 64 hexadecimal digits; got {ascii(alias)[:80]}.")
        selection = self._selection(sent)
        x = tuple(self.experiment.coordinates(sent.context))
        edge = AtEdge(self.edge, self.state, sent.at, sent.stale, self.unchecked)
        return Uploaded(id_, alias, sent.context, x, unit, selection, edge)

    def _selection(self, sent: SentDecision) -> Selection:
        """What was served, if its parts go together; what the policy would have said is another matter."""
        mode, arm, active, given = sent.mode, sent.arm, tuple(sent.active), sent.choice
        served = baseline = self.experiment.baseline, 1.0
        if given is None:
            choice, good = None, mode == "off" and active == baseline[:1]
        else:
            choice = Choice(given.arm, given.propensity, given.probabilities)
            good = mode != "off" and 0.0 < choice.propensity <= 1.0
            good &= choice.probabilities is None or _add_up(choice.probabilities, *choice[:2])
            served = choice[:2] if mode == "live" else baseline
            names = (choice.arm, *active, *(choice.probabilities or ()))
            if not self.arms.issuperset(names):
                unknown = next(name for name in names if name not in self.arms)
                raise InvalidError(f"there was no arm {ascii(unknown)[:80]} when its state was published.")
        if not good or (arm, sent.propensity) != served:
            raise InvalidError("mode, arm, propensity, active and choice do not go together.")
        return Selection(mode, arm, sent.propensity, active, choice, None if choice is None else self.version)


def _add_up(chances: dict[str, float], arm: str, propensity: float) -> bool:
    """Whether these are probabilities, with that of an arm among them."""
    if chances.get(arm) != propensity or not all(0.0 <= chance <= 1.0 for chance in chances.values()):
        return False
    return math.isclose(math.fsum(chances.values()), 1.0, abs_tol=1e-9)


def _different(state: PublishedState, sent: Sequence[Uploaded]) -> dict[str, str]:
    """Decisions that come out otherwise from the state that they are said to be made from."""
    asked = [one for one in sent if not one.edge.stale]
    made = state.decide([one.x for one in asked], [one.alias for one in asked])
    again = {one.id: selection for one, selection in zip(asked, made, strict=True)}
    wrong: dict[str, str] = {}
    for one in sent:
        right = again.get(one.id, state.baseline)
        if right != one.selection:
            name = next(name for name in Selection._fields if getattr(right, name) != getattr(one.selection, name))
            wrong[one.id] = f"from state {state.seq}, {name} is another one"
    return wrong
