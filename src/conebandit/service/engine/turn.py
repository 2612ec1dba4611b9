"""Deciding, reporting, changing: what can be asked of the service, without HTTP, in one transaction."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from conebandit._version import __version__
from conebandit.experiment.arms import MAX_ARMS
from conebandit.experiment.declaration import Experiment, as_arm_name, as_mode, check_estimates
from conebandit.experiment.errors import InvalidError
from conebandit.experiment.policy import Served, with_policy
from conebandit.policies.base import Front
from conebandit.policies.cone_kernel import Beaten
from conebandit.service.engine.transaction import Transaction
from conebandit.service.errors import ConflictError, NotFoundError
from conebandit.service.log.events import ArmAdded, ArmRetired, Created, Decided, Learned, ModeChanged, Reported
from conebandit.service.log.past import Past, pack
from conebandit.service.log.reports import Reports
from conebandit.service.log.state import State
from conebandit.service.replies import (
    ArmStatus,
    Assignment,
    BeatenArm,
    Description,
    Estimate,
    EstimatedFront,
    Explanation,
    FrontArm,
    KeptOut,
    PathBox,
    Receipt,
    StateDigest,
)
from conebandit.service.stores.records import new_id
from conebandit.validate.arrays import FloatArray

MAX_AT_ONCE = 1000  # decisions or outcomes in one request
DECISION_ID = re.compile(r"[\x21-\x7e]{1,128}")


def new_state(experiment: Experiment, past: Past | None = None) -> State:
    """The state in which an experiment begins, with the default policy if it names none and with past rows learned."""
    named = with_policy(experiment)
    state = State(named, named.arms)  # refuses settings that do not fit
    if past is not None:
        state.learn_ahead(past.rows)
    return state


class Turn:
    """What can be asked of experiments. A request is refused before it has changed anything.

    Parameters
    ----------
    transaction
        Where states are found and events go.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from conebandit.service.engine.ledger import Ledger
    >>> from conebandit.service.stores.base import open_store
    >>> experiment = Experiment.from_dict({"id": "e", "arms": ["a", "b"], "metrics": [{"name": "m"}, {"name": "n"}]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = open_store(str(pathlib.Path(folder) / "log.db"))
    ...     with Ledger().transaction(store, now=0) as transaction:
    ...         turn = Turn(transaction)
    ...         created = turn.create(experiment)
    ...         [decision] = turn.decide("e", [{"id": "first", "context": {}}])
    ...         outcome = turn.report("e", [{"id": "first", "values": {"m": 1.0}}])
    ...     store.close()
    >>> decision.propensity, outcome
    (0.5, [Receipt(id='first', recorded=('m',), corrected=(), repeated=(), late=())])
    """

    def __init__(self, transaction: Transaction) -> None:
        self.transaction = transaction

    # ---- experiments --------------------------------------------------------------------------------------------

    def create(self, experiment: Experiment, past: Past | None = None, state: State | None = None) -> Description:
        """Begin an experiment, with the default policy if it names none; the same again is a no-op.

        If there are past rows, the policy learns from them first, unless it has: in a ``state`` that was made by
        :func:`new_state`, before everything was locked.
        """
        state = new_state(experiment) if state is None else state
        named = state.experiment
        if not self.transaction.begin(state):
            known = self.transaction.state(experiment.id).experiment.declaration
            if known not in (named.declaration, experiment.declaration):
                raise ConflictError(f"there is an experiment {experiment.id!r} already, with another declaration.")
            known_rows = self.transaction.past(experiment.id)
            if past is not None and (known_rows is None or known_rows.sha256 != past.sha256):
                raise ConflictError(
                    f"there is an experiment {experiment.id!r} already, which began without these rows."
                )
            return self.describe(experiment.id)
        at = self.transaction.time(state)
        self.transaction.append(state, Created(at, named.declaration, __version__))
        if past is not None:
            rows = pack(past.rows)
            self.transaction.append(state, Learned(at, past.file, past.sha256, len(past.rows.arms), rows))
        return self.describe(experiment.id)

    def describe(self, experiment_id: str) -> Description:
        """What an experiment is and how far it has come."""
        state = self.transaction.state(experiment_id)
        return Description(
            id=experiment_id,
            mode=state.mode,
            arms=tuple(ArmStatus(name, active) for name, active in state.arms.items()),
            events=state.head.seq,
            revising=state.corrected_from is not None,
            declaration=state.experiment.declaration,
            warnings=state.experiment.warnings,
        )

    def set_mode(self, experiment_id: str, mode: Any) -> Description:
        """Change the traffic mode; the mode that it has is a no-op."""
        checked = as_mode(mode)
        state = self.transaction.state(experiment_id)
        if state.mode != checked:
            self.transaction.append(state, ModeChanged(self.transaction.time(state), checked))
        return self.describe(experiment_id)

    def add_arm(self, experiment_id: str, arm: Any) -> Description:
        """Add an arm; one that is active already is a no-op."""
        name = as_arm_name(arm)
        state = self.transaction.state(experiment_id)
        if name in state.arms:
            if not state.arms[name]:
                raise ConflictError(f"arm {name!r} is retired and is never served again; add one of another name.")
            return self.describe(experiment_id)
        if state.experiment.arm_features:
            described = ", ".join(next(iter(state.experiment.arm_features.values())))
            raise ConflictError(
                f"arm {name!r} cannot be added: arms of this experiment are described by {described}, and a new one is "
                "not. Begin another experiment that has all of them."
            )
        if len(state.arms) >= MAX_ARMS:
            raise ConflictError(f"there are {len(state.arms)} arms, and {MAX_ARMS} is the limit.")
        try:
            check_estimates(sum(state.arms.values()) + 1, len(state.experiment.metrics), state.experiment.context_dim)
        except InvalidError as error:
            raise ConflictError(f"arm {name!r} cannot be added: {error}") from None
        self.transaction.append(state, ArmAdded(self.transaction.time(state), name))
        return self.describe(experiment_id)

    def retire_arm(self, experiment_id: str, arm: Any) -> Description:
        """Never serve an arm again; one that is retired already is a no-op."""
        name = as_arm_name(arm)
        state = self.transaction.state(experiment_id)
        if name not in state.arms:
            raise NotFoundError(f"there is no arm {name!r}; there are {', '.join(state.arms)}.")
        if name == state.experiment.baseline:
            raise ConflictError(f"arm {name!r} is the baseline, which modes 'shadow' and 'off' serve; it must stay.")
        if state.arms[name]:
            self.transaction.append(state, ArmRetired(self.transaction.time(state), name))
        return self.describe(experiment_id)

    # ---- decisions and outcomes ---------------------------------------------------------------------------------

    def decide(self, experiment_id: str, requests: Sequence[Mapping[str, Any]]) -> list[Assignment]:
        """An arm for each request ``{"id", "context"}``; all or none. An id that was there before gets its answer."""
        state = self.transaction.state(experiment_id)
        ids = [_decision_id(request.get("id")) for request in _some(requests, "decisions")]
        given = [id_ for id_, request in zip(ids, requests, strict=True) if request.get("id") is not None]
        found = self.transaction.decided(experiment_id, given)
        contexts = {id_: decided.context for id_, decided in found.items()}
        new: dict[str, FloatArray] = {}
        for id_, request in zip(ids, requests, strict=True):
            context = dict(request.get("context") or {})
            x = state.experiment.encode(context)
            if id_ not in contexts:
                contexts[id_], new[id_] = context, x
            elif not _same(contexts[id_], context):
                raise ConflictError(f"decision {id_!r} was asked for with another context before; use a new id.")
        if new:
            found |= self._decide_new(state, {id_: (contexts[id_], x) for id_, x in new.items()})
        return [_assignment(found[id_]) for id_ in ids]

    def _decide_new(self, state: State, new: dict[str, tuple[dict[str, Any], FloatArray]]) -> dict[str, Decided]:
        """Decide in some contexts, by id: as they were given, and encoded."""
        at = self.transaction.time(state)
        if state.mode != "off":
            self.transaction.close_windows(state)
        made = {}
        for id_, (context, x) in new.items():
            made[id_] = Decided(at, id_, context, tuple(x.tolist()), state.choose(x, id_))
            self.transaction.append(state, made[id_])
        return made

    def report(self, experiment_id: str, requests: Sequence[Mapping[str, Any]]) -> list[Receipt]:
        """Record outcomes ``{"id", "values"}``; all or none."""
        state = self.transaction.state(experiment_id)
        outcomes = []
        for request in _some(requests, "outcomes"):
            values = request.get("values")
            if not isinstance(values, Mapping) or not values:
                raise InvalidError("values must be a table of one or more metrics.")
            checked = {name: state.experiment.check_value(name, value) for name, value in values.items()}
            outcomes.append((_decision_id(request.get("id"), generate=False), checked))
        ids = list({id_ for id_, _ in outcomes})
        reports = self.transaction.reports(state, ids)
        missing = set(ids) - set(reports)
        if missing:
            raise NotFoundError(f"there is no decision {min(missing)!r} in experiment {experiment_id!r}.")
        return [self._report_one(state, id_, values, reports[id_]) for id_, values in outcomes]

    def _report_one(self, state: State, id_: str, values: dict[str, float], reports: Reports) -> Receipt:
        before = dict(reports.values)
        changed = {name: value for name, value in values.items() if before.get(name) != value}
        late: list[str] = []
        if changed:
            # In the order of the log, which sorts names: so what is late is listed as a replay would list it.
            event = Reported(self.transaction.time(state), id_, dict(sorted(changed.items())))
            self.transaction.append(state, event, reports)
            late = reports.at(state.head.seq).late
        return Receipt(
            id=id_,
            recorded=tuple(name for name in changed if name not in before and name not in late),
            corrected=tuple(name for name in changed if name in before and name not in late),
            repeated=tuple(name for name in values if name not in changed),
            late=tuple(late),
        )

    # ---- what it knows ------------------------------------------------------------------------------------------

    def front(self, experiment_id: str, context: Mapping[str, Any]) -> EstimatedFront:
        """The arms on the front in a context, with estimates in the units of the metrics."""
        state = self.transaction.state(experiment_id)
        front = state.policy.front(state.experiment.encode(context))
        return EstimatedFront(state.version, _front(state, front), _chances(state, front))

    def explain(self, experiment_id: str, context: Mapping[str, Any]) -> Explanation:
        """Front, active arms and, from policies that can say it, why the others are not played."""
        state = self.transaction.state(experiment_id)
        x, names = state.experiment.encode(context), state.known
        active = state.policy.decide(x, 0).active
        why: Any = state.policy.explain(x) if hasattr(state.policy, "explain") else None
        return Explanation(
            version=state.version,
            policy=state.experiment.policy,
            observations=state.policy.n_observations,
            active=tuple(names[k] for k in active if state.arms[names[k]]),
            front=_front(state, state.policy.front(x)),
            path=tuple(PathBox(box.level, box.seen) for box in why.path) if hasattr(why, "path") else None,
            kept_out=None
            if why is None
            else tuple(KeptOut(names[e.arm], names[e.by], _finite(e.margins)) for e in why.eliminated),
            beaten=_beaten(state, why.beaten) if hasattr(why, "beaten") else None,
        )

    def policy(self, experiment_id: str) -> Served:
        """The policy in its present state; to look at, not to teach."""
        return self.transaction.state(experiment_id).policy

    def digest(self, experiment_id: str) -> StateDigest:
        """Where the log ends and a checksum of the state that it leads to; equal in every process."""
        state = self.transaction.state(experiment_id)
        return StateDigest(*state.head, state.digest())


# ---- small parts ----------------------------------------------------------------------------------------------------


def _assignment(decided: Decided) -> Assignment:
    made = decided.selection
    version = None if made.version is None else str(made.version)
    return Assignment(decided.id, made.arm, made.propensity, made.active, made.mode, version, made.probabilities)


def _front(state: State, front: Front) -> tuple[FrontArm, ...]:
    rows = []
    for k, means, radii in zip(front.arms, front.means, front.radii, strict=True):
        if not state.arms[state.known[k]]:
            continue  # retired; the policy has not been folded anew yet
        estimates = {}
        for metric, mean, radius in zip(state.experiment.metrics, _finite(means), _finite(radii), strict=True):
            value = mean if mean is None or metric.worst is None else metric.worst - mean
            estimates[metric.name] = Estimate(value, radius)
        rows.append(FrontArm(state.known[k], estimates))
    return tuple(rows)


def _chances(state: State, front: Front) -> dict[str, float | None] | None:
    """By name, for the arms that can be served."""
    if front.chances is None:
        return None
    named = zip(state.known, _finite(front.chances), strict=True)
    return {name: chance for name, chance in named if state.arms[name]}


def _beaten(state: State, arms: Iterable[Beaten]) -> tuple[BeatenArm, ...]:
    """Arms that are off the front and can be served."""
    names = state.known
    return tuple(
        BeatenArm(names[b.arm], names[b.by], b.chance, _finite(b.leads), _finite(b.deviations))
        for b in arms
        if state.arms[names[b.arm]]
    )


def _finite(values: Any) -> tuple[float | None, ...]:
    """Numbers for JSON: None for what is not known."""
    return tuple(float(v) if math.isfinite(v) else None for v in values)


def _same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two contexts say the same: 3 and 3.0 do, and so do null and nothing."""
    given = [{name: value for name, value in context.items() if value is not None} for context in (one, other)]
    return given[0] == given[1]


def _decision_id(given: Any, *, generate: bool = True) -> str:
    if given is None and generate:
        return new_id()
    if not isinstance(given, str) or not DECISION_ID.fullmatch(given):
        raise InvalidError(f"id must be 1 to 128 printable ASCII characters without spaces; got {ascii(given)[:80]}.")
    return given


def _some(requests: Sequence[Mapping[str, Any]], what: str) -> Sequence[Mapping[str, Any]]:
    if not 1 <= len(requests) <= MAX_AT_ONCE:
        raise InvalidError(f"{what} must have 1 to {MAX_AT_ONCE} entries; got {len(requests)}.")
    return requests
