"""Does it hold elsewhere? The default policy and all baselines in environments that nothing was tuned on.

    python benchmarks/unseen.py

Eight kinds of mean functions, noise and shift that are in neither the suite nor the development suite, up to eight
coordinates and four metrics; ten draws of each and 50,000 rounds, as in the suite. No constant of any policy was chosen
by looking at them.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import conebandit as cb
from conebandit.environments import shift
from conebandit.environments.base import World
from conebandit.environments.noise import Bernoulli, Bounded, Correlated, Gaussian, Noise
from conebandit.studies.bench import CONTENDERS, DEFAULT, run_suite
from conebandit.studies.standings import comparisons, standings, summary
from conebandit.studies.suite import Task
from conebandit.validate.arrays import FloatArray
from report import Report, versions

HORIZON, CHANGE, SEEDS = 50_000, 5000, range(10)  # as in the suite
LEFT_OUT = ("oracle", "random", "tree-sound")
HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class HeavyTails:
    """Student's t with three degrees of freedom, of deviation ``sigma``."""

    sigma: float

    def draw(self, rng: np.random.Generator, means: FloatArray) -> FloatArray:
        """Rewards around the means."""
        return np.asarray(means + self.sigma / np.sqrt(3.0) * rng.standard_t(3, means.shape))


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


def shifted(source: shift.Distribution, target: shift.Distribution) -> shift.Schedule:
    return shift.change_point(source, target, at=CHANGE)


def fan_out(dim: int) -> shift.Schedule:
    return shifted(shift.beta(5, 2, dim), shift.uniform(dim))


def tasks() -> list[Task]:
    two, four = cb.Cone.orthant(2), cb.Cone.orthant(4)
    oblique = cb.Cone.from_rays([[1, 0, 0.2], [0, 1, 0.2], [0.2, 0.1, 1]])
    related = Correlated(0.09 * (0.4 * np.eye(3) + 0.6))
    outwards = shifted(shift.truncated_normal(0.5, 0.12, 2), shift.uniform(2))
    across = shifted(shift.beta(2, 6, 4), shift.beta(6, 2, 4))
    kinds: list[tuple[str, str, shift.Schedule, Callable[[np.random.Generator], Means], cb.Cone, Noise]] = [
        ("bumps-8", "bumps in 3 of 8 coordinates", fan_out(8), lambda r: bump(r, 6, 2, 3), two, Gaussian(0.3)),
        ("four-metrics", "bumps, 4 metrics", fan_out(2), lambda r: bump(r, 6, 4, 2), four, Gaussian(0.3)),
        ("waves", "waves, d = 1", fan_out(1), wave, two, Gaussian(0.5)),
        ("logistic", "dose-response, d = 3, yes or no", fan_out(3), lambda r: plane(r, 6, 3), two, Bernoulli()),
        ("oblique", "quadratics, oblique cone, correlated noise", fan_out(3), bowl, oblique, related),
        ("heavy-tails", "bumps, Student's t", outwards, lambda r: bump(r, 8, 2, 2), two, HeavyTails(0.4)),
        ("cliffs", "steps, bounded noise", fan_out(2), cliff, two, Bounded(0.5)),
        ("two-arms", "d = 4, narrow cone", across, lambda r: plane(r, 2, 4), cb.Cone.wedge(50), Gaussian(0.6)),
    ]
    return [
        Task(name, about, _maker(name, schedule, means, cone, noise))
        for name, about, schedule, means, cone, noise in kinds
    ]


def _maker(
    name: str, schedule: shift.Schedule, means: Callable[[np.random.Generator], Means], cone: cb.Cone, noise: Noise
) -> Callable[[int], World]:
    def make(seed: int) -> World:
        drawn = means(np.random.default_rng([77, seed]))  # another stream than that of the suite
        return World(name, schedule, drawn, cone, drawn.numbers[0].shape[0], noise)

    return make


def main() -> None:
    contenders = [c for c in CONTENDERS if c.name not in LEFT_OUT]
    start = time.perf_counter()
    rows = run_suite(tasks=tasks(), contenders=contenders, horizon=HORIZON, seeds=SEEDS)
    table = standings(rows)
    report = Report(
        title="Environments that nothing was tuned on: the default policy to the best baseline",
        command="python benchmarks/unseen.py",
        versions=versions("conebandit", "numpy", "numba"),
        machine=f"{platform.machine()}, {HORIZON:,} rounds, {len(SEEDS)} seeds, {time.perf_counter() - start:.0f} s",
    )
    found = comparisons(table)
    about = {t.name: t.about for t in tasks()}
    for one in found:
        scores = {s.policy: s for s in table if s.task == one.task}
        best = min((s for n, s in scores.items() if any(c.name == n and c.baseline for c in contenders)),
                   key=lambda s: s.mean["score"])  # fmt: skip
        ours = scores[DEFAULT]
        report.add(
            task=one.task,
            about=about[one.task],
            score=ours.mean["score"],
            play=ours.mean["play"],
            coverage=ours.mean["coverage"],
            lost=ours.mean["lost"],
            best_baseline=best.policy,
            score_ratio=one.score,
            coverage_ratio=one.coverage,
            play_ratio=None if np.isnan(one.play) else one.play,
            play_to_printed=one.play_to_printed,
        )
    for which, label in enumerate(("geometric mean", "worst")):
        ratios = {name: pair[which] for name, pair in summary(found).items()}
        report.add(
            task=label,
            about="",
            score_ratio=ratios["score"],
            coverage_ratio=ratios["coverage"],
            play_ratio=ratios["play"],
            play_to_printed=ratios["play_to_printed"],
        )
    report.show()
    report.write(HERE / "results" / "unseen")


if __name__ == "__main__":
    main()
