"""Parts of ``ConeKernel`` written out plainly, to compare with, and trained policies to look at."""

import math

import numpy as np

import conebandit as cb
from conebandit.kernels.cone_kernel.constants import BOX_MARGIN, CLEAR_LEAD, FRONT_ERROR_PRICE

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


def plain_front(y, sd, tie):
    """The rule of the docstring, pair by pair."""
    kept = []
    for b in range(len(y)):
        leads = [(y[a] - y[b]) / np.sqrt(sd[a] ** 2 + sd[b] ** 2) for a in range(len(y)) if a != b]
        kept.append(not any(t.min() > -tie and (t.max() > 2 or t.min() > 0) for t in leads))
    return np.array(kept)


def plain_worth(means, y, front, *, unit, size, uncertainty, nearby):
    """The rule of ``worthwhile``, arm by arm; ``y`` (K, F, draws) are images, ``means`` (K, M) predictions."""
    worth, chances = [], []
    for k in range(len(means)):
        others = [a for a in range(len(means)) if a != k]
        gaps = np.max([np.min((y[a] - y[k]) / unit[:, None], axis=0) for a in others], axis=0)
        misjudged = min(np.mean(gaps <= 0), np.mean(gaps > 0))
        far = [np.abs((means[a] - means[k]) / size).max() for a in others if front[a]]
        saved = FRONT_ERROR_PRICE * nearby * uncertainty[k] * misjudged * min(far, default=0.0)
        worth.append(front[k] or np.maximum(gaps, 0).mean() < saved)
        chances.append(np.mean(gaps <= 0))
    return np.array(worth), np.array(chances)


def plain_leads(y, variances):
    """Lead over each arm of the closest one that is clearly better on some facet, pair by pair."""
    leads = []
    for b in range(len(y)):
        rises = [(y[a] - y[b]) / np.sqrt(variances[a] + variances[b]) for a in range(len(y)) if a != b]
        leads.append(max([t.min() for t in rises if t.max() > CLEAR_LEAD], default=-np.inf))
    return np.abs(leads)
