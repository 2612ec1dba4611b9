"""What two ``ConeKernel`` have learned, together.

While a fit is still to come a policy keeps its rows, and another one can learn from them. After the last fit nothing
but the posterior is left, in features and units that the fits have chosen: then two policies can be merged if they
share these, having gone on as copies of one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np

from conebandit.kernels.cone_kernel.constants import LAST_FIT
from conebandit.kernels.cone_kernel.fit import draw_weights
from conebandit.kernels.cone_kernel.state import NEVER, NEXT_WORK, OBSERVATIONS, ROWS, State
from conebandit.policies.merging import Regression, Samples, added, inverse, pooled, root_of_inverse

if TYPE_CHECKING:
    from conebandit.policies.cone_kernel.policy import ConeKernel

Kernel = TypeVar("Kernel", bound="ConeKernel")

MODEL = (
    "orders",
    "prior",
    "beyond",
    "agreement",
    "cheap",
    "scales",
    "noise",
    "relevance",
    "lengths",
    "smoothness",
    "constant",
    "fitted_to",
)  # by fits


def merged(mine: Kernel, theirs: Kernel, start: Kernel) -> Kernel:
    """A policy that has learned what two others have; they were ``start`` once, and what it knew counts once."""
    done = [not is_still_fitted(policy) for policy in (mine, theirs, start)]
    if all(done[:2]):
        if not done[2]:
            raise ValueError(_apart(mine, theirs))
        return _with_posteriors(mine, theirs, start)
    if done[2]:
        raise ValueError(
            "since must be a copy of what both policies were before they went on, but it has made its last fit and one "
            "of them has not."
        )
    first = _samples(start)
    # One of the two at least has its rows. The other one learns from them.
    if done[1]:
        mine, theirs = mine.clone()._with(theirs.state()), mine
    elif not done[0]:
        _samples(mine).after(first, "this policy")
    made = mine.copy()
    made._learn_rows(*_samples(theirs).after(first, "other").columns(mine.context_dim))
    return made


def is_still_fitted(policy: ConeKernel) -> bool:
    """Whether a fit is to come, and rows are kept for it."""
    return bool(policy._state.size[NEXT_WORK] != NEVER)


def _samples(policy: ConeKernel) -> Samples:
    rows = int(policy._state.size[ROWS])
    return Samples(policy._state.data[:rows], policy._state.chosen[:rows])


def _apart(mine: ConeKernel, theirs: ConeKernel) -> str:
    """Why two policies cannot be merged that have both made their last fit."""
    differ = _first_difference(mine._state, theirs._state)
    if differ is None:
        return (
            "both policies went on from one that had made its last fit, and what that one knew would count twice: give "
            "a copy of it as 'since'."
        )
    return (
        f"both policies have made their last fit, at about {LAST_FIT:,} observations, each its own: they differ in "
        f"{differ}, so there is nothing that could be added. Let one policy learn from the first rows until its last "
        "fit, go on with copies of it, and give it as 'since'; learn_shards does that."
    )


def _first_difference(one: State, other: State) -> str | None:
    """What two models differ in, if they do."""
    return next((name for name in MODEL if not np.array_equal(getattr(one, name), getattr(other, name))), None)


def _with_posteriors(mine: Kernel, theirs: Kernel, start: Kernel) -> Kernel:
    """Precisions add, and so do precisions times means; draws are made anew from the posterior that results."""
    states: list[State] = [policy._state for policy in (mine, theirs, start)]
    differ = _first_difference(states[0], states[2]) or _first_difference(states[1], states[2])
    if differ is not None:
        raise ValueError(
            f"since must be a copy of what both policies were before they went on, but its model differs in {differ}."
        )
    made = added(states, ("counts",))
    size = states[0].size.copy()
    size[OBSERVATIONS] += states[1].size[OBSERVATIONS] - states[2].size[OBSERVATIONS]
    weights, covs = np.empty_like(states[0].weights), np.empty_like(states[0].covs)
    rng = np.random.default_rng([int(mine._seed), int(size[OBSERVATIONS])])
    for place in np.ndindex(weights.shape[:2]):
        fits = [Regression(state.covs[place], state.weights[place][:, 0].copy()) for state in states]
        covs[place], mean = pooled(*fits)
        normals = np.zeros(weights.shape[2:])  # in column 0, the mean, nothing is added
        normals[:, 1:] = rng.standard_normal(normals[:, 1:].shape)
        draw_weights(root_of_inverse(inverse(covs[place])), mean, normals, weights[place])
    return mine.clone()._with({**mine.state(), **made, "size": size, "weights": weights, "covs": covs})
