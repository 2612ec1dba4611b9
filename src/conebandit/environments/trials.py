"""Two randomised trials as tables and as environments. Their data are not ours: other packages or you have them."""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from conebandit.environments import shift
from conebandit.environments.base import World
from conebandit.environments.table import from_table
from conebandit.geometry.cone import Cone
from conebandit.validate.arrays import FloatArray


@dataclass(frozen=True)
class Trial:
    """The rows of a randomised trial.

    Attributes
    ----------
    contexts, arms, outcomes
        Shapes (n, d), (n,), (n, M): what was known of each row, the index of what it got, and what came of it.
    groups
        Shape (n,): where a row comes from, such as its site.
    propensities
        Shape (n,): with what probability each row got its arm, estimated by the shares of arms in its group.
    context_names, arm_names, outcome_names
        What columns and arms are.
    ranges
        Shape (M, 2): the worst and the best value of each outcome.
    """

    contexts: FloatArray
    arms: NDArray[np.int64]
    outcomes: FloatArray
    groups: NDArray[np.int64]
    context_names: tuple[str, ...]
    arm_names: tuple[str, ...]
    outcome_names: tuple[str, ...]
    ranges: tuple[tuple[float, float], ...]

    @property
    def propensities(self) -> FloatArray:
        """Share of its arm in the group of each row."""
        counts = np.zeros((self.groups.max() + 1, len(self.arm_names)))
        np.add.at(counts, (self.groups, self.arms), 1.0)
        return np.asarray(counts[self.groups, self.arms] / counts.sum(axis=1)[self.groups])

    @property
    def shares(self) -> FloatArray:
        """Share of each arm, shape (K,)."""
        return np.bincount(self.arms, minlength=len(self.arm_names)) / len(self.arms)

    def cone(self) -> Cone:
        """The orthant, with the names of the outcomes."""
        return Cone.orthant(len(self.outcome_names), names=self.outcome_names)


# ---- the RAND Health Insurance Experiment ---------------------------------------------------------------------------

# Plans by what people paid of their bills, the six groups of Aron-Dine, Einav and Finkelstein, "The RAND Health
# Insurance Experiment, three decades later", Journal of Economic Perspectives 27 (2013). Plan 12 does not occur.
RAND_PLANS: Mapping[str, tuple[int, ...]] = {
    "free": (11,),
    "25 %": (5, 6, 7),
    "25 %, dental and mental 50 %": (17, 18, 19),
    "50 %": (8, 9, 10),
    "95 or 100 %": (2, 3, 4, 14, 15, 16),
    "individual deductible": (1, 13),
}
RAND_CONTEXT = ("xage", "female", "linc", "lfam", "disea", "xghindx")
RAND_PHASES = ((1,), (2,), (3, 4), (5, 6))  # Dayton; Seattle; Fitchburg, Franklin County; Charleston, Georgetown County


def read_rand_hie() -> Trial:
    """The RAND Health Insurance Experiment: 20,190 years of 5,912 persons, whose families were randomised to plans.

    It is read from the source file beside ``statsmodels.datasets.randhie``, which statsmodels contains since 0.15; the
    ten columns that its loader gives lack sites, costs and admissions.

    Examples
    --------
    >>> from conebandit.environments.trials import read_rand_hie
    >>> trial = read_rand_hie()
    >>> trial.contexts.shape, trial.outcome_names
    ((20190, 6), ('-log cost', 'log visits', 'no admission'))
    """
    path = _inside("statsmodels", "datasets/randhie/src/randhie.csv", "statsmodels 0.15 or later")
    columns = _columns(path, ("plan", "site", "meddol", "mdvis", "totadm", *RAND_CONTEXT))
    arm_of = {plan: k for k, plans in enumerate(RAND_PLANS.values()) for plan in plans}
    outcomes = [-np.log1p(columns["meddol"]), np.log1p(columns["mdvis"]), columns["totadm"] == 0]
    return Trial(
        contexts=np.column_stack([columns[name] for name in RAND_CONTEXT]),
        arms=np.array([arm_of[int(plan)] for plan in columns["plan"]]),
        outcomes=np.column_stack(outcomes).astype(np.float64),
        groups=columns["site"].astype(np.int64),
        context_names=("age", "female", "log income", "log family size", "chronic diseases", "general health"),
        arm_names=tuple(RAND_PLANS),
        outcome_names=("-log cost", "log visits", "no admission"),
        ranges=((-np.log1p(50_000.0), 0.0), (0.0, np.log1p(100.0)), (0.0, 1.0)),  # up to 50,000 dollars, 100 visits
    )


def rand_hie(*, change_points: Sequence[int] = (2500, 5000, 7500), cone: Cone | None = None) -> World:
    """Health insurance: which plan for whom. Contexts, effects and residuals are those of the RAND experiment.

    People of Dayton come first, then those of Seattle, of Massachusetts, and of South Carolina. Arms are six kinds of
    plans, from free care to 95 or 100 % paid by the patient. Outcomes are minus the logarithm of (1 +) the cost of
    care, the logarithm of (1 +) visits to a physician, and whether there was no admission to a hospital, each scaled to
    between 0.2 and 1. What arms do is fitted (:func:`from_table`), so this is a simulation close to real data.

    Parameters
    ----------
    change_points
        When people of the next place begin to come; three numbers.
    cone
        The preference cone; the orthant, with named metrics, by default.

    Notes
    -----
    Needs statsmodels 0.15 or later: ``pip install 'conebandit[trials]'``. Families were randomised within sites, with
    shares that differ between them, and two kinds of plans were not offered at one site each. Models are fitted to all
    sites at once, with age, sex, income, family size, chronic diseases and general health as contexts.

    Examples
    --------
    >>> from conebandit.environments import rand_hie
    >>> env = rand_hie()
    >>> env.n_arms, env.cone.names, env.change_points
    (6, ('-log cost', 'log visits', 'no admission'), (2500, 5000, 7500))
    """
    return _world("RAND Health Insurance Experiment", read_rand_hie(), RAND_PHASES, change_points, cone)


