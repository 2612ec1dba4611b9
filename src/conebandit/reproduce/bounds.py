"""The paper's three regret bounds as they are printed, and the rate that first principles give.

The printed bounds are *not* sums over rounds although they claim to bound one, carry no dimension, and shrink with the
horizon; theorem and lemma swap a minimum and a maximum. They are here to be looked at beside what is measured. All hold
up to a constant that nobody knows, so only how they change with the arguments means anything.

Examples
--------
>>> problem = Problem(n_arms=5, n_objectives=2, horizon=50_000, change_point=2000)
>>> f"{single_shift_as_printed(problem, 19.2, 8.4):.2e}"
'1.89e-06'
>>> f"{special_family_as_printed(problem, 1.0):.2e}"
'1.87e-06'
>>> f"{multiple_shifts_as_printed(problem, 10.7, 8.4):.2e}"
'1.99e-08'
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from conebandit.validate.arguments import as_count, as_integer, as_number, as_positive


@dataclass(frozen=True)
class Problem:
    """What the bounds depend on.

    Parameters
    ----------
    n_arms, n_objectives, context_dim
        K, M and d.
    horizon, change_point
        T and t_p.
    alpha, beta
        Margin and smoothness.
    delta
        Probability of error; 1 / T by default, as in the paper's experiment.

    Examples
    --------
    >>> Problem(n_arms=5, n_objectives=2, horizon=50_000, change_point=2000).rounds_after
    48000
    """

    n_arms: int
    n_objectives: int
    horizon: int
    change_point: int
    context_dim: int = 1
    alpha: float = 1.0
    beta: float = 1.0
    delta: float | None = None

    def __post_init__(self) -> None:
        for name in ("n_arms", "n_objectives", "horizon", "context_dim"):
            as_count(getattr(self, name), name)
        as_integer(self.change_point, "change_point", least=0, most=self.horizon - 1)
        for name in ("alpha", "beta"):
            as_positive(getattr(self, name), name)
        if self.delta is not None:
            as_number(self.delta, "delta", above=0, below=1)

    @property
    def rounds_after(self) -> int:
        """T - t_p, the rounds over which regret is summed."""
        return self.horizon - self.change_point

    @property
    def cost(self) -> float:
        """K log(K M / delta)."""
        delta = 1.0 / self.horizon if self.delta is None else self.delta
        return float(self.n_arms * np.log(self.n_arms * self.n_objectives / delta))


def single_shift_as_printed(problem: Problem, rho_source: float, rho_target: float) -> float:
    """Theorem 1: one shift; with rho(P, Q) and rho(Q, Q), the paper does not say at which h."""
    a, b = problem.alpha, problem.beta
    exploration = (problem.cost / _longer(problem)) ** ((a + 1) / b)
    return float(exploration + _adaptation(problem, rho_source, rho_target))


def special_family_as_printed(problem: Problem, gamma: float) -> float:
    """Theorem 2: source and target in the family D(gamma, C)."""
    a, b = problem.alpha, problem.beta
    least = problem.cost / _longer(problem)  # min{1 / t_p, 1 / (T - t_p)}
    first = least ** ((a + 1) / a * gamma * (b + 1) / b) * (problem.cost / problem.rounds_after) ** (1 / a)
    return float(first + least ** ((a + 1) / b))


def multiple_shifts_as_printed(problem: Problem, rho_mixture: float, rho_target: float) -> float:
    """Theorem 3: several shifts; ``rho_mixture`` is that of the mixture of sources and the target."""
    a, b = problem.alpha, problem.beta
    first = (problem.cost / problem.rounds_after) ** (1 / a) * (problem.cost / _longer(problem)) ** ((a + 1) / b)
    return float(first + _adaptation(problem, rho_mixture, rho_target))


def _longer(problem: Problem) -> int:
    return max(problem.change_point, problem.rounds_after)


def _adaptation(problem: Problem, rho_source: float, rho_target: float) -> float:
    """The second term of Theorems 1 and 3; without source rounds only the target counts."""
    a, b = problem.alpha, problem.beta
    before = rho_source / problem.change_point if problem.change_point else np.inf
    return float((problem.cost * min(before, rho_target / problem.rounds_after)) ** ((a + 1) / a * (b + 1) / b))


def effective_samples(problem: Problem, rho_source: float, rho_target: float) -> float:
    """Rows from the target that all rounds together are worth: a source row counts rho(Q, Q) / rho(P, Q).

    Examples
    --------
    >>> problem = Problem(n_arms=5, n_objectives=2, horizon=3000, change_point=2000)
    >>> effective_samples(problem, 20.0, 10.0)
    2000.0
    """
    return float(problem.rounds_after + problem.change_point * rho_target / rho_source)


def rate_from_first_principles(problem: Problem, samples: float) -> float:
    """Sum over the rounds after the shift of the rate at which means can be known from ``samples`` rows.

    ``tau (K log(K M / delta) / n)^(beta (1 + alpha) / (2 beta + d))``: bins of side h have bias h^beta, and n h^d rows
    each; balance both, and count a mistake only where the margin is that small.

    Examples
    --------
    >>> problem = Problem(n_arms=5, n_objectives=2, horizon=50_000, change_point=2000)
    >>> round(rate_from_first_principles(problem, 48_000), 1)
    591.2
    """
    n = as_positive(samples, "samples")
    a, b, d = problem.alpha, problem.beta, problem.context_dim
    return float(problem.rounds_after * (problem.cost / n) ** (b * (1 + a) / (2 * b + d)))
