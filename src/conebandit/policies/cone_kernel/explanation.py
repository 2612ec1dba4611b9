"""What a ``ConeKernel`` tells about the arms at a context: who beats whom, how surely, and by how much."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from conebandit.kernels.cone_kernel.prior import LENGTHS, NUS
from conebandit.kernels.cone_kernel.state import AMPLITUDE, SHARED, State
from conebandit.validate.arrays import FloatArray


@dataclass(frozen=True)
class Beaten:
    """An arm that is not reported at a context, and the one that beats it most surely.

    Attributes
    ----------
    arm, by
        The arm, and the one whose least margin over it is largest.
    chance
        That the arm is off the front, whoever beats it: 1 minus its entry in :attr:`Front.chances`, nan like that one.
    leads
        Shape (F,), by how much ``by`` is ahead on each facet of the cone, by the posterior means. For the orthant,
        facets are metrics, in their units. A lead that is negative speaks for the arm. It is nan where a metric has no
        values yet.
    deviations
        Shape (F,), posterior deviations of the leads.

    Examples
    --------
    >>> import conebandit as cb
    >>> policy = cb.ConeKernel(n_arms=2, cone=cb.Cone.orthant(1), context_dim=1)
    >>> for t in range(200):
    ...     policy.observe([t / 200], t % 2, [t % 2])
    >>> [beaten] = policy.explain([0.3]).beaten
    >>> beaten.arm, beaten.by, beaten.chance
    (0, 1, 1.0)
    >>> beaten.leads.round(2), (beaten.margins > 4).all()
    (array([1.]), np.True_)
    """

    arm: int
    by: int
    chance: float
    leads: FloatArray
    deviations: FloatArray

    @property
    def margins(self) -> FloatArray:
        """Shape (F,), leads in units of their deviations."""
        return _ratio(self.leads, self.deviations)


@dataclass(frozen=True)
class KernelExplanation:
    """What led to the arms a context is offered.

    Attributes
    ----------
    active
        Arms in the running.
    beaten
        All arms that are not reported, with what beats them. Those among them that are active may still be played.
    relevance
        Shape (d,), how much each context coordinate matters, to the metric that it matters most to; a metric counts by
        the share of its variance that the context explains, and the most relevant coordinate has 1.
    relevance_by_metric
        Shape (M, d), how much it matters to each metric; the most relevant one of a metric has 1. It is nan of a metric
        that has no values yet.
    lengths
        Shape (d,), over which distance means change along each coordinate, of the metric that it matters most to.
    smoothness
        Shape (d,), how smoothly they change: 2.5 if means are smooth, 0.5 if they jump, 1.5 between.
    noise
        Shape (M,), deviation of a reward around its mean. Like those above learned, and nan before the first fit.
    agreement
        Shape (M, M), log odds that two arms are in the same order in two metrics: 0 if as by chance, below it where
        metrics are traded for each other. Chances count it. It is 0 on the diagonal, and nan where it is not known.
    n_features
        Number of features in use.

    Examples
    --------
    >>> import conebandit as cb
    >>> policy = cb.ConeKernel(n_arms=2, cone=cb.Cone.orthant(1), context_dim=1)
    >>> policy.explain([0.3]).active, policy.explain([0.3]).n_features
    ((0, 1), 1)
    """

    active: tuple[int, ...]
    beaten: tuple[Beaten, ...]
    relevance: FloatArray
    relevance_by_metric: FloatArray
    lengths: FloatArray
    smoothness: FloatArray
    noise: FloatArray
    agreement: FloatArray
    n_features: int

    @property
    def eliminated(self) -> tuple[Beaten, ...]:
        """Beaten arms that are out of the running.

        Arms are eliminated by the spread of a few posterior draws, but margins are measured by the exact posterior: so
        a margin need not exceed four deviations, and may be not much above two.
        """
        return tuple(beaten for beaten in self.beaten if beaten.arm not in self.active)


def what_matters(state: State, widths: FloatArray) -> dict[str, FloatArray]:
    """What was learned of coordinates, which are so wide (d,), and of metrics; nan of metrics that are not known.

    These are the arrays of :class:`KernelExplanation` that have these names.
    """
    if not state.fitted_to.any():
        unknown = np.full(state.relevance.shape, np.nan)
        agreement = np.full(state.agreement.shape, np.nan)
        each = dict.fromkeys(("relevance", "lengths", "smoothness"), unknown[0])
        return {**each, "relevance_by_metric": unknown, "agreement": agreement}
    known = state.fitted_to > 0
    by_metric = np.where(known[:, None], state.relevance / state.relevance.max(axis=1, keepdims=True), np.nan)
    explained = np.where(known, state.scales[[AMPLITUDE, SHARED]].sum(axis=0), 0.0)  # by the context, as a share
    weighed = np.nan_to_num(by_metric) * (explained / explained.max())[:, None]
    most = weighed.argmax(axis=0), np.arange(weighed.shape[1])  # the metric that each coordinate matters most to
    agreement = np.where(known[:, None] & known, state.agreement, np.nan)
    np.fill_diagonal(agreement, 0.0)
    return {
        "relevance": weighed.max(axis=0),
        "relevance_by_metric": by_metric,
        "lengths": LENGTHS[state.lengths[most]] * widths,
        "smoothness": NUS[state.smoothness[most]],
        "agreement": agreement,
    }


def who_beats(arm: int, means: FloatArray, deviations: FloatArray, facets: FloatArray, chance: float) -> Beaten:
    """What beats an arm, from posterior means and deviations of all, both (K, M)."""
    known = np.isfinite(means).all(axis=0)
    leads = (means - means[arm])[:, known] @ facets[:, known].T
    spreads = np.sqrt((deviations**2 + deviations[arm] ** 2)[:, known] @ (facets[:, known] ** 2).T)
    unknown = (facets[:, ~known] != 0.0).any(axis=1)
    leads[:, unknown], spreads[:, unknown] = np.nan, np.inf
    margins = _ratio(leads, spreads).min(axis=1)
    margins[arm] = -np.inf
    by = int(np.argmax(margins))
    return Beaten(arm, by, chance, leads[by], spreads[by])


def _ratio(leads: FloatArray, deviations: FloatArray) -> FloatArray:
    """Leads in units of their deviations; a lead without any deviation is infinitely many, one not known is none."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where((leads == 0.0) | np.isnan(leads), 0.0, leads / deviations))
