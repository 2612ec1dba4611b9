"""EffTox: doses by how they trade efficacy against toxicity, with a Bayesian model of both.

P. F. Thall and J. D. Cook, *Dose-finding based on efficacy-toxicity trade-offs*, Biometrics 60 (2004) 684-693, with the
contours and the priors of P. F. Thall, R. C. Herrick, H. Q. Nguyen, J. J. Venier and J. C. Norris, *Effective sample
size for computing prior hyperparameters in Bayesian phase I-II dose-finding*, Clinical Trials 11 (2014) 657-666.
Written from what the papers say; ``docs/trials.md`` says what it was compared with.

With ``x`` the logarithm of the dose, centred, the model is

    logit P(toxicity) = alpha + beta x,    logit P(efficacy) = gamma + zeta x + eta x^2,

and the two are associated by psi: the chance of both is ``e t + e (1 - e) t (1 - t) tanh(psi / 2)``. The six parameters
have independent normal priors; toxicity rises with the dose, beta > 0, unless that is not wanted. Their posterior has
no closed form. It is integrated by importance sampling with the same quasi-random points every time, so that a result
is a function of the data: psi from its prior, and the parameters of either outcome from a Student distribution around
the mode that they would have without psi, where the two posteriors are concave and Newton's method finds the mode. Psi
hardly matters, so the weights stay even.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from conebandit.studies.trials.cohorts import ByCohorts
from conebandit.studies.trials.conduct import Choice, Limits
from conebandit.studies.trials.counts import Counts
from conebandit.validate.arrays import FloatArray

POINTS = 1024
FREEDOM = 5.0  # of the Student distributions that points are drawn from: heavier tails than the posterior's
WIDER = 1.2  # than the normal approximation around the mode
STEPS, HALVINGS = 60, 30  # of Newton's method

Pair = tuple[float, float]
Seen = tuple[tuple[int, ...], ...]  # patients under each dose: treated, with efficacy, with toxicity, with both


class Priors(NamedTuple):
    """Means and deviations of the parameters; by default those of Thall et al. (2014), for doses from 1 to 10."""

    alpha: Pair = (-7.9593, 3.5487)
    beta: Pair = (1.5482, 3.5018)
    gamma: Pair = (0.7367, 2.5423)
    zeta: Pair = (3.4181, 2.4406)
    eta: Pair = (0.0, 0.2)
    psi: Pair = (0.0, 1.0)

    @property
    def of_toxicity(self) -> FloatArray:
        """Of its intercept and its slope, (2, 2)."""
        return np.array([self.alpha, self.beta])

    @property
    def of_efficacy(self) -> FloatArray:
        """Of its intercept, its slope and its curvature, (3, 2)."""
        return np.array([self.gamma, self.zeta, self.eta])


class Contour(NamedTuple):
    """Pairs of chances that are as good as each other: (efficacy, 0), (1, toxicity) and (middle_efficacy, ...).

    Examples
    --------
    >>> contour = Contour(efficacy=0.5, toxicity=0.65, middle_efficacy=0.7, middle_toxicity=0.25)
    >>> round(contour.power, 3), abs(round(contour.desirability(0.7, 0.25), 9))
    (0.977, 0.0)
    """

    efficacy: float
    toxicity: float
    middle_efficacy: float
    middle_toxicity: float

    @property
    def power(self) -> float:
        """The p of the norm whose ball around (1, 0) the contour bounds."""
        return _power((1.0 - self.middle_efficacy) / (1.0 - self.efficacy), self.middle_toxicity / self.toxicity)

    def desirability(self, efficacy: float, toxicity: float) -> float:
        """1 for a dose that always helps and never harms, 0 on the contour."""
        p = self.power
        far = ((1.0 - efficacy) / (1.0 - self.efficacy)) ** p + (toxicity / self.toxicity) ** p
        return float(1.0 - far ** (1.0 / p))


USUAL_CONTOUR, USUAL_PRIORS = Contour(0.5, 0.65, 0.7, 0.25), Priors()


@lru_cache(maxsize=100)
def _power(a: float, b: float) -> float:
    """The p with ``a^p + b^p = 1``, by bisection: the sum falls with p."""
    low, high = 0.0, 1.0
    while a**high + b**high > 1.0:
        high *= 2.0
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (middle, high) if a**middle + b**middle > 1.0 else (low, middle)
    return (low + high) / 2.0


class Posterior(NamedTuple):
    """What is known of each dose, each of shape (K,): means of both chances, and how sure they are within limits."""

    efficacy: FloatArray
    toxicity: FloatArray
    effective: FloatArray
    tolerated: FloatArray


@dataclass(frozen=True)
class EffTox(ByCohorts):
    """EffTox for a number of doses.

    Attributes
    ----------
    doses
        What they are, from the lowest to the highest, in units of which the logarithm makes sense.
    limits
        Of the trial: the highest chance of toxicity and the lowest one of efficacy that are acceptable.
    contour
        Which doses are as good as each other.
    sure
        How sure one must be, at least, that a dose is within each limit.
    cohort, start
        Patients of a cohort, and the dose of the first one, counted from 1.
    priors
        Means and deviations of the parameters.
    rising
        Whether toxicity must rise with the dose. Without that, toxicity at a low dose can make higher ones look safer.

    Examples
    --------
    >>> design = EffTox((1.0, 2.0, 4.0, 6.6, 10.0), Limits(toxicity=0.3, efficacy=0.5))
    >>> counts = Counts(5)
    >>> for _ in range(3):
    ...     counts.add(0, efficacy=False, toxicity=False)
    >>> design.next_dose(counts, 0)
    1
    """

    doses: tuple[float, ...]
    limits: Limits
    contour: Contour = USUAL_CONTOUR
    sure: float = 0.1
    cohort: int = 3
    start: int = 1
    priors: Priors = USUAL_PRIORS
    rising: bool = True

    @property
    def codes(self) -> FloatArray:
        """Logarithms of the doses, centred."""
        logs = np.log(self.doses)
        return np.asarray(logs - logs.mean())

    def posterior(self, counts: Counts) -> Posterior:
        """What is known of each dose."""
        return _posterior(tuple(self.codes.tolist()), self.limits, self.priors, self.rising, counts.key())

    def closed(self, counts: Counts) -> NDArray[np.bool_]:
        """Doses that are hardly within the limits."""
        known = self.posterior(counts)
        return (known.effective <= self.sure) | (known.tolerated <= self.sure)

    def next_dose(self, counts: Counts, dose: int, lot: float = 1.0) -> int | None:
        """The acceptable dose of the largest desirability, with no untried dose skipped; None if there is none."""
        tried = [dose for dose, n in enumerate(counts.treated) if n]
        return self._best(counts, range(max(tried[0] - 1, 0), min(tried[-1] + 2, len(counts))))

    def _best(self, counts: Counts, doses: Iterable[int]) -> int | None:
        closed, known = self.closed(counts), self.posterior(counts)
        open_ = [dose for dose in doses if not closed[dose]]
        if not open_:
            return None
        return max(open_, key=lambda k: self.contour.desirability(float(known.efficacy[k]), float(known.toxicity[k])))

    def selected(self, counts: Counts) -> Choice | None:
        """The acceptable dose of the largest desirability, of those that were given."""
        dose = self._best(counts, [k for k, n in enumerate(counts.treated) if n])
        known = self.posterior(counts)
        return None if dose is None else Choice(dose, float(known.efficacy[dose]), float(known.toxicity[dose]))


@lru_cache(maxsize=100_000)
def _posterior(codes: tuple[float, ...], limits: Limits, priors: Priors, rising: bool, seen: Seen) -> Posterior:
    """What is known of each dose; trials begin alike, so it is kept."""
    points, x = _points(), np.array(codes)
    basis = np.stack([np.ones_like(x), x, x**2])  # (3, K)
    treated, effective, toxic = (np.array(numbers, dtype=np.float64) for numbers in seen[:3])
    logits, weights = [], np.zeros(POINTS)
    for prior, drawn, log_density, successes, must_rise in (
        (priors.of_efficacy, points.efficacy, points.log_efficacy, effective, False),
        (priors.of_toxicity, points.toxicity, points.log_toxicity, toxic, rising),
    ):
        rows = basis[: len(prior)]
        model = _Logistic(rows.T, successes, treated, *prior.T)
        theta = model.spread(drawn, must_rise)  # (N, p)
        weights += model.log_posterior(theta) - log_density
        if must_rise:
            weights[theta[:, 1] <= 0.0] = -np.inf
        logits.append(theta @ rows)
    efficacy, toxicity = (_logistic(each) for each in logits)  # (N, K)
    mean, deviation = priors.psi
    weights += _association(efficacy, toxicity, np.tanh((mean + deviation * points.psi) / 2.0), seen)
    weights = np.exp(weights - weights.max())
    weights /= weights.sum()
    return Posterior(
        weights @ efficacy,
        weights @ toxicity,
        weights @ (efficacy > limits.efficacy),
        weights @ (toxicity < limits.toxicity),
    )


def _logistic(logits: FloatArray) -> FloatArray:
    return np.asarray(0.5 + 0.5 * np.tanh(0.5 * logits))


def _association(efficacy: FloatArray, toxicity: FloatArray, tied: FloatArray, seen: Seen) -> FloatArray:
    """By what the association changes the likelihood, as a logarithm, (N,); chances have shape (N, K)."""
    change = np.zeros(len(tied))
    for k, (n, effective, toxic, both) in enumerate(zip(*seen, strict=True)):
        e, t, only_e, only_t = efficacy[:, k], toxicity[:, k], effective - both, toxic - both
        terms = (
            (both, (1 - e) * (1 - t)),
            (n - only_e - only_t - both, e * t),
            (only_e, -(1 - e) * t),
            (only_t, -e * (1 - t)),
        )
        for times, factor in terms:
            if times:
                change += times * np.log1p(tied * factor)
    return change


@dataclass(frozen=True)
class _Logistic:
    """A logistic regression with independent normal priors: successes among patients at points (K, p)."""

    rows: FloatArray
    successes: FloatArray
    patients: FloatArray
    mean: FloatArray
    deviation: FloatArray

    def log_posterior(self, theta: FloatArray) -> FloatArray:
        """Up to a constant, (..., p) -> (...)."""
        logits = theta @ self.rows.T
        likelihood = logits @ self.successes - np.logaddexp(0.0, logits) @ self.patients
        return np.asarray(likelihood - 0.5 * (((theta - self.mean) / self.deviation) ** 2).sum(axis=-1))

    def spread(self, points: FloatArray, rising: bool) -> FloatArray:
        """Standard points as parameters, (N, p), spread about as widely as the posterior.

        With ``rising`` the slope must be positive. If the mode without that has a positive slope, points around it do,
        most of them. Otherwise the posterior falls from a slope of 0 on, and points are folded to that side, which
        doubles their density everywhere.
        """
        mode = self.mode()
        if not rising or mode[1] > 0.0:
            covariance = np.linalg.inv(self._curvature(_logistic(self.rows @ mode)))
            return np.asarray(mode + WIDER * points @ np.linalg.cholesky(covariance).T)
        level = _Logistic(self.rows[:, :1], self.successes, self.patients, self.mean[:1], self.deviation[:1]).mode()
        edge = np.array([level[0], 0.0])
        (aa, ab), (_, bb) = self._curvature(_logistic(self.rows @ edge))
        falls, bends = self._slope(edge)[1], bb - ab**2 / aa
        beta = WIDER * np.abs(points[:, 1]) / np.sqrt(falls**2 + bends)
        alpha = edge[0] - beta * ab / aa + WIDER * points[:, 0] / np.sqrt(aa)
        return np.stack([alpha, beta], axis=1)

    def mode(self) -> FloatArray:
        """Where the posterior is largest, (p,)."""
        theta, value = self.mean.copy(), self.log_posterior(self.mean)
        for _ in range(STEPS):
            step = np.linalg.solve(self._curvature(_logistic(self.rows @ theta)), self._slope(theta))
            for _ in range(HALVINGS):  # the posterior is concave, so a short step along this direction gains
                if (found := self.log_posterior(theta + step)) >= value:
                    break
                step /= 2.0
            theta, gained, value = theta + step, found - value, found
            if gained < 1e-10:
                break
        return theta

    def _slope(self, theta: FloatArray) -> FloatArray:
        missed = self.successes - self.patients * _logistic(self.rows @ theta)
        return np.asarray(self.rows.T @ missed - (theta - self.mean) / self.deviation**2)

    def _curvature(self, chances: FloatArray) -> FloatArray:
        weights = self.patients * chances * (1.0 - chances)
        return np.asarray((self.rows.T * weights) @ self.rows + np.diag(self.deviation**-2.0))


class _Points(NamedTuple):
    """Standard quasi-random points, (N, 3), (N, 2) and (N,), and the logarithms of their densities."""

    efficacy: FloatArray
    log_efficacy: FloatArray
    toxicity: FloatArray
    log_toxicity: FloatArray
    psi: FloatArray


@lru_cache(maxsize=1)
def _points() -> _Points:
    from scipy.special import gammaincinv, ndtri  # noqa: PLC0415
    from scipy.stats import qmc  # noqa: PLC0415  (takes long to load)

    # The seed scrambles the sequence, once for all: results are a function of the data.
    uniform = qmc.Sobol(8, scramble=True, seed=2004).random_base2(int(math.log2(POINTS)))
    normal = ndtri(uniform[:, :6])
    scale = np.sqrt(FREEDOM / (2.0 * gammaincinv(FREEDOM / 2.0, uniform[:, 6:])))
    efficacy, toxicity = normal[:, :3] * scale[:, :1], normal[:, 3:5] * scale[:, 1:]
    return _Points(efficacy, _log_student(efficacy), toxicity, _log_student(toxicity), normal[:, 5])


def _log_student(points: FloatArray) -> FloatArray:
    """The logarithm of their density, up to a constant."""
    return np.asarray(-0.5 * (FREEDOM + points.shape[1]) * np.log1p((points**2).sum(axis=1) / FREEDOM))
