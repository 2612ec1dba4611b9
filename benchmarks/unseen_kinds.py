"""Kinds of environments that nothing is tuned on: what ``benchmarks/unseen.py`` and ``benchmarks/peers_play.py`` run.

A kind is a law of mean functions with a schedule of contexts, noise, a cone and a horizon; every seed draws a mean
function. Do not look at a policy's results here while it is being designed: the suite and the development suite of
``benchmarks/tune.py`` are there for that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

import conebandit as cb
from conebandit.environments import shift
from conebandit.environments.base import World
from conebandit.environments.noise import Bernoulli, Bounded, Correlated, Gaussian, Heteroscedastic, Noise
from conebandit.studies.suite import Task
from conebandit.validate.arrays import FloatArray

MeanFunction = Callable[[FloatArray], FloatArray]  # (n, d) -> (n, K, M)
Draw = Callable[[np.random.Generator], MeanFunction]

SHORT, MIDDLE, LONG = 4000, 20_000, 50_000  # horizons
CHANGES = {SHORT: 1000, MIDDLE: 3000, LONG: 5000}  # change point of most kinds with that horizon
SEEDS = {SHORT: range(10), MIDDLE: range(5), LONG: range(5)}


@dataclass(frozen=True)
class Kind:
    """One kind of environment; ``stream`` is the first part of the seeds of its mean functions."""

    name: str
    about: str
    horizon: int
    schedule: shift.Schedule
    draw: Draw
    cone: cb.Cone
    noise: Noise
    stream: tuple[int, ...]

    def make(self, seed: int) -> World:
        """The environment of a seed."""
        means = self.draw(np.random.default_rng([*self.stream, seed]))
        n_arms = means(self.schedule.sample(np.random.default_rng(0), 1)).shape[1]
        return World(self.name, self.schedule, means, self.cone, n_arms, self.noise)

    @property
    def task(self) -> Task:
        """The same, as the contest takes it."""
        return Task(self.name, self.about, self.make)


# ---- noise ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class HeavyTails:
    """Student's t with three degrees of freedom, of deviation ``sigma``."""

    sigma: float

    def draw(self, rng: np.random.Generator, means: FloatArray) -> FloatArray:
        """Rewards around the means."""
        return np.asarray(means + self.sigma / np.sqrt(3.0) * rng.standard_t(3, means.shape))


@dataclass(frozen=True)
class Purchases:
    """Most people pay nothing; what the others pay is lognormal."""

    share: float  # of those who pay
    spread: float  # deviation of the logarithm

    def draw(self, rng: np.random.Generator, means: FloatArray) -> FloatArray:
        """Rewards around the means."""
        paid = rng.lognormal(-0.5 * self.spread**2, self.spread, means.shape)  # of mean 1
        return np.asarray(means / self.share * np.where(rng.random(means.shape) < self.share, paid, 0.0))


# ---- mean functions: numbers for each arm and metric ----------------------------------------------------------------


@dataclass(frozen=True)
class Means:
    """``of(x, *numbers)``, with random numbers for each arm and metric, squeezed into [0.1, 1]."""

    of: Callable[..., FloatArray]
    numbers: tuple[FloatArray, ...]  # of shapes (K, M, ...)

    def __call__(self, contexts: FloatArray) -> FloatArray:
        """(n, d) -> (n, K, M)."""
        x = contexts[:, None, None, :]
        return np.asarray(0.55 + 0.45 * np.tanh(self.of(x, *self.numbers)))


def bumps(x: FloatArray, centres: FloatArray, heights: FloatArray) -> FloatArray:
    """Three bumps, in the coordinates that ``centres`` have."""
    seen = x[..., None, : centres.shape[-1]]
    return np.asarray((heights * np.exp(-8.0 * ((seen - centres) ** 2).sum(axis=-1))).sum(axis=-1))


def waves(x: FloatArray, frequencies: FloatArray, phases: FloatArray) -> FloatArray:
    """A wave along each coordinate, of up to two periods."""
    return np.asarray(np.sin(2 * np.pi * (frequencies * x + phases)).sum(axis=-1))


def planes(x: FloatArray, slopes: FloatArray, heights: FloatArray) -> FloatArray:
    """A plane; squeezed, a dose-response curve."""
    return np.asarray((slopes * (x - 0.5)).sum(axis=-1) + heights)


def bowls(x: FloatArray, centres: FloatArray, heights: FloatArray) -> FloatArray:
    """A quadratic with its best at a centre."""
    return np.asarray(heights - 2.0 * ((x - centres) ** 2).sum(axis=-1))


