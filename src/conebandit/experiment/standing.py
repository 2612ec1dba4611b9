"""How all arms stand in one context: what is expected of them, who is on the front, and what beats the others."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conebandit.experiment.declaration import Experiment
from conebandit.experiment.outlook import Interval, Outlook, estimates_by_name
from conebandit.experiment.policy import Served
from conebandit.experiment.recommendation import chance_of
from conebandit.geometry.cone import Cone
from conebandit.geometry.pareto import pareto_mask
from conebandit.kernels.cone_kernel.constants import RADIUS
from conebandit.policies.compiled import estimates
from conebandit.validate.arrays import FloatArray


@dataclass(frozen=True)
class Standing:
    """An arm in a context, beside all others.

    Attributes
    ----------
    number
        Index of the arm in the policy.
    outlook
        What is expected of it, and by whom it is beaten most surely if it is off the front.
    leads
        If it is beaten: by how much, on each facet of the cone, between two deviations; the ends are infinite if the
        policy does not say how uncertain they are.
    active
        Whether the policy still plays it here.

    Examples
    --------
    >>> Standing(0, Outlook("new", True, 0.97, {"revenue": Interval(12.3, 11.2, 13.4)}), (), True).outlook.arm
    'new'
    """

    number: int
    outlook: Outlook
    leads: tuple[Interval, ...]
    active: bool

    @property
    def known(self) -> bool:
        """Whether every metric has an estimate, and an interval around it."""
        return bool(np.isfinite([*self.outlook.estimates.values()]).all())


def standings(
    experiment: Experiment, policy: Served, x: FloatArray, retired: Collection[str] = ()
) -> tuple[Standing, ...]:
    """All arms at a context (d,), in the order of the policy; the service says the same of them.

    Parameters
    ----------
    experiment
        Its arms are those of the policy.
    policy
        Of any kind; one with ``explain`` says what beats whom and how surely, else it follows from the estimates.
    x
        The context as the policy sees it.
    retired
        Arms that the policy has but that are not served any more: they are not on the front.

    Examples
    --------
    >>> from conebandit.experiment.policy import make_policy
    >>> experiment = Experiment.from_dict({"id": "e", "arms": ["a", "b"], "metrics": [{"name": "m"}]})
    >>> policy = make_policy(experiment, experiment.arms)
    >>> for t in range(60):
    ...     policy.observe([0.5], t % 2, [t % 2])
    >>> [(arm.outlook.arm, arm.outlook.on_front) for arm in standings(experiment, policy, np.array([0.5]))]
    [('a', False), ('b', True)]
    """
    means, radii = (found[0] for found in estimates(policy, x[None]))
    front, active = policy.front(x), policy.decide(x, 0).active
    why: Any = policy.explain(x) if hasattr(policy, "explain") else None
    beaten = {each.arm: each for each in getattr(why, "beaten", ())}
    found = []
    for k, name in enumerate(experiment.arms):
        on_front, by = k in front.arms and name not in retired, None
        leads: tuple[Interval, ...] = ()
        if k in beaten:
            by, leads = beaten[k].by, _between(beaten[k].leads, beaten[k].deviations)
        elif k not in front.arms:
            by, leads = _beaten_by_estimates(k, means, policy.cone)
        outlook = _outlook(experiment, k, means, radii, on_front=on_front, chance=chance_of(front, k), by=by)
        found.append(Standing(k, outlook, leads, k in active))
    return tuple(found)


def standings_by_estimates(
    experiment: Experiment,
    policy: Served,
    x: FloatArray,
    retired: Collection[str],
    *,
    cone: Cone,
    resolution: FloatArray,
) -> tuple[Standing, ...]:
    """As :func:`standings`, but from the estimates alone, under any cone and resolution, and without chances.

    For policies that learn otherwise under another cone. Arms of which nothing is known are off the front.
    """
    means, radii = (found[0] for found in estimates(policy, x[None]))
    known, active = np.isfinite(means).all(axis=1), policy.decide(x, 0).active
    front = np.zeros(len(means), dtype=np.bool_)
    if known.any():
        front[known] = pareto_mask(means[known], cone, resolution=resolution)
    found = []
    for k, name in enumerate(experiment.arms):
        by, leads = (None, ()) if front[k] else _beaten_by_estimates(k, means, cone)
        on_front = bool(front[k]) and name not in retired
        outlook = _outlook(experiment, k, means, radii, on_front=on_front, chance=float("nan"), by=by)
        found.append(Standing(k, outlook, leads, k in active))
    return tuple(found)


def clearest_lead(arm: int, means: FloatArray, cone: Cone) -> int | None:
    """The arm that is most clearly better than one, by estimates (K, M) of all; None if there is none."""
    leads = ((means - means[arm]) @ cone.facets.T).min(axis=1)
    leads[arm] = 0.0
    by = int(np.argmax(np.nan_to_num(leads, nan=-np.inf)))
    return by if leads[by] > 0.0 else None


def _beaten_by_estimates(arm: int, means: FloatArray, cone: Cone) -> tuple[int | None, tuple[Interval, ...]]:
    by = clearest_lead(arm, means, cone)
    if by is None:
        return None, ()
    return by, _between(cone.facets @ (means[by] - means[arm]), np.full(len(cone.facets), np.inf))


def _between(leads: FloatArray, deviations: FloatArray) -> tuple[Interval, ...]:
    pairs: NDArray[np.float64] = np.stack([leads, RADIUS * deviations], axis=1)
    return tuple(Interval(lead, lead - radius, lead + radius) for lead, radius in pairs.tolist())


def _outlook(
    experiment: Experiment,
    k: int,
    means: FloatArray,
    radii: FloatArray,
    *,
    on_front: bool,
    chance: float,
    by: int | None,
) -> Outlook:
    return Outlook(
        arm=experiment.arms[k],
        on_front=on_front,
        chance=chance,
        estimates=estimates_by_name(experiment.metrics, means[k].tolist(), radii[k].tolist()),
        beaten_by=None if by is None else experiment.arms[by],
    )
