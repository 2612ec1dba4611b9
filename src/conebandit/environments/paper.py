"""The paper's experiment (appendix, "Numerical Experiments")."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from conebandit.environments import shift
from conebandit.environments.base import World
from conebandit.environments.noise import Gaussian
from conebandit.geometry.cone import Cone
from conebandit.validate.arguments import as_fraction, as_integer
from conebandit.validate.arrays import FloatArray


@dataclass(frozen=True)
class _Means:
    """Means of arm k = 1..K at x, with y = 1/k, y1 = .8 (1 - x) and y2 = 1 - .8 x."""

    n_arms: int
    printed: bool
    floor: float

    def __call__(self, contexts: FloatArray) -> FloatArray:
        x = contexts[:, :1]
        y = 1.0 / np.arange(1, self.n_arms + 1)
        y1, y2 = 0.8 * (1.0 - x), 1.0 - 0.8 * x
        means = np.empty((len(x), self.n_arms, 2))
        first, second = means[..., 0], means[..., 1]
        if self.printed:
            np.subtract(1.0, 5.0 * (y - y1), out=first)
            second[...] = np.where(y < y2, 1.0 - 5.0 * (y2 - y), (y - y2) / 4.0)
        else:
            np.subtract(1.0, 5.0 * np.abs(y - y1), out=first)
            second[...] = np.where(y < y2, 1.0 - 5.0 * (y2 - y), 1.0 - (y - y2) / 4.0)
        np.maximum(means, 0.0, out=means)
        means *= 1.0 - self.floor
        means += self.floor
        return means


def paper(
    n_arms: int = 10,
    nu: float = 3.0,
    change_point: int = 2000,
    *,
    printed: bool = False,
    sigma: float = 1.0,
    floor: float = 0.05,
    cone: Cone | None = None,
) -> World:
    """Contexts with density (nu + 1) x^nu for ``change_point`` rounds, then uniform; two objectives.

    Parameters
    ----------
    n_arms
        K, at least 2. The paper does not say; 5 and 10 are used here.
    nu
        Strength of the shift. The paper does not say; 1 and 3 are used here.
    change_point
        t_p, number of source rounds.
    printed
        The mean functions as printed: there the first one lacks an absolute value and reaches 4.75, and the second one
        jumps from about 1 to 0. The default is a repaired form, for which the paper's claim on the front holds.
    sigma
        Deviation of the Gaussian noise.
    floor
        Both forms have zero means, so they are used as ``floor + (1 - floor) * mean``.
    cone
        The preference cone; the orthant by default.

    Examples
    --------
    >>> from conebandit.environments import paper
    >>> env = paper(n_arms=5)
    >>> env.means(env.contexts(np.random.default_rng(0), 4, 0)).shape
    (4, 5, 2)
    """
    n_arms = as_integer(n_arms, "n_arms", least=2)
    change_point = as_integer(change_point, "change_point", least=0, hint="the number of source rounds")
    means, noise = _Means(n_arms, printed, as_fraction(floor, "floor")), Gaussian(sigma)
    schedule = shift.change_point(shift.power_law(nu), shift.uniform(), at=change_point)
    name = (
        f"paper{' as printed' if printed else ''}, K = {n_arms}, nu = {nu:g}, t_p = {change_point}, sigma = {sigma:g}"
    )
    return World(name, schedule, means, cone or Cone.orthant(2), n_arms, noise)
