"""Fits the model of a ``ConeKernel`` anew: standardise, learn the prior and choose features, fit weights."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from conebandit.kernels.cone_kernel.constants import (
    BLOCK,
    BUDGET,
    CHEAP_SHARE,
    COST_OF_A_CALL,
    COST_OF_A_FUNCTION,
    FIRST_FIT,
    LAST_FIT,
    MAX_PRIOR_STEPS,
    MIN_SIGNAL_TO_NOISE,
    MIN_UPDATES,
    N_FRONTS,
    N_SITES,
    PATIENCE,
    REFIT_GROWTH,
    SENTINEL_PRIORITY,
    UNIT,
    UNIT_AT_ONCE,
)
from conebandit.kernels.cone_kernel.each_arm import costs_at_each
from conebandit.kernels.cone_kernel.features import highest_order
from conebandit.kernels.cone_kernel.fit import count_known
from conebandit.kernels.cone_kernel.prior import spectral_density
from conebandit.kernels.cone_kernel.rows import update_rows
from conebandit.kernels.cone_kernel.state import (
    AMPLITUDE,
    DESCRIBED,
    FIT_BEGAN,
    FITTED,
    NEVER,
    NEXT_WORK,
    OBSERVATIONS,
    ROWS,
    SHARED,
    State,
)
from conebandit.kernels.vectors import LANES
from conebandit.policies.cone_kernel.agreement import learn_agreement
from conebandit.policies.cone_kernel.candidates import Candidates
from conebandit.policies.cone_kernel.posterior import fit_weights, posterior
from conebandit.policies.cone_kernel.prior import (
    is_settled,
    learn_prior,
    prior_of_features,
    prior_variances,
    signal_to_noise,
    standardise,
)
from conebandit.policies.cone_kernel.sums import Sums
from conebandit.policies.cone_kernel.work import Job, Work, in_units
from conebandit.validate.arrays import FloatArray


class Fitter:
    """The steps of a fit in their order, with what they share: candidates, spectral density, sums over samples.

    A fit is spread over observations. It is a function of the samples up to the one at which it began, and of the
    prior at that time, which no observation changes. Meanwhile the former model learns and decides; then the new one
    catches up with the samples since, and takes its place. After each observation the fit has the same budget, so the
    number of observations since it began says how far it is: a policy that was copied or loaded begins it again.
    """

    def __init__(self, context_dim: int, max_features: int, seed: int, basis: FloatArray) -> None:
        self.sums = Sums()
        self._candidates = Candidates.of_dim(context_dim)
        self._density = spectral_density(int(highest_order(context_dim)))
        self._max_features = max_features
        self._seed = seed
        self.basis = basis  # of the arms
        self._job: Job[State] | None = None
        self._caught_up = 0  # how many samples the new model has learned from

    def __getstate__(self) -> dict[str, Any]:
        """For another process or a deep copy: without the fit under way, and the sums that it was adding to."""
        return {**vars(self), "sums": Sums(), "_job": None}

    def go_on(self, state: State, *, at_once: bool) -> State:
        """After an observation at which a fit is due or under way: the state, with the new model once it is due.

        ``at_once``: do not wait for later observations with the work, only with its result. Then nothing is left to do
        until the new model is due.
        """
        try:
            return self._go_on(state, at_once=at_once)
        except BaseException:  # interrupted or out of memory: work that was broken off cannot be gone on with
            self.sums, self._job = Sums(), None
            raise

    def _go_on(self, state: State, *, at_once: bool) -> State:
        n = int(state.size[OBSERVATIONS])
        # Not from n on: if a fit was broken off at once, it begins again one observation later, but as of the same one.
        began, budget = int(state.size[FIT_BEGAN] or state.size[NEXT_WORK]), self._budget(state)
        if self._job is None:
            self._job, self._caught_up = Job(self.fit(_as_of(state, began))), began
        paid, next_work = (n - began + 1) * budget, n + 1
        self.sums.unit = UNIT_AT_ONCE if at_once else UNIT
        fitted = self._job.advance(math.inf if at_once else paid)
        if fitted is not None:
            of_update = _cost_of_update(fitted, len(fitted.orders))
            # With the fit paid for, and an update for each sample since. More is paid than an update costs.
            due = began + max((self._job.spent - of_update) // (budget - of_update), 0)
            if n >= due:
                self._catch_up(fitted, state, n)
                self._job = None
                return self._next(fitted, state)
            self._catch_up(fitted, state, min(n, began + (paid - self._job.spent) // of_update))
            next_work = due if at_once else next_work
        size = state.size.copy()
        size[FIT_BEGAN], size[NEXT_WORK] = began, next_work
        return state._replace(size=size)

    def _catch_up(self, fitted: State, state: State, n: int) -> None:
        """Let the new model learn from samples up to number ``n``."""
        first, dim = self._caught_up, state.orders.shape[1]
        if n > first:
            contexts, rewards = map(np.ascontiguousarray, np.hsplit(state.data[first:n], [dim]))
            update_rows(fitted, first, contexts, state.chosen[first:n], rewards)
            self._caught_up = n

    def fit(self, state: State) -> Work[State]:
        """The state with a model fitted to all samples; iterates on the prior until it has settled."""
        state = yield from standardise(state)
        values = state.counts.sum(axis=0)
        state = state._replace(fitted_to=np.where(values >= max(len(state.counts), FIRST_FIT), values, 0))
        state = yield from self._choose_features(state)
        seen = [state]
        for step in range(MAX_PRIOR_STEPS):
            totals = yield from self.sums.over_all(state, again=step > 0)
            found = yield from posterior(state, totals, self.basis)
            state = yield from learn_prior(state, found, totals, self._density)
            # Not at each step: a kernel that goes to and fro by one place would take features to and fro, and what
            # costs most are sums over all samples for features that are new.
            if step == 0:
                state = yield from self._choose_features(state)
            else:
                state = state._replace(prior=prior_of_features(state, self._density))
            if is_settled(seen, state):
                break
            seen.append(state)
        state = yield from self._choose_features(state)
        totals = yield from self.sums.over_all(state, again=True)
        state = yield from fit_weights(state, totals, self.basis, self._seed)
        state = yield from learn_agreement(state, self._seed)
        return (yield from find_cheap(state, self._seed))

    def _budget(self, state: State) -> int:
        return max(BUDGET, MIN_UPDATES * _cost_of_update(state, self._max_features))

    def _choose_features(self, state: State) -> Work[State]:
        yield COST_OF_A_CALL + COST_OF_A_FUNCTION * self._candidates.orders.size
        return choose_features(state, self._candidates, self._density, self._max_features)

    def _next(self, fitted: State, state: State) -> State:
        """The state with the fitted model. It says when the next fit is due; after the last one, rows are dropped."""
        size, n, began = state.size.copy(), int(state.size[OBSERVATIONS]), int(fitted.size[OBSERVATIONS])
        following = max(int(began * REFIT_GROWTH), began + state.weights.shape[0], n + 1)
        size[FITTED], size[FIT_BEGAN], size[NEXT_WORK] = 1, 0, following
        data, chosen = state.data, state.chosen
        if following > LAST_FIT and (_is_enough(fitted) or following > PATIENCE * LAST_FIT):
            size[NEXT_WORK], size[ROWS], self.sums = NEVER, 0, Sums()
            data, chosen = np.zeros((1, data.shape[1])), np.zeros(1, dtype=np.int64)  # room that is never used
        return fitted._replace(size=size, counts=state.counts, data=data, chosen=chosen)


def _is_enough(fitted: State) -> bool:
    """Whether the last fit would have values enough of each metric, some of which may come late.

    Of M metrics that are told apart from each other each has a share of 1 / M; half of it will do.
    """
    metrics = fitted.fitted_to.size
    return bool(2 * metrics * fitted.fitted_to.min() > LAST_FIT / REFIT_GROWTH)


def _as_of(state: State, n: int) -> State:
    """The state as it was at the first ``n`` observations, but for weights and covariances, which no fit reads."""
    size, counts = state.size.copy(), np.zeros_like(state.counts)
    size[OBSERVATIONS] = n
    count_known(state.data, state.chosen, n, counts)
    return state._replace(size=size, counts=counts)


def _cost_of_update(state: State, features: int) -> int:
    """Multiply-adds of learning from one observation, at most."""
    objectives, columns = int(state.weights.shape[1]), int(state.weights.shape[3])
    return 2 * objectives * features * (features + columns)


def choose_features(state: State, candidates: Candidates, density: FloatArray, max_features: int) -> State:
    """Take the features that the data can tell apart; their weights are not fitted yet."""
    n_arms, n_objectives, _, columns = state.weights.shape
    prior = prior_variances(state, candidates, density)
    ratio = (signal_to_noise(state)[:, None] * prior).max(axis=0)
    ratio[candidates.sentinels] += SENTINEL_PRIORITY
    ratio[0] = np.inf  # the constant
    # No more weights than observations: the first fit would take as long as many observations, and tell no more.
    most = min(max(int(state.size[OBSERVATIONS]), int(np.sum(candidates.sentinels)) + 1), max_features)
    size = min(int((ratio > MIN_SIGNAL_TO_NOISE).sum()), most)
    chosen = np.sort(np.argsort(-ratio, kind="stable")[:size])
    left_out = np.ones(len(ratio), dtype=np.bool_)
    left_out[chosen] = False
    amplitude = state.scales[AMPLITUDE] + state.scales[SHARED] + state.scales[DESCRIBED:].sum(axis=0)
    return state._replace(
        beyond=prior[:, left_out].sum(axis=1) * amplitude,
        orders=candidates.orders[chosen],
        parts=candidates.parts[chosen],
        weights=np.zeros((n_arms, n_objectives, size, columns)),
        prior=np.ascontiguousarray(prior[:, chosen]),
    )


def find_cheap(state: State, seed: int) -> Work[State]:
    """The state with what arms cost where they cost least, among the contexts that were seen last.

    To compare arms takes the square of their number, so with many there are fewer contexts: a fit stays about linear.
    """
    n, dim = int(state.size[OBSERVATIONS]), state.orders.shape[1]
    arms, objectives, features, columns = state.weights.shape
    to_compare = arms**2 * len(state.facets) * N_FRONTS // (2 * LANES)  # so many columns at once
    sites = min(max(BLOCK * BUDGET // to_compare, N_SITES // BLOCK), N_SITES)
    contexts = np.ascontiguousarray(state.data[max(n - sites, 0) : n, :dim])
    costs = np.empty((len(contexts), arms))
    cost = arms * objectives * features * columns + to_compare
    for first, last in in_units(len(contexts), cost):
        costs_at_each(state, np.uint64(seed), contexts[first:last], costs[first:last])
        yield (last - first) * cost
    # An arm that is hardly anywhere active is cheap wherever it is: the largest number stands for no limit.
    cheap = np.quantile(costs, CHEAP_SHARE, axis=0, method="lower")
    return state._replace(cheap=np.nan_to_num(cheap))