def cliffs(x: FloatArray, edges: FloatArray, sides: FloatArray) -> FloatArray:
    """A step in each coordinate."""
    return np.asarray((sides * np.sign(x - edges)).sum(axis=-1))


def oblique_steps(x: FloatArray, normals: FloatArray, points: FloatArray, jumps: FloatArray) -> FloatArray:
    """A jump across each of several hyperplanes, given by a normal and a point on it."""
    sides = np.sign((normals * (x[..., None, :] - points)).sum(axis=-1))
    return np.asarray((jumps * sides).sum(axis=-1))


def corner_waves(x: FloatArray, levels: FloatArray, slopes: FloatArray, phases: FloatArray) -> FloatArray:
    """Nearly flat, but for waves around the corner where all coordinates are 1: two periods along the diagonal."""
    corner = expit(12.0 * (x.min(axis=-1) - 0.55))
    wave = np.sin(2 * np.pi * (2.0 * x.mean(axis=-1) / 0.45 + phases))
    return np.asarray(levels + (slopes * (x - 0.5)).sum(axis=-1) + 1.2 * corner * wave)


def pairs(x: FloatArray, slopes: FloatArray, products: FloatArray, heights: FloatArray) -> FloatArray:
    """A plane, and products of neighbours among the first coordinates, as many as there are ``products``."""
    centred = 2.0 * x - 1.0
    count = products.shape[-1]
    together = centred[..., :count] * centred[..., 1 : count + 1]
    return np.asarray(heights + (slopes * centred).sum(axis=-1) + (products * together).sum(axis=-1))


def ridges(x: FloatArray, directions: FloatArray, edges: FloatArray, heights: FloatArray) -> FloatArray:
    """Smooth rises, each along a direction of its own."""
    along = (directions * (x[..., None, :] - edges)).sum(axis=-1)
    return np.asarray((heights * np.tanh(4.0 * along)).sum(axis=-1))


def tastes(x: FloatArray, places: FloatArray, appeal: FloatArray, warp: FloatArray) -> FloatArray:
    """A catalogue: people and articles have places in the plane, bent and stretched, and like what is near them."""
    people = np.sin(np.pi * (x @ warp)).swapaxes(1, 2)  # warp is (M, d, 2): where a person stands, for each metric
    return np.asarray(appeal - 1.3 * ((people - places) ** 2).sum(axis=-1))


@dataclass(frozen=True)
class Networks:
    """A random network with two layers of rectifiers, and one output for each arm and metric; squeezed."""

    layers: tuple[FloatArray, ...]  # (d + 1, width), (width + 1, width), (width + 1, K * M)
    metrics: int

    def __call__(self, contexts: FloatArray) -> FloatArray:
        """(n, d) -> (n, K, M)."""
        values = 6.0 * contexts - 3.0
        for i, weights in enumerate(self.layers):
            values = (np.maximum(values, 0.0) if i else values) @ weights[:-1] + weights[-1]
        return np.asarray(0.55 + 0.45 * np.tanh(values.reshape(len(contexts), -1, self.metrics)))


# ---- mean functions: chances of yes-or-no outcomes under doses ------------------------------------------------------


@dataclass(frozen=True)
class DrugsAndDoses:
    """Four doses of each of several drugs: response by an Emax curve, no toxicity by a steep logistic one.

    Contexts are age and severity. Toxicity is rare at low doses, so that drugs differ there in the third digit.
    """

    strongest: FloatArray  # of each drug: the response that no dose exceeds, at middling severity
    leaning: FloatArray  # whether it works better in severe cases (positive) or in mild ones
    half: FloatArray  # the dose that gives half of it, for the young
    steepness: FloatArray
    tolerated: FloatArray  # the dose at which half of the young have toxicity
    ageing: FloatArray  # how much lower that is for the old
    doses = np.array([0.1, 0.25, 0.5, 1.0])

    def __call__(self, contexts: FloatArray) -> FloatArray:
        """(n, 2) -> (n, K, 2): chances of response and of no toxicity."""
        age, severity = contexts[:, :1, None], contexts[:, 1:, None]
        dose, per_drug = self.doses, (slice(None), None)
        half = self.half[per_drug] * (0.5 + age + 0.5 * severity)
        power = self.steepness[per_drug]
        taken = dose**power / (dose**power + half**power)
        reached = self.strongest[per_drug] * (1.0 + self.leaning[per_drug] * (2.0 * severity - 1.0))
        response = 0.04 + reached * taken
        limit = self.tolerated[per_drug] - self.ageing[per_drug] * age
        safe = 0.03 + 0.969 * expit(8.0 * (limit - np.sqrt(dose)) / limit)
        means = np.stack([response, safe], axis=-1)
        return np.asarray(means.reshape(len(contexts), -1, 2))