# ---- AIDS Clinical Trials Group 175 ---------------------------------------------------------------------------------

ACTG_ARMS = ("zidovudine", "zidovudine and didanosine", "zidovudine and zalcitabine", "didanosine")
ACTG_CONTEXT = ("age", "wtkg", "karnof", "cd40", "cd80", "preanti")
ACTG_PHASES = ((0,), (1,))  # never treated before; treated before
ACTG_NAMES = {"trt": "arms", "cid": "cens"}  # names in the copy of the UCI repository, and those of speff2trial


def read_actg175(path: str | os.PathLike[str]) -> Trial:
    """AIDS Clinical Trials Group study 175: 2,139 patients, randomised to four treatments (Hammer et al. 1996).

    Parameters
    ----------
    path
        A CSV file with the columns of ``ACTG175`` in the R package speff2trial, or of data set 890 of the UCI Machine
        Learning Repository (https://doi.org/10.24432/C5ZG8F, CC BY 4.0). No package for Python contains the data.

    Examples
    --------
    >>> from conebandit.environments.trials import read_actg175
    >>> trial = read_actg175("ACTG175.csv")  # doctest: +SKIP
    >>> trial.outcome_names  # doctest: +SKIP
    ('change in CD4', 'no event', 'stayed on treatment')
    """
    columns = _columns(path, ("arms", "cd420", "cens", "offtrt", "str2", *ACTG_CONTEXT), ACTG_NAMES)
    change = columns["cd420"] - columns["cd40"]
    context = {**columns, "preanti": np.log1p(columns["preanti"]), "cd80": np.log1p(columns["cd80"])}
    return Trial(
        contexts=np.column_stack([context[name] for name in ACTG_CONTEXT]),
        arms=columns["arms"].astype(np.int64),
        outcomes=np.column_stack([change, 1.0 - columns["cens"], 1.0 - columns["offtrt"]]),
        groups=columns["str2"].astype(np.int64),
        context_names=("age", "weight", "Karnofsky score", "CD4", "log CD8", "log days of earlier treatment"),
        arm_names=ACTG_ARMS,
        outcome_names=("change in CD4", "no event", "stayed on treatment"),
        ranges=((-1000.0, 1000.0), (0.0, 1.0), (0.0, 1.0)),
    )


def actg175(path: str | os.PathLike[str], *, change_points: Sequence[int] = (5000,), cone: Cone | None = None) -> World:
    """Treatment of HIV: contexts, effects and residuals are those of the trial ACTG 175.

    Patients who were never treated before come first, then those who were. Outcomes are the change of the CD4 count
    after 20 weeks, whether there was no event (CD4 halved, AIDS or death), and whether the patient stayed on the
    treatment, each scaled to between 0.2 and 1. What arms do is fitted (:func:`from_table`).

    Parameters
    ----------
    path
        The data, as for :func:`~conebandit.environments.trials.read_actg175`: this package does not contain them.
    change_points
        When patients who were treated before begin to come; one number.
    cone
        The preference cone; the orthant, with named metrics, by default.

    Examples
    --------
    >>> from conebandit.environments import actg175
    >>> env = actg175("ACTG175.csv")  # doctest: +SKIP
    """
    return _world("ACTG 175", read_actg175(path), ACTG_PHASES, change_points, cone)


# ---- both -----------------------------------------------------------------------------------------------------------


def _world(
    name: str, trial: Trial, phases: Sequence[Sequence[int]], change_points: Sequence[int], cone: Cone | None
) -> World:
    return from_table(
        trial.contexts,
        trial.arms,
        trial.outcomes,
        schedule=shift.by_group(trial.contexts, trial.groups, change_points, phases=phases),
        ranges=trial.ranges,
        cone=cone or trial.cone(),
        name=name,
    )


def _inside(package: str, file: str, needed: str) -> Path:
    """A file of another package, found without importing the package."""
    spec = find_spec(package)
    path = Path(spec.origin).parent / file if spec and spec.origin else None
    if path is None or not path.exists():
        found = f"{package} is not installed" if path is None else f"the installed {package} has no {file}"
        raise ImportError(f"these data are in {needed}, but {found}; pip install 'conebandit[trials]'.")
    return path


def _columns(
    path: str | os.PathLike[str], names: Sequence[str], renamed: Mapping[str, str] | None = None
) -> dict[str, FloatArray]:
    """Columns of a CSV file as numbers, by name; R writes a column of row names that has no name itself."""
    with open(path, newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    known = [(renamed or {}).get(name, name) for name in header]
    if missing := [name for name in names if name not in known]:
        raise ValueError(f"{path} must have the columns {', '.join(names)}; it lacks {', '.join(missing)}.")
    if rows and len(rows[0]) == len(known) + 1:
        known.insert(0, "")
    try:
        return {name: np.array([float(row[known.index(name)]) for row in rows if row]) for name in names}
    except (ValueError, IndexError) as error:
        raise ValueError(f"{path} must have a number in each of {', '.join(names)}, in every row: {error}.") from None
