"""Parts of ``ConeKernel`` written out plainly, to compare with, and trained policies to look at."""

import itertools
import math

import numpy as np
from scipy.stats import norm

import conebandit as cb
from conebandit.kernels.cone_kernel.choice import perturbed_images
from conebandit.kernels.cone_kernel.constants import (
    BOX_MARGIN,
    ELIMINATION_MARGIN,
    FAR_SHARE,
    REPORT_PRICE,
    VARIANCE_FACTOR,
)
from conebandit.kernels.cone_kernel.state import CENTRE, OBSERVATIONS, SPREAD

CONES = {
    "orthant": cb.Cone.orthant(2),
    "narrow": cb.Cone.from_rays([[1, 0.6], [0.6, 1]]),
    "half-plane": cb.Cone.from_weights([[1, 2]]),
    "scalar": cb.Cone.orthant(1),
    "three": cb.Cone.orthant(3),
}


def rounds(n_arms, metrics, dim, n, seed=3):
    """Contexts, outcomes of all arms (some not known) and keys."""
    rng = np.random.default_rng(seed)
    x = rng.random((n, dim))
    slopes = rng.normal(size=(n_arms, metrics, dim))
    outcomes = 0.5 + np.einsum("kmd,nd->nkm", slopes, x) + 0.3 * rng.standard_normal((n, n_arms, metrics))
    outcomes[rng.random(outcomes.shape) < 0.1] = np.nan
    return x, outcomes, np.arange(n, dtype=np.uint64)


def trained(n=400, *, n_arms=3, cone="orthant", dim=2, seed=3, **options):
    policy = cb.ConeKernel(n_arms, CONES[cone], dim, **options)
    policy.run_chunk(*rounds(n_arms, CONES[cone].dim, dim, n, seed))
    return policy


def plain_features(orders, contexts):
    """Products of cosines, written out."""
    u = (contexts + BOX_MARGIN) / (1 + 2 * BOX_MARGIN)
    return np.array(
        [[math.prod(math.sqrt(2) * math.cos(math.pi * j * v) for j, v in zip(row, x, strict=True) if j)
          for row in orders.tolist()] for x in u.tolist()]
    )  # fmt: skip


def plain_margins(images, slack):
    """By how much another arm beats each arm on every facet, less the resolution, draw by draw: (K, F, C) -> (K, C)."""
    arms = range(len(images))
    return np.array(
        [np.max([np.min(images[a] - images[k] - slack[:, None], axis=0) for a in arms if a != k], axis=0) for k in arms]
    )


def plain_essential(images, slack):
    """Whether no other arm makes an arm inessential, draw by draw: (K, F, C) -> (K, C)."""
    kept = np.ones((len(images), images.shape[2]), dtype=bool)
    for k, a in itertools.permutations(range(len(images)), 2):
        rise = images[a] - images[k]
        kept[k] &= ~((rise >= -slack[:, None]).all(axis=0) & (rise > slack[:, None]).any(axis=0))
    return kept


def plain_errors(mean, deviation, images, slack):
    """The part that each arm has in the expected error of the report: its own, and as a rival of others."""
    arms, centre = range(len(images)), images.mean(axis=2)
    spread, errors = images.var(axis=2).sum(axis=1), np.zeros(len(images))
    for k in arms:
        rival = max((a for a in arms if a != k), key=lambda a: np.min(centre[a] - centre[k] - slack))
        error = deviation[k] * norm.pdf(mean[k] / deviation[k])
        errors[k] += error * spread[k] / (spread[k] + spread[rival])
        errors[rival] += error * spread[rival] / (spread[k] + spread[rival])
    return errors


def plain_worth(mean, deviation, uncertainty, informed, errors):
    """What an observation of each arm is worth, and what it costs more than one of the best arm."""
    z = mean / deviation
    cost = deviation * norm.pdf(z) + mean * norm.cdf(z)
    rivals = deviation * norm.pdf((cost - cost.min()) / deviation)
    play = cost.min() * rivals / rivals.sum()
    return informed * uncertainty / (2 * (1 + uncertainty)) * (REPORT_PRICE * errors + play), cost - cost.min()