@dataclass(frozen=True)
class TwoDrugs:
    """Three doses of one drug with four of another: a logistic response with a peak and an interaction; toxicity.

    Contexts are two biomarkers and frailty. Each drug works where its biomarker is high, and too much of it works less;
    the tolerable sum of both falls with frailty.
    """

    effects: FloatArray  # of the two drugs
    thresholds: FloatArray  # of the two biomarkers
    synergy: float
    peaks: FloatArray  # doses with the most effect
    harm: FloatArray  # of the two drugs
    doses = np.array([(a, b) for a in (0.1, 0.5, 1.0) for b in (0.05, 0.2, 0.5, 1.0)])

    def __call__(self, contexts: FloatArray) -> FloatArray:
        """(n, 3) -> (n, 12, 2): chances of response and of no toxicity."""
        markers, frailty = contexts[:, None, :2], contexts[:, None, 2]
        ratio = self.doses / self.peaks
        curve = ratio * np.exp(1.0 - ratio)  # 1 at the peak
        works = self.effects * (2.0 * expit(8.0 * (markers - self.thresholds)) - 0.3) * curve
        response = expit(-2.0 + works.sum(axis=-1) + self.synergy * works.prod(axis=-1))
        burden = (self.harm * self.doses).sum(axis=-1) * (0.6 + 0.8 * frailty)
        safe = 1.0 - expit(-6.5 + 5.0 * burden)
        return np.stack([response, safe], axis=-1)


# ---- what a seed draws ----------------------------------------------------------------------------------------------


def bump(rng: np.random.Generator, arms: int, metrics: int, dim: int) -> Means:
    return Means(bumps, (rng.random((arms, metrics, 3, dim)), rng.normal(0, 1.5, (arms, metrics, 3))))


def wave(rng: np.random.Generator) -> Means:
    return Means(waves, (rng.uniform(0.3, 2, (8, 2, 1)), rng.random((8, 2, 1))))


def plane(rng: np.random.Generator, arms: int, dim: int) -> Means:
    return Means(planes, (rng.normal(0, 1.5, (arms, 2, dim)), rng.normal(0, 0.5, (arms, 2))))


def bowl(rng: np.random.Generator) -> Means:
    return Means(bowls, (rng.random((8, 3, 3)), rng.uniform(0, 1, (8, 3))))


def cliff(rng: np.random.Generator) -> Means:
    return Means(cliffs, (rng.random((6, 2, 2)), rng.normal(0, 0.5, (6, 2, 2))))


def oblique_step(rng: np.random.Generator) -> Means:
    normals = rng.standard_normal((9, 2, 3, 3))
    return Means(oblique_steps, (normals, rng.uniform(0.2, 0.8, (9, 2, 3, 3)), rng.normal(0, 0.4, (9, 2, 3))))


def corner_wave(rng: np.random.Generator) -> Means:
    size = (7, 2)
    return Means(corner_waves, (rng.normal(0, 0.3, size), rng.normal(0, 0.2, (*size, 2)), rng.random(size)))


def sparse_pair(rng: np.random.Generator, arms: int, dim: int, relevant: int, products: int) -> Means:
    """Slopes in the first ``relevant`` of ``dim`` coordinates, products of neighbours, and small slopes elsewhere."""
    scale = np.where(np.arange(dim) < relevant, 0.35, 0.03)
    slopes = scale * rng.standard_normal((arms, 2, dim))
    return Means(pairs, (slopes, rng.normal(0, 0.6, (arms, 2, products)), rng.normal(0, 0.35, (arms, 2))))


def ridge(
    rng: np.random.Generator, arms: int, metrics: int, dim: int, *, own: float = 0.5, common: float = 0.0
) -> Means:
    """Two rises of height ``own`` for each metric, and two that an arm's metrics share, so that fronts stay small."""
    size = (arms, metrics, 2, dim)
    shared = (arms, 1, 2, dim)
    directions = [rng.standard_normal(size), np.broadcast_to(rng.standard_normal(shared), size)]
    edges = [rng.random(size), np.broadcast_to(rng.random(shared), size)]
    heights = [rng.normal(0, own, size[:3]), np.broadcast_to(rng.normal(0, common, shared[:3]), size[:3])]
    along = np.concatenate(directions, axis=2) / np.sqrt(dim)
    return Means(ridges, (along, np.concatenate(edges, axis=2), np.concatenate(heights, axis=2)))


def taste(rng: np.random.Generator, arms: int, dim: int) -> Means:
    places = rng.uniform(-1, 1, (arms, 2, 2))
    return Means(tastes, (places, rng.normal(0.4, 0.3, (arms, 2)), rng.uniform(-0.7, 0.9, (2, dim, 2))))


