"""Which way is better in each objective: labels of a cone, and a warning where a name sounds like a cost."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from conebandit.geometry.description import Description
from conebandit.geometry.inputs import check_names
from conebandit.validate.arrays import FloatArray


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Words of which, as a rule, less is better; a plural is recognised too. A name that has one of them is suspected.
COSTS = _words(
    """
    abandonment absence adverse attrition bleeding bounce cancellation carbon churn co2 complaint complication cost
    crash damage death debt defect delay downtime dropout duration effort emission err error expense failure fatality
    fault fraud harm hazard hospitalisation hospitalization infection injury lag latency loss mae miss mistake mortality
    mse nausea outage overhead pain penalty pollution price readmission recurrence refund regret relapse rejection risk
    rmse runtime spam spend spending timeout time toxicity toxic unsubscribe violation wait waiting waste
    """
)

# Words that turn such a name around: pain relief, time saved, error-free, survival time. Only what leaves no doubt: a
# warning too many is soon silenced, a cost that is taken for a gain does harm.
TURNED = _words(
    """
    averted avoidance avoided fewer free improvement less minus neg no prevented prevention reduced reduction relief
    saved saving survival without
    """
)

NUMBER = re.compile(r"(?i)(?<![a-z])no(?:\.|(?=[\s_-]+of(?![a-z])))")  # "No. of complaints" are not "no complaints"


class CostWarning(UserWarning):
    """More of a metric counts as better, although its name sounds like a cost.

    Say which way is better, and the warning goes away: ``minimise=[...]`` or ``maximise=[...]``.

    Examples
    --------
    >>> import warnings
    >>> import conebandit as cb
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     _ = cb.Cone.orthant(2, names=["efficacy", "toxicity"])
    ...     _ = cb.Cone.orthant(2, names=["efficacy", "toxicity"], minimise=["toxicity"])
    >>> [w.category.__name__ for w in caught]
    ['CostWarning']
    """


class Labels(NamedTuple):
    """Names of the objectives, if they have any; which of them are costs; which were said not to be."""

    names: tuple[str, ...] | None
    minimise: tuple[str, ...] = ()
    maximise: tuple[str, ...] = ()

    @property
    def undecided(self) -> tuple[str, ...]:
        """Names of which nobody has said which way is better."""
        return tuple(n for n in self.names or () if n not in (*self.minimise, *self.maximise))


def sounds_like_a_cost(name: str) -> bool:
    """Whether less of what is called so is better, as far as an English name tells.

    Parameters
    ----------
    name
        Of a metric. Words are told apart by case, digits, spaces and signs: ``"p99_latency"``, ``"responseTime"``.

    Examples
    --------
    >>> names = ("toxicity", "p99 latency", "safety", "pain relief", "time_saved")
    >>> [name for name in names if sounds_like_a_cost(name)]
    ['toxicity', 'p99 latency']
    """
    if name.lstrip().startswith(("-", "\N{MINUS SIGN}")):
        return False
    name = NUMBER.sub("number ", name)
    words = [w.lower() for w in re.findall(r"[A-Z]+(?![a-z])\d*|[A-Z]?[a-z]+\d*|\d+", name)]
    words += [w.rstrip("0123456789") for w in words]
    plurals = (("s", ""), ("es", ""), ("ies", "y"))
    known = {*words, *(w.removesuffix(end) + stem for w in words for end, stem in plurals if w.endswith(end))}
    return (not known.isdisjoint(COSTS) or {"side", "effect"} <= known) and known.isdisjoint(TURNED)


def read_labels(
    names: Sequence[str] | None, dim: int | None, minimise: Sequence[str], maximise: Sequence[str]
) -> Labels:
    """Names and directions that fit together; ``dim`` is the number of objectives, if it is known."""
    checked = None if names is None else check_names(names, dim)
    directions = [_chosen(given, checked, name) for name, given in (("minimise", minimise), ("maximise", maximise))]
    both = [n for n in directions[0] if n in directions[1]]
    if both:
        raise ValueError(f"minimise and maximise both name {both}; an objective has one direction.")
    return Labels(checked, *directions)


def _chosen(given: Sequence[str], names: tuple[str, ...] | None, argument: str) -> tuple[str, ...]:
    """Some of the names, in their order."""
    if isinstance(given, str) or not isinstance(given, Sequence) or not all(isinstance(n, str) for n in given):
        raise TypeError(f"{argument} must be a list of names, such as ['toxicity']; got {given!r}.")
    unknown = [n for n in given if n not in (names or ())]
    if unknown:
        known = "its objectives have no names; give names=[...]" if names is None else f"it has {list(names)}"
        raise ValueError(f"{argument} names {unknown}, which are not objectives of this cone: {known}.")
    return tuple(n for n in names or () if n in given)


def signs(names: Sequence[str] | None, minimise: Sequence[str], dim: int) -> FloatArray:
    """-1 for each cost, 1 for every other objective."""
    return np.array([-1.0 if n in minimise else 1.0 for n in names]) if names else np.ones(dim)


def counted_as_better(described: Description, sign: int) -> NDArray[np.bool_]:
    """For each objective, whether the cone counts more of it (for ``sign`` -1: less of it) as better.

    It does if a gain in it alone is an improvement, or if there is no improvement without one.
    """
    alone, always = (
        (rows * sign >= 0).all(axis=0) & (rows != 0).any(axis=0) for rows in (described.facets, described.rays)
    )
    return np.asarray(alone | always)


def check_directions(described: Description, labels: Labels) -> None:
    """Refuse directions that the numbers of a cone contradict."""
    for argument, given, sign in (("minimise", labels.minimise, 1), ("maximise", labels.maximise, -1)):
        against = counted_as_better(described, sign)
        for name, wrong in zip(labels.names or (), against, strict=False):
            if wrong and name in given:
                more, less = ("more", "negative") if sign == 1 else ("less", "positive")
                raise ValueError(
                    f"{argument} names {name!r}, but these numbers count {more} of it as better. They are in the "
                    f"objectives' own units: an improvement in {name!r} is a {less} entry. Change the sign of its "
                    "entries, or leave the direction out."
                )


def warn_of_costs(described: Description, labels: Labels, *, stacklevel: int) -> None:
    """Warn of each objective that counts as a gain, sounds like a cost, and about which nothing was said."""
    better = counted_as_better(described, 1)
    for name, more in zip(labels.names or (), better, strict=False):
        if more and name in labels.undecided and sounds_like_a_cost(name):
            warnings.warn(
                f"more {name!r} counts as better, though the name sounds like a cost. Say minimise=[{name!r}] if less "
                f"is better, or maximise=[{name!r}] if more is.",
                CostWarning,
                stacklevel=stacklevel + 1,
            )