def plain_choice(state, x, key):
    """The chance of every arm, and whether it is reported, as docs/kernel.md says: from the state, step by step.

    ``key`` is that of the perturbations, which are the only thing that is taken from the kernels.
    """
    phi, arms = plain_features(state.orders, x[None]).reshape(-1), range(len(state.weights))
    drawn = np.einsum("j,kmjl->kml", phi, state.weights)
    means, rough = drawn[:, :, 0], VARIANCE_FACTOR * ((drawn[:, :, 1:] - drawn[:, :, :1]) ** 2).mean(axis=2)
    centre, spread = state.scales[CENTRE], state.scales[SPREAD]
    levels, variances = (centre + spread * means) @ state.facets.T, (spread**2 * rough) @ (state.facets**2).T
    beaten = [
        any(np.all(levels[a] - levels[b] > ELIMINATION_MARGIN * np.sqrt(variances[a] + variances[b])) for a in arms)
        for b in arms
    ]
    few, chances, shown = np.flatnonzero(~np.array(beaten)), np.zeros(len(arms)), np.zeros(len(arms), dtype=bool)
    if len(few) == 1:
        chances[few], shown[few] = 1.0, True
        return chances, shown
    gains = np.einsum("kmij,j->kmi", state.covs, phi)
    exact = gains @ phi
    reach = np.minimum((gains**2).sum(axis=2) / exact**2, 1).mean(axis=1)[few]  # a share
    exact = np.where(np.array(beaten)[:, None], rough / VARIANCE_FACTOR, exact)  # only active arms are worth the time
    uncertainty = VARIANCE_FACTOR * (exact / state.noise).mean(axis=1)
    units = np.abs(state.facets) @ np.hypot(centre, spread)
    images, narrow = (
        perturbed_images(state.facets, state.scales, means, factor * exact, units, few, key)
        for factor in (VARIANCE_FACTOR, 1.0)
    )
    margins, slack = plain_margins(images, state.slack / units), state.slack / units
    mean, deviation = margins.mean(axis=1), margins.std(axis=1)
    cost = deviation * norm.pdf(mean / deviation) + mean * norm.cdf(mean / deviation)
    cheap = cost - cost.min() <= state.cheap[few]
    nearby = 1 + (1 / uncertainty).sum()
    informed = np.maximum(nearby, np.where(cheap, FAR_SHARE * state.size[OBSERVATIONS] * reach, 0))
    errors = plain_errors(mean, deviation, images, slack)
    worth, more = plain_worth(mean, deviation, uncertainty[few], informed, errors)
    weights = uncertainty[few] * np.maximum(1 - more / worth, 0)
    chances[few] = weights / weights.sum()
    unacceptable, essential = (
        (plain_margins(narrow, slack) > 0).mean(axis=1),
        plain_essential(narrow, slack).mean(axis=1),
    )
    if not slack.any():
        essential = 1 - unacceptable
    shown[few] = (essential > unacceptable) | ((essential == unacceptable) & (essential >= 0.5))
    if not shown.any():
        shown[few[plain_margins(narrow, slack).mean(axis=1).argmin()]] = True
    return chances, shown


def plain_posterior(phi, y, chosen, *, noise, own, effects, effects_prior):
    """Means of the weights of all arms, means of the effects, and their covariance, of one metric: one large system.

    ``own`` (D,) are the prior variances of what sets an arm apart, ``effects_prior`` (S,) those of the effects. These
    are pairs of their sizes at the arms (K,) and the feature whose weights they are part of. The covariance is
    that of the effects, and then of what sets each arm apart.
    """
    arms, features, size = len(noise), phi.shape[1], len(effects)
    design = np.zeros((len(y), size + arms * features))  # effects first, then what sets each arm apart
    for s, (at_arms, j) in enumerate(effects):
        design[:, s] = at_arms[chosen] * phi[:, j]
    for i, k in enumerate(chosen):
        design[i, size + k * features : size + (k + 1) * features] = phi[i]
    prior = np.concatenate([effects_prior, *[own] * arms])
    weighted = design / noise[chosen][:, None]
    cov = np.linalg.inv(design.T @ weighted + np.diag(1 / prior))
    found = cov @ (weighted.T @ y)
    weights = found[size:].reshape(arms, features)
    for s, (at_arms, j) in enumerate(effects):
        weights[:, j] += at_arms * found[s]
    return weights, found[:size], cov