def network(rng: np.random.Generator, arms: int, dim: int, width: int = 10) -> Networks:
    sizes = (dim, width, width, arms * 2)
    layers = [rng.standard_normal((a + 1, b)) * np.sqrt(2.0 / a) for a, b in pairwise(sizes)]
    layers[-1] *= 0.4
    return Networks(tuple(layers), 2)


def drugs(rng: np.random.Generator) -> DrugsAndDoses:
    return DrugsAndDoses(
        strongest=rng.uniform(0.3, 0.55, 4),
        leaning=rng.uniform(-0.7, 0.7, 4),
        half=rng.uniform(0.1, 0.5, 4),
        steepness=rng.uniform(0.8, 3.0, 4),
        tolerated=rng.uniform(0.7, 1.3, 4),
        ageing=rng.uniform(0.0, 0.4, 4),
    )


def two_drugs(rng: np.random.Generator) -> TwoDrugs:
    return TwoDrugs(
        effects=rng.uniform(1.0, 2.0, 2),
        thresholds=rng.uniform(0.3, 0.7, 2),
        synergy=float(rng.uniform(-0.4, 0.3)),
        peaks=rng.uniform(0.3, 0.9, 2),
        harm=rng.uniform(0.2, 1.0, 2),
    )


# ---- where contexts come from ---------------------------------------------------------------------------------------


def fan_out(dim: int, horizon: int = LONG) -> shift.Schedule:
    """From the upper part of the cube to all of it."""
    return shift.change_point(shift.beta(5, 2, dim), shift.uniform(dim), at=CHANGES[horizon])


def across(dim: int, horizon: int) -> shift.Schedule:
    """From the lower part of the cube to the upper one."""
    return shift.change_point(shift.beta(2, 5, dim), shift.beta(5, 2, dim), at=CHANGES[horizon])


def blend(laws: Sequence[shift.Distribution], jump: int, start: int, stop: int) -> shift.Schedule:
    """From the first of three laws to the second at once, and later to the third little by little."""

    def weights(rounds: NDArray[np.int64]) -> FloatArray:
        share = np.clip((rounds - start) / (stop - start), 0.0, 1.0)
        first = rounds < jump
        return np.column_stack([first, ~first * (1.0 - share), ~first * share])

    return shift.Schedule(tuple(laws), weights, (jump, stop))


def members(seed: int, chances: Sequence[float], mean: float) -> shift.Distribution:
    """A table of people: yes-or-no answers with these chances, then age and income around ``mean``."""
    rng = np.random.default_rng([78, seed])
    answers = rng.random((5000, len(chances))) < np.asarray(chances)
    numbers = np.clip(rng.normal(mean, 0.2, (5000, 2)), 0.0, 1.0)
    return shift.empirical(np.column_stack([answers, numbers]), bounds=[[0.0, 1.0]] * (len(chances) + 2))


# ---- the kinds ------------------------------------------------------------------------------------------------------


def kinds() -> list[Kind]:
    """All of them; those of the first stream were there first, and share it."""
    return [Kind(*row, stream=(77,)) for row in first_kinds()] + [
        Kind(*row, stream=(79, *row[0].encode())) for row in (*short_kinds(), *middle_kinds(), *long_kinds())
    ]


Row = tuple[str, str, int, shift.Schedule, Draw, cb.Cone, Noise]


def first_kinds() -> list[Row]:
    two, four = cb.Cone.orthant(2), cb.Cone.orthant(4)
    oblique = cb.Cone.from_rays([[1, 0, 0.2], [0, 1, 0.2], [0.2, 0.1, 1]])
    related = Correlated(0.09 * (0.4 * np.eye(3) + 0.6))
    outwards = shift.change_point(shift.truncated_normal(0.5, 0.12, 2), shift.uniform(2), at=CHANGES[LONG])
    over = shift.change_point(shift.beta(2, 6, 4), shift.beta(6, 2, 4), at=CHANGES[LONG])
    return [
        ("bumps-8", "bumps in 3 of 8 coordinates", LONG, fan_out(8), lambda r: bump(r, 6, 2, 3), two, Gaussian(0.3)),
        ("four-metrics", "bumps, 4 metrics", LONG, fan_out(2), lambda r: bump(r, 6, 4, 2), four, Gaussian(0.3)),
        ("waves", "waves, d = 1", LONG, fan_out(1), wave, two, Gaussian(0.5)),
        ("logistic", "dose-response, d = 3, yes or no", LONG, fan_out(3), lambda r: plane(r, 6, 3), two, Bernoulli()),
        ("oblique", "quadratics, oblique cone, correlated noise", LONG, fan_out(3), bowl, oblique, related),
        ("heavy-tails", "bumps, Student's t", LONG, outwards, lambda r: bump(r, 8, 2, 2), two, HeavyTails(0.4)),
        ("cliffs", "steps, bounded noise", LONG, fan_out(2), cliff, two, Bounded(0.5)),
        ("two-arms", "d = 4, narrow cone", LONG, over, lambda r: plane(r, 2, 4), cb.Cone.wedge(50), Gaussian(0.6)),
    ]


