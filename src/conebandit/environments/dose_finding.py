"""The motivating example: a dose for every patient, efficacy and safety, demographics that drift during the trial."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from conebandit.environments import shift
from conebandit.environments.base import World
from conebandit.environments.noise import Gaussian, Noise
from conebandit.geometry.cone import Cone
from conebandit.validate.arguments import as_integer
from conebandit.validate.arrays import FloatArray


@dataclass(frozen=True)
class _DoseResponse:
    """Efficacy by an Emax curve, safety by a logistic one; both depend on age and kidney function.

    Contexts are (age, kidney function), each from 0 (young, poor) to 1 (old, good). Older patients need more for the
    same effect; poor kidneys clear the drug slowly, so that the same dose is felt more and tolerated less.
    """

    doses: FloatArray

    def __call__(self, contexts: FloatArray) -> FloatArray:
        age, kidney = contexts[:, :1], contexts[:, 1:]
        exposure = self.doses * (1.5 - 0.8 * kidney)  # (n, K)
        half = 0.25 + 0.35 * age
        efficacy = 0.05 + 0.9 * exposure**2 / (exposure**2 + half**2)
        tolerated = 0.9 - 0.35 * age
        safety = 0.05 + 0.9 / (1.0 + np.exp((exposure - tolerated) / 0.12))
        return np.stack([efficacy, safety], axis=2)


def dose_finding(
    n_arms: int = 8,
    *,
    start: int = 2000,
    stop: int = 8000,
    noise: Noise | None = None,
    cone: Cone | None = None,
) -> World:
    """Doses from low to high for patients of different age and kidney function.

    Enrolment starts with young patients with good kidneys and drifts, from round ``start`` to round ``stop``, to older
    patients with poorer ones.

    Parameters
    ----------
    n_arms
        Number of doses, from the lowest to the highest; at least 2.
    start, stop
        First and last round of the drift.
    noise
        Gaussian with deviation 0.3 by default; :class:`~conebandit.environments.noise.Bernoulli` for yes-or-no
        outcomes.
    cone
        The preference cone; the orthant, with named metrics, by default.

    Examples
    --------
    >>> from conebandit.environments import dose_finding
    >>> env = dose_finding()
    >>> env.cone.names
    ('efficacy', 'safety')
    >>> young, old = env.means(np.array([[0.1, 0.9], [0.9, 0.1]]))
    >>> bool(young[5, 1] > old[5, 1])      # the same dose is safer for the young
    True
    """
    n_arms = as_integer(n_arms, "n_arms", least=2)
    early = shift.product(shift.beta(2, 5), shift.beta(5, 2))
    late = shift.product(shift.beta(5, 2), shift.beta(2, 4))
    schedule = shift.gradual(early, late, start, stop)
    means = _DoseResponse(np.linspace(0.1, 1.0, n_arms))
    order = cone or Cone.orthant(2, names=("efficacy", "safety"))
    return World(f"dose finding, K = {n_arms}", schedule, means, order, n_arms, noise or Gaussian(0.3))
