"""Kinds of problems on which the default policy is designed: they may be looked at as often as one likes.

They are in neither the suite nor the unseen kinds, so nothing that is reported is measured on them. Every seed draws
other mean functions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from conebandit.environments import shift
from conebandit.environments.base import World
from conebandit.environments.noise import Bernoulli, Gaussian, Noise
from conebandit.geometry.cone import Cone
from conebandit.validate.arrays import FloatArray
from worlds import HeavyTails

STREAM = 911  # sets the mean functions apart from those of other files with the same seeds
LONG, SHORT = 20_000, 4_000  # rounds; the shift comes after a fifth or a quarter of them

Means = Callable[[FloatArray], FloatArray]  # (n, d) -> (n, K, M)
Rng = np.random.Generator


@dataclass(frozen=True)
class Kind:
    """Mean functions that are drawn for ``sizes`` (K, M, d), their noise, and from where the first contexts come."""

    name: str
    draw: Callable[[Rng, int, int, int], Means]
    sizes: tuple[int, int, int]
    noise: Noise
    source: str = "corner"
    rounds: int = LONG

    def make(self, seed: int) -> World:
        """The environment of a seed."""
        arms, metrics, dim = self.sizes
        rng = np.random.default_rng([STREAM, seed, sum(map(ord, self.name))])
        first = {
            "corner": shift.beta(5, 2, dim),
            "edge": shift.power_law(3, dim),
            "middle": shift.truncated_normal(0.5, 0.15, dim),
        }[self.source]
        at = self.rounds // 5 if self.rounds == LONG else self.rounds // 4
        schedule = shift.change_point(first, shift.uniform(dim), at=at)
        means = self.draw(rng, arms, metrics, dim)
        return World(self.name, schedule, means, Cone.orthant(metrics), arms, self.noise)


def squashed(values: FloatArray, arms: int, metrics: int) -> FloatArray:
    """(n, K * M) -> (n, K, M), in [0.1, 1]."""
    return np.asarray(0.55 + 0.45 * np.tanh(values)).reshape(len(values), arms, metrics)


def networks(rng: Rng, arms: int, metrics: int, dim: int) -> Means:
    """Six hidden units each."""
    slopes = rng.normal(size=(arms * metrics, 6, dim)) * 3.75 / np.sqrt(dim)
    shifts = rng.uniform(-1.25, 1.25, (arms * metrics, 6))
    heights = rng.normal(size=(arms * metrics, 6)) * 1.3 / np.sqrt(6)

    def means(x: FloatArray) -> FloatArray:
        hidden = np.tanh(np.einsum("ahd,nd->nah", slopes, x - 0.5) + shifts)
        return squashed(np.einsum("nah,ah->na", hidden, heights), arms, metrics)

    return means


def splines(rng: Rng, arms: int, metrics: int, dim: int) -> Means:
    """Sums of broken lines in each coordinate, the first coordinates mattering most."""
    heights = rng.normal(size=(arms * metrics, dim, 5)) * (0.7 / (1.0 + 0.6 * np.arange(dim)))[:, None]
    knots = np.linspace(0.0, 1.0, 5)

    def means(x: FloatArray) -> FloatArray:
        total = np.zeros((len(x), arms * metrics))
        for i in range(dim):
            hats = np.stack([np.interp(x[:, i], knots, row) for row in np.eye(5)], axis=1)
            total += hats @ heights[:, i].T
        return squashed(total, arms, metrics)

    return means


def trees(rng: Rng, arms: int, metrics: int, dim: int) -> Means:
    """Decision trees of depth three: means that jump."""
    sizes = (arms * metrics, 8)
    feature, cut = rng.integers(0, dim, sizes), rng.uniform(0.2, 0.8, sizes)
    heights = 0.8 * rng.normal(size=sizes)

    def means(x: FloatArray) -> FloatArray:
        found, rows = np.empty((len(x), sizes[0])), np.arange(len(x))
        for a in range(sizes[0]):
            node = np.ones(len(x), dtype=np.int64)
            for _ in range(3):
                node = 2 * node + (x[rows, feature[a, node]] > cut[a, node])
            found[:, a] = heights[a, node - 8]
        return squashed(found, arms, metrics)

    return means


def waves(*lengths: float, heights: float = 1.0) -> Callable[[Rng, int, int, int], Means]:
    """Gaussian processes with a rough spectrum, by two hundred waves; coordinates without a length do not matter."""

    def draw(rng: Rng, arms: int, metrics: int, dim: int) -> Means:
        scale = np.array([*lengths, *[np.inf] * (dim - len(lengths))])
        frequencies, phases = rng.standard_t(5, size=(200, dim)) / scale, rng.uniform(0.0, 2.0 * np.pi, 200)
        weights = rng.normal(size=(200, arms * metrics)) * heights / 10.0
        level = 0.3 * rng.normal(size=arms * metrics)
        return lambda x: squashed(np.cos(x @ frequencies.T + phases) @ weights + level, arms, metrics)

    return draw


def in_common(rng: Rng, arms: int, metrics: int, dim: int) -> Means:
    """Much that all arms share, and little that sets them apart."""
    shared = waves(*[0.4] * dim, heights=1.2)(rng, 1, metrics, dim)
    own = waves(*[0.8] * dim, heights=0.35)(rng, arms, metrics, dim)

    def means(x: FloatArray) -> FloatArray:
        inner = [np.arctanh(np.clip((f(x) - 0.55) / 0.45, -0.999, 0.999)) for f in (shared, own)]
        return squashed((inner[0] + inner[1]).reshape(len(x), -1), arms, metrics)

    return means


def doses(rng: Rng, arms: int, metrics: int, dim: int) -> Means:
    """Efficacy and safety by Hill curves whose middles depend on the context; who is harmed does not respond."""
    amount = np.linspace(0.05, 1.0, arms)
    middle, slope, effect = rng.uniform(0.2, 0.8), rng.uniform(1.5, 4.0), 0.5 * rng.normal(size=dim)
    harm_middle, harm_slope, harm = rng.uniform(0.6, 1.2), rng.uniform(2.0, 5.0), 0.6 * rng.normal(size=dim)
    top, base = rng.uniform(0.5, 0.9), rng.uniform(0.03, 0.1)

    def means(x: FloatArray) -> FloatArray:
        half = middle * np.exp((x - 0.5) @ effect)[:, None]
        harm_half = harm_middle * np.exp((x - 0.5) @ harm)[:, None]
        good = base + 0.95 * top * amount**slope / (amount**slope + half**slope)
        bad = 0.9 * amount**harm_slope / (amount**harm_slope + harm_half**harm_slope)
        return np.clip(np.stack([good * (1.0 - bad), 1.0 - bad], axis=2), 0.01, 0.999)

    return means


def polynomials(rng: Rng, arms: int, metrics: int, dim: int) -> Means:
    """Quadratic, few of the products present."""
    linear = rng.normal(size=(arms * metrics, dim)) * 1.08 / np.sqrt(dim)
    present = rng.random((arms * metrics, dim, dim)) < 0.08
    products, level = 1.5 * rng.normal(size=present.shape) * present, 0.4 * rng.normal(size=arms * metrics)

    def means(x: FloatArray) -> FloatArray:
        u = 2.0 * x - 1.0
        return squashed(u @ linear.T + np.einsum("ni,aij,nj->na", u, products, u) + level, arms, metrics)

    return means


def sparse(rng: Rng, arms: int, metrics: int, dim: int) -> Means:
    """Linear in three coordinates of many."""
    slopes = np.zeros((arms * metrics, dim))
    slopes[:, rng.choice(dim, 3, replace=False)] = 1.5 * rng.normal(size=(arms * metrics, 3))
    level = 0.4 * rng.normal(size=arms * metrics)
    return lambda x: squashed((x - 0.5) @ slopes.T + level, arms, metrics)


def ridges(rng: Rng, arms: int, metrics: int, dim: int) -> Means:
    """Two steep oblique ridges each."""
    directions = rng.normal(size=(arms * metrics, 2, dim))
    directions /= np.linalg.norm(directions, axis=2, keepdims=True)
    places, heights = 0.2 * rng.normal(size=(arms * metrics, 2)), 0.7 * rng.normal(size=(arms * metrics, 2))

    def means(x: FloatArray) -> FloatArray:
        steps = 2.0 * expit(12.0 * (np.einsum("ahd,nd->nah", directions, x - 0.5) - places)) - 1.0
        return squashed(np.einsum("nah,ah->na", steps, heights), arms, metrics)

    return means


def chirps(rng: Rng, arms: int, metrics: int, dim: int) -> Means:
    """Waves that get shorter along each coordinate."""
    frequency, phase = rng.uniform(1.0, 5.0, (arms * metrics, dim)), rng.random((arms * metrics, dim))
    heights = 0.6 * rng.normal(size=(arms * metrics, dim))

    def means(x: FloatArray) -> FloatArray:
        turns = frequency * x[:, None, :] ** 2 + phase
        return squashed((np.sin(2.0 * np.pi * turns) * heights).sum(axis=2), arms, metrics)

    return means


def factors(rng: Rng, arms: int, metrics: int, dim: int) -> Means:
    """Arms are points in a space of three factors, and the context decides on what each factor is worth."""
    loads = rng.normal(size=(metrics, arms, 3)) / np.sqrt(3)
    slopes = 2.0 * rng.normal(size=(metrics, 3, dim))
    level = 0.4 * rng.normal(size=(arms, metrics))

    def means(x: FloatArray) -> FloatArray:
        worth = np.tanh(np.einsum("mrd,nd->nmr", slopes, x - 0.5))
        total = np.einsum("nmr,mar->nam", worth, loads) + level
        return squashed(total.reshape(len(x), -1), arms, metrics)

    return means


def rates(rng: Rng, arms: int, metrics: int, dim: int) -> Means:
    """Logistic in the context; the first metric is rare, the others are frequent."""
    slopes = 1.2 * rng.normal(size=(arms, metrics, dim))
    level = 0.8 * rng.normal(size=(arms, metrics)) + np.array([-1.5] + [1.5] * (metrics - 1))
    return lambda x: np.clip(expit(np.einsum("amd,nd->nam", slopes, x - 0.5) + level), 0.01, 0.99)


KINDS = (
    Kind("networks", networks, (8, 2, 4), Gaussian(0.3)),
    Kind("splines", splines, (6, 3, 6), Gaussian(0.3), "edge"),
    Kind("trees", trees, (6, 2, 3), Gaussian(0.3)),
    Kind("waves, 20 arms", waves(0.4, 0.4, 0.6), (20, 2, 8), Gaussian(0.4)),
    Kind("waves, d = 1", waves(0.1), (10, 2, 1), Gaussian(0.5), "middle"),
    Kind("doses", doses, (6, 2, 2), Bernoulli(), "edge"),
    Kind("doses, short", doses, (8, 2, 3), Bernoulli(), "edge", SHORT),
    Kind("polynomials", polynomials, (12, 2, 10), Gaussian(0.3)),
    Kind("waves, 50 arms", waves(0.3, 0.3), (50, 2, 2), Gaussian(0.3)),
    Kind("sparse", sparse, (8, 3, 15), Gaussian(0.6)),
    Kind("ridges", ridges, (10, 2, 6), Gaussian(0.3)),
    Kind("chirps", chirps, (6, 2, 2), Gaussian(0.3)),
    Kind("heavy tails", waves(0.4, 0.5, 0.6), (10, 2, 3), HeavyTails(0.5), "middle"),
    Kind("networks, short", networks, (8, 2, 3), Gaussian(0.4), "corner", SHORT),
    Kind("in common, short", in_common, (8, 2, 3), Gaussian(0.4), "corner", SHORT),
    Kind("four metrics", waves(0.5, 0.5), (8, 4, 2), Bernoulli()),
)

# Kinds that were added where rivals were seen to lead: very many arms, short runs, four metrics and more, and little
# signal in much noise. Constants are compared on the kinds above alone.
WIDER = (
    Kind("factors, 80 arms", factors, (80, 2, 3), Gaussian(0.3)),
    Kind("networks, five metrics", networks, (10, 5, 3), Gaussian(0.3), "middle"),
    Kind("ridges, four metrics", ridges, (10, 4, 2), Gaussian(0.2), "edge"),
    Kind("rates, short", rates, (12, 2, 3), Bernoulli(), "corner", SHORT),
    Kind("splines, short", splines, (8, 2, 2), Gaussian(0.3), "edge", SHORT),
    Kind("faint ridges", ridges, (12, 4, 3), Gaussian(1.5)),
    Kind("faint networks", networks, (12, 4, 3), Gaussian(1.5)),
    Kind("faint waves", waves(0.4, 0.6), (8, 2, 3), Gaussian(1.5)),
)
