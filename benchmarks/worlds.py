"""Environments that are in neither the suite nor the unseen kinds, so that policies may be designed on them.

Every seed draws other mean functions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

import conebandit as cb
from conebandit.environments import shift
from conebandit.environments.base import World
from conebandit.environments.noise import Bernoulli, Gaussian, Noise
from conebandit.validate.arrays import FloatArray

STREAM = 41  # sets the mean functions apart from those of other files with the same seeds


@dataclass(frozen=True)
class Bumps:
    """Means in [0.1, 1]: three Gaussian bumps and dents for each arm and metric."""

    centres: FloatArray  # (K, M, 3, d)
    heights: FloatArray  # (K, M, 3)

    def __call__(self, contexts: FloatArray) -> FloatArray:
        """(n, d) -> (n, K, M)."""
        away = ((contexts[:, None, None, None, :] - self.centres) ** 2).sum(axis=-1)
        return np.asarray(0.55 + 0.45 * np.tanh((self.heights * np.exp(-8.0 * away)).sum(axis=-1)))


@dataclass(frozen=True)
class Logistic:
    """Probabilities that follow a logistic regression for each arm and metric."""

    slopes: FloatArray  # (K, M, d)
    levels: FloatArray  # (K, M)

    def __call__(self, contexts: FloatArray) -> FloatArray:
        """(n, d) -> (n, K, M)."""
        return np.asarray(expit(((contexts[:, None, None, :] - 0.5) * self.slopes).sum(axis=-1) + self.levels))


@dataclass(frozen=True)
class NearTies:
    """Doses whose efficacies differ clearly, while risks double from dose to dose: .001, .002, .004, ... at the lowest.

    Patients are (age, kidney function). The old respond later, poor kidneys double or triple the risk. Who is harmed
    does not respond, so the highest doses may be worse in both.
    """

    doses: FloatArray  # (K,), from 0 to 1
    middle: float  # dose with half the effect
    least: float  # risk of the lowest dose
    growth: float  # factor of the risk from the lowest dose to the highest, as a power of two

    def __call__(self, contexts: FloatArray) -> FloatArray:
        """(n, d) -> (n, K, M)."""
        age, kidney = contexts[:, :1], contexts[:, 1:]
        risk = self.least * 2.0 ** (self.growth * self.doses + 1.5 * (1.0 - kidney))
        effect = 0.1 + 0.8 * expit((self.doses - self.middle - 0.3 * (age - 0.5)) / 0.2)
        safety = 1.0 / (1.0 + risk)
        return np.stack([effect * safety, safety], axis=2)


@dataclass(frozen=True)
class HeavyTails:
    """Student's t with three degrees of freedom, of deviation ``sigma``."""

    sigma: float

    def draw(self, rng: np.random.Generator, means: FloatArray) -> FloatArray:
        """Rewards around the means."""
        return np.asarray(means + self.sigma / np.sqrt(3.0) * rng.standard_t(3, means.shape))


def outwards(dim: int, at: int) -> shift.Schedule:
    """From a corner to everywhere."""
    return shift.change_point(shift.beta(5, 2, dim), shift.uniform(dim), at=at)


def bumps(n_arms: int, change_point: int, seed: int) -> World:
    """Bumps in two coordinates."""
    rng = np.random.default_rng([STREAM, seed])
    means = Bumps(rng.random((n_arms, 2, 3, 2)), rng.normal(0.0, 1.5, (n_arms, 2, 3)))
    return World("bumps", outwards(2, change_point), means, cb.Cone.orthant(2), n_arms, Gaussian(0.3))


def logistic(change_point: int, seed: int) -> World:
    """Eight arms, two yes-or-no outcomes, three coordinates."""
    rng = np.random.default_rng([STREAM, seed])
    means = Logistic(rng.normal(0.0, 2.0, (8, 2, 3)), rng.normal(0.0, 1.0, (8, 2)))
    return World("logistic", outwards(3, change_point), means, cb.Cone.orthant(2), 8, Bernoulli())


def near_ties(n_arms: int, noise: Noise, change_point: int, seed: int) -> World:
    """Doses that are nearly tied in safety where they are low; the young with good kidneys come first."""
    middle, least, growth = np.random.default_rng([STREAM, seed]).uniform([0.3, 5e-4, 8.0], [0.5, 1e-3, 9.5])
    early = shift.product(shift.beta(2, 4), shift.beta(4, 2))
    schedule = shift.change_point(early, shift.uniform(2), at=change_point)
    means = NearTies(np.linspace(0.0, 1.0, n_arms), float(middle), float(least), float(growth))
    return World("near ties", schedule, means, cb.Cone.orthant(2, names=("efficacy", "safety")), n_arms, noise)