def short_kinds() -> list[Row]:
    two = cb.Cone.orthant(2)
    patients = shift.change_point(
        shift.product(shift.beta(2, 5), shift.beta(2, 3)), shift.product(shift.beta(5, 2), shift.beta(3, 2)), at=1000
    )
    clients = shift.change_point(
        members(0, (0.8, 0.6, 0.5, 0.2, 0.1), 0.35), members(1, (0.3, 0.5, 0.5, 0.6, 0.4), 0.6), at=1000
    )
    moving = blend([shift.beta(5, 2, 2), shift.beta(2, 5, 2), shift.uniform(2)], jump=600, start=900, stop=1500)
    return [
        ("drugs", "4 doses of 4 drugs, Emax and toxicity, yes or no", SHORT, patients, drugs, two, Bernoulli()),
        ("members", "5 yes-or-no coordinates of 7, products", SHORT, clients,
         lambda r: sparse_pair(r, 8, 7, 7, 5), two, Gaussian(0.4)),
        ("moving", "ridges; contexts move at once, then gradually", SHORT, moving,
         lambda r: ridge(r, 8, 2, 2), two, Gaussian(0.4)),
        ("rectifiers", "random networks of rectifiers, d = 4", SHORT, fan_out(4, SHORT),
         lambda r: network(r, 8, 4), two, Gaussian(0.3)),
    ]  # fmt: skip


def middle_kinds() -> list[Row]:
    two = cb.Cone.orthant(2)
    demanding = cb.Cone.from_rays([[1, 0.1, 0.1], [0.2, 1, 0], [0, 0.3, 1], [0.5, 0.1, 0.6]])
    uneven = Heteroscedastic(lambda mean: 0.1 + 0.4 * mean)
    return [
        ("combination", "12 pairs of doses, logistic with a peak, yes or no", MIDDLE, fan_out(3, MIDDLE),
         two_drugs, two, Bernoulli()),
        ("arms-60", "60 arms, tastes, d = 4", MIDDLE, fan_out(4, MIDDLE),
         lambda r: taste(r, 60, 4), two, Gaussian(0.3)),
        ("dim-15", "d = 15 of which 5 matter, products", MIDDLE, fan_out(15, MIDDLE),
         lambda r: sparse_pair(r, 10, 15, 5, 2), two, Gaussian(0.4)),
        ("oblique-steps", "jumps across random planes, d = 3", MIDDLE, fan_out(3, MIDDLE),
         oblique_step, two, Gaussian(0.3)),
        ("corner-wave", "waves in a corner, d = 2", MIDDLE, across(2, MIDDLE), corner_wave, two, Gaussian(0.4)),
        ("bumps-30", "bumps, 30 arms, d = 2", MIDDLE, fan_out(2, MIDDLE), lambda r: bump(r, 30, 2, 2), two, uneven),
        ("demanding", "ridges, 3 metrics, a cone without the axes", MIDDLE, fan_out(2, MIDDLE),
         lambda r: ridge(r, 10, 3, 2, own=0.25, common=0.6), demanding, Gaussian(0.4)),
    ]  # fmt: skip


def long_kinds() -> list[Row]:
    two = cb.Cone.orthant(2)
    return [
        ("arms-100", "100 arms, tastes, d = 3", LONG, across(3, LONG), lambda r: taste(r, 100, 3), two, Gaussian(0.4)),
        ("dim-20", "d = 20 of which 8 matter, products", LONG, fan_out(20),
         lambda r: sparse_pair(r, 12, 20, 8, 3), two, Gaussian(0.5)),
        ("purchases", "networks, lognormal purchases, d = 3", LONG, fan_out(3),
         lambda r: network(r, 10, 3), two, Purchases(0.4, 0.9)),
        ("metrics-4", "ridges, 4 metrics, 12 arms, d = 3", LONG, across(3, LONG),
         lambda r: ridge(r, 12, 4, 3, own=0.35, common=0.5), cb.Cone.orthant(4), Gaussian(0.4)),
    ]  # fmt: skip
