"""What an experiment has learned."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from conebandit.experiment.policy import Served
from conebandit.policies.base import Front
from conebandit.policies.cone_kernel import Beaten
from conebandit.service.engine.parts import Part
from conebandit.service.log.state import State
from conebandit.service.replies import (
    BeatenArm,
    Estimate,
    EstimatedFront,
    Explanation,
    FrontArm,
    KeptOut,
    PathBox,
    StateDigest,
)


class Queries(Part):
    """What only looks."""

    def front(self, experiment_id: str, context: Mapping[str, Any]) -> EstimatedFront:
        """The arms on the front in a context, with estimates in the units of the metrics."""
        state = self.transaction.state(experiment_id)
        front = state.policy.front(state.experiment.encode(context))
        return EstimatedFront(state.version, _front(state, front), _chances(state, front), _units(state))

    def explain(self, experiment_id: str, context: Mapping[str, Any]) -> Explanation:
        """Front, active arms and, from policies that can say it, why the others are not played."""
        state = self.transaction.state(experiment_id)
        x, names = state.experiment.encode(context), state.known
        active = state.policy.decide(x, 0).active
        why: Any = state.policy.explain(x) if hasattr(state.policy, "explain") else None
        return Explanation(
            version=state.version,
            policy=state.experiment.policy,
            observations=state.observations,
            learned=dict(zip(state.experiment.metric_index, state.learned, strict=True)),
            active=tuple(names[k] for k in active if state.arms[names[k]]),
            front=_front(state, state.policy.front(x)),
            path=tuple(PathBox(box.level, box.seen) for box in why.path) if hasattr(why, "path") else None,
            kept_out=None
            if why is None
            else tuple(KeptOut(names[e.arm], names[e.by], _finite(e.margins)) for e in why.eliminated),
            beaten=_beaten(state, why.beaten) if hasattr(why, "beaten") else None,
            units=_units(state),
        )

    def policy(self, experiment_id: str) -> Served:
        """The policy in its present state; to look at, not to teach."""
        return self.transaction.state(experiment_id).policy

    def digest(self, experiment_id: str) -> StateDigest:
        """Where the log ends and a checksum of the state that it leads to; equal in every process."""
        state = self.transaction.state(experiment_id)
        return StateDigest(*state.head, state.digest())


def _units(state: State) -> int | None:
    return None if state.experiment.units is None else state.n_units


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
        BeatenArm(names[b.arm], names[b.by], _finite([b.chance])[0], _finite(b.leads), _finite(b.deviations))
        for b in arms
        if state.arms[names[b.arm]]
    )


def _finite(values: Any) -> tuple[float | None, ...]:
    """Numbers for JSON: None for what is not known."""
    return tuple(float(v) if math.isfinite(v) else None for v in values)
