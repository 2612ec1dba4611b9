"""A warfarin-like dosing problem, simulated: published dose equation, invented patients."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy  # its parts are loaded when they are used: some take longer than this whole package

from conebandit.environments import shift
from conebandit.environments.base import World
from conebandit.geometry.cone import Cone
from conebandit.validate.arguments import as_integer
from conebandit.validate.arrays import FloatArray

# Square root of the stable dose in mg a week: International Warfarin Pharmacogenetics Consortium, "Estimation of the
# warfarin dose with clinical and pharmacogenetic data", New England Journal of Medicine 360 (2009) 753-764, without its
# terms for race and for unknown genotypes.
INTERCEPT, AGE, HEIGHT, WEIGHT = 5.6044, -0.2614, 0.0087, 0.0128  # decades, cm, kg
VKORC1 = np.array([0.0, -0.8677, -1.6974])  # by the number of A alleles
CYP2C9 = np.array([[0.0, -0.9357, -2.3312], [-0.5211, -1.9206, np.nan], [-1.0616, np.nan, np.nan]])  # *2 and *3 alleles
AMIODARONE = -0.5503

# What the equation leaves unexplained, on the logarithm of the dose: with it every second patient needs a dose within
# 20 % of the predicted one. Finkelman et al. (Journal of the American College of Cardiology 57, 2011) found 52 %.
UNEXPLAINED = 0.3
TOLERANCE = 0.2  # the same 20 %, which the Consortium also uses
SURPRISE = 0.001  # nothing is certain: the least chance of each outcome
PATIENTS = 4000  # invented for each clinic


@dataclass(frozen=True)
class _Clinic:
    """Who comes: mean and deviation of age (decades), height (cm) and weight (kg), and frequencies of alleles."""

    middle: tuple[float, float, float]
    spread: tuple[float, float, float]
    vkorc1_a: float
    cyp2c9_2: float
    cyp2c9_3: float
    amiodarone: float

    def patients(self, rng: np.random.Generator, n: int) -> FloatArray:
        """Contexts (n, 7)."""
        body = np.clip(rng.normal(self.middle, self.spread, (n, 3)), (2.0, 140.0, 40.0), (9.0, 200.0, 130.0))
        shares = [self.cyp2c9_2, self.cyp2c9_3, 1.0 - self.cyp2c9_2 - self.cyp2c9_3]
        alleles = rng.multinomial(2, shares, size=n)
        return np.column_stack(
            [body, rng.binomial(2, self.vkorc1_a, n), alleles[:, :2], rng.random(n) < self.amiodarone]
        ).astype(np.float64)


# Two invented clinics. Frequencies of alleles are about those that are found in people of European and of East Asian
# descent, where they differ most: VKORC1 -1639A 0.4 and 0.9, CYP2C9 *2 0.13 and 0, *3 0.07 and 0.04.
FIRST = _Clinic((6.5, 171.0, 82.0), (1.3, 10.0, 16.0), 0.4, 0.13, 0.07, 0.06)
SECOND = _Clinic((6.0, 163.0, 63.0), (1.3, 9.0, 11.0), 0.9, 0.0, 0.04, 0.04)


def stable_dose(contexts: FloatArray) -> FloatArray:
    """Predicted dose in mg a week, (n, 7) -> (n,): the equation of the Consortium.

    Examples
    --------
    >>> import numpy as np
    >>> from conebandit.environments.warfarin import stable_dose
    >>> patient = [6.0, 170.0, 70.0, 1, 0, 0, 0]     # 60 years, 170 cm, 70 kg, VKORC1 A/G, CYP2C9 *1/*1, no amiodarone
    >>> stable_dose(np.array([patient])).round(1)
    array([30.7])
    """
    age, height, weight, vkorc1, two, three, amiodarone = contexts.T
    root = INTERCEPT + AGE * age + HEIGHT * height + WEIGHT * weight + AMIODARONE * amiodarone
    root = root + VKORC1[vkorc1.astype(int)] + CYP2C9[two.astype(int), three.astype(int)]
    return np.asarray(root**2)


@dataclass(frozen=True)
class _Dosing:
    """Chances that a dose is not too low and not too high for a patient."""

    doses: FloatArray
    low: float

    def __call__(self, contexts: FloatArray) -> FloatArray:
        ratio = np.log(self.doses / stable_dose(contexts)[:, None])  # (n, K)
        enough = scipy.special.ndtr((ratio - np.log(1.0 - TOLERANCE)) / UNEXPLAINED)
        not_too_much = scipy.special.ndtr((np.log(1.0 + TOLERANCE) - ratio) / UNEXPLAINED)
        chances = SURPRISE + (1.0 - 2.0 * SURPRISE) * np.stack([enough, not_too_much], axis=2)
        return np.asarray(self.low + (1.0 - self.low) * chances)


@dataclass(frozen=True)
class _OneNeed:
    """Yes or no, for both outcomes by one number: what the patient turns out to need. So both are hardly ever no."""

    low: float

    def draw(self, rng: np.random.Generator, means: FloatArray) -> FloatArray:
        chances = (means - self.low) / (1.0 - self.low)
        need = rng.random(means.shape[:-1])
        met = np.stack([need < chances[..., 0], 1.0 - need <= chances[..., 1]], axis=-1)
        return np.where(met, 1.0, self.low)


def warfarin(n_arms: int = 7, *, change_point: int = 5000, cone: Cone | None = None, seed: int = 0) -> World:
    """Weekly doses of an anticoagulant for simulated patients whose stable dose follows a published equation.

    Nothing here is data. The stable dose is that of the pharmacogenetic equation of the International Warfarin
    Pharmacogenetics Consortium (2009), times what the equation leaves unexplained. Patients are invented: those of a
    first clinic until the change point, then those of a second one, who need about half as much, since other genotypes
    are frequent there. Do not dose anybody by it.

    Contexts are age (decades), height (cm), weight (kg), VKORC1 A alleles, CYP2C9 *2 alleles, *3 alleles (0 to 2 each),
    and amiodarone (0 or 1). Outcomes are yes (1) or no (0.1): the dose is *enough* (at least 80 % of what the patient
    needs), and it is *not too much* (at most 120 %).

    Parameters
    ----------
    n_arms
        Number of doses, from 10 to 70 mg a week in equal ratios; at least 2.
    change_point
        Number of patients of the first clinic.
    cone
        The preference cone. By default either outcome counts between half and twice as much as the other: by the
        orthant every dose is on the front, since more of it is always more likely enough and less likely not too much.
    seed
        Which patients.

    Examples
    --------
    >>> from conebandit.environments import warfarin
    >>> env = warfarin()
    >>> env.cone.names
    ('enough', 'not too much')
    >>> enough, not_too_much = env.means(np.array([[6.0, 170.0, 70.0, 1, 0, 0, 0]]))[0].T
    >>> bool((np.diff(enough) > 0).all() and (np.diff(not_too_much) < 0).all())
    True
    """
    n_arms = as_integer(n_arms, "n_arms", least=2)
    at = as_integer(change_point, "change_point", least=0)
    rng = np.random.default_rng(as_integer(seed, "seed", least=0))
    first, second = (shift.empirical(clinic.patients(rng, PATIENTS)) for clinic in (FIRST, SECOND))
    low = 0.1
    order = cone or Cone.from_weights([[2, 1], [1, 2]], names=("enough", "not too much"))
    doses = np.geomspace(10.0, 70.0, n_arms)
    schedule = shift.change_point(first, second, at=at)
    return World(f"warfarin (simulated), K = {n_arms}", schedule, _Dosing(doses, low), order, n_arms, _OneNeed(low))
