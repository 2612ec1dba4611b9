"""The environments that policies are compared in.

Every entry makes an environment from a seed, and random mean functions are drawn again for every seed: what is ranked
is how a policy does on a *kind* of problem, not on one draw of it. Contexts always shift.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np

from conebandit.environments import dose_finding, paper, piecewise, shift, smooth
from conebandit.environments.base import World
from conebandit.environments.noise import Bernoulli, Gaussian, Heteroscedastic
from conebandit.geometry.cone import Cone
from conebandit.studies.own import OwnEnvironment, is_own

HORIZON = 50_000
CHANGE = 5000  # default change point; schedules below say theirs


@dataclass(frozen=True)
class Task:
    """A kind of environment: ``make(seed)`` gives one of them."""

    name: str
    about: str
    make: Callable[[int], World]


def _deviation(mean: np.ndarray) -> np.ndarray:
    """Noise for the heteroscedastic task: little where means are small, much where they are large."""
    return 0.05 + 0.6 * mean


def _nearly_disjoint(dim: int) -> shift.Schedule:
    """Source in the upper corner, target in the lower one: Beta(8, 2) and Beta(2, 8) overlap by less than 2 %."""
    return shift.change_point(shift.beta(8, 2, dim), shift.beta(2, 8, dim), at=CHANGE)


def _several(dim: int) -> shift.Schedule:
    laws = [shift.beta(8, 2, dim), shift.beta(2, 8, dim), shift.power_law(3, dim), shift.uniform(dim)]
    return shift.shifts(laws, at=[4000, 8000, 12000])


def _gradual(dim: int) -> shift.Schedule:
    return shift.gradual(shift.power_law(3, dim), shift.beta(2, 4, dim), 5000, 20_000)


SUITE: tuple[Task, ...] = (
    Task("paper", "the paper's experiment, sigma 0.1", lambda s: paper(10, 3.0, CHANGE, sigma=0.1)),
    Task("paper-loud", "the paper's experiment, sigma 1", lambda s: paper(10, 3.0, CHANGE, sigma=1.0)),
    Task("smooth-1", "smooth means, d = 1", lambda s: smooth(context_dim=1, length_scale=0.25, seed=s)),
    Task("smooth-2", "smooth means, d = 2", lambda s: smooth(seed=s)),
    Task("smooth-5", "smooth means, d = 5 of which 2 matter", lambda s: smooth(context_dim=5, relevant=2, seed=s)),
    Task("arms-16", "16 arms, d = 2", lambda s: smooth(n_arms=16, seed=s)),
    Task("metrics-3", "3 metrics, d = 2", lambda s: smooth(n_objectives=3, seed=s)),
    Task("loud", "sigma 1, d = 2", lambda s: smooth(noise=Gaussian(1.0), seed=s)),
    Task(
        "loud-5",
        "16 arms, 3 metrics, sigma 1, d = 5 of which 2 matter",
        lambda s: smooth(n_arms=16, n_objectives=3, context_dim=5, relevant=2, noise=Gaussian(1.0), seed=s),
    ),
    Task("narrow", "a narrow cone (60 degrees)", lambda s: smooth(cone=Cone.wedge(60), seed=s)),
    Task("wide", "a wide cone (120 degrees)", lambda s: smooth(cone=Cone.wedge(120), seed=s)),
    Task("disjoint", "source nearly disjoint from target", lambda s: smooth(schedule=_nearly_disjoint(2), seed=s)),
    Task("several", "three shifts", lambda s: smooth(schedule=_several(2), seed=s)),
    Task("gradual", "gradual drift", lambda s: smooth(schedule=_gradual(2), seed=s)),
    Task("piecewise", "means that jump", lambda s: piecewise(seed=s)),
    Task("dose", "dose finding, drifting demographics", lambda s: dose_finding(cone=Cone.wedge(150))),
    Task("bernoulli", "yes-or-no outcomes", lambda s: smooth(noise=Bernoulli(), seed=s)),
    Task("uneven", "noise that grows with the mean", lambda s: smooth(noise=Heteroscedastic(_deviation), seed=s)),
)

# Not part of the suite, but to be asked for by name: the paper's experiment with 20,000 rounds, as reported elsewhere.
EXTRA: tuple[Task, ...] = (
    Task("paper-short", "the paper's experiment, t_p = 2000, sigma 0.1", lambda s: paper(10, 3.0, 2000, sigma=0.1)),
    Task("paper-short-loud", "the paper's experiment, t_p = 2000, sigma 1", lambda s: paper(10, 3.0, 2000, sigma=1.0)),
)


class _HasName(Protocol):
    @property
    def name(self) -> str: ...


Named = TypeVar("Named", bound=_HasName)


def pick(names: Sequence[str], things: Sequence[Named]) -> list[Named]:
    """The things with these names, each once; a ``ValueError`` if there is none of a name, with those that there are.

    Examples
    --------
    >>> [task.name for task in pick(["loud", "dose", "loud"], SUITE)]
    ['loud', 'dose']
    """
    known = {thing.name: thing for thing in things}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(
            f"there is no {unknown[0]!r}; choose from {', '.join(known)}, or give the import path of your own, such as "
            "mine:name."
        )
    return [known[name] for name in dict.fromkeys(names)]


def find_tasks(names: Sequence[str], folders: tuple[str, ...] = ()) -> list[Task]:
    """Tasks by name, each once: of the suite, those beside it, or the user's own by import path.

    Raises
    ------
    ValueError
        If there is none of a name, with those that there are.

    Examples
    --------
    >>> [task.name for task in find_tasks(["loud", "conebandit.environments:warfarin"])]
    ['loud', 'conebandit.environments:warfarin']
    """
    own = tuple(Task(name, "the user's own", OwnEnvironment(name, folders)) for name in names if is_own(name))
    return pick(names, (*SUITE, *EXTRA, *own))
