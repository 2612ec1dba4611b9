"""Policies by name: ours, and those that installed packages offer.

A package offers a policy by an entry point of the group ``conebandit.policies``; ``docs/your-own.md`` shows one.
"""

from __future__ import annotations

import warnings
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from conebandit.policies.binned_elimination import BinnedElimination
from conebandit.policies.binned_pareto_ucb import BinnedParetoUCB
from conebandit.policies.compiled import CompiledPolicy
from conebandit.policies.cone_kernel import ConeKernel
from conebandit.policies.cone_tree import ConeTree
from conebandit.policies.fourier_sampling import FourierSampling
from conebandit.policies.linear_ucb import LinearParetoUCB
from conebandit.policies.neighbours import NeighbourParetoUCB
from conebandit.policies.pareto_ucb import ParetoUCB1
from conebandit.policies.scalarised_ucb import ScalarisedUCB
from conebandit.policies.self_tuning import SelfTuning
from conebandit.policies.zooming import ParetoZooming

GROUP = "conebandit.policies"

OURS: dict[str, type[CompiledPolicy]] = {
    "BinnedElimination": BinnedElimination,
    "BinnedParetoUCB": BinnedParetoUCB,
    "ConeKernel": ConeKernel,
    "ConeTree": ConeTree,
    "FourierSampling": FourierSampling,
    "LinearParetoUCB": LinearParetoUCB,
    "NeighbourParetoUCB": NeighbourParetoUCB,
    "ParetoUCB1": ParetoUCB1,
    "ParetoZooming": ParetoZooming,
    "ScalarisedUCB": ScalarisedUCB,
    "SelfTuning": SelfTuning,
}

ALIASES = {"AdaptiveTree": "ConeTree"}  # kinds of policies in files that are not the names of classes


def policy_names() -> tuple[str, ...]:
    """Names of all policies that can be made, saved and served.

    Examples
    --------
    >>> {"ConeTree", "ParetoUCB1", "LinearParetoUCB"} <= set(policy_names())
    True
    """
    return tuple(sorted({**OURS, **offered()}))


def find_policy(name: str) -> type[CompiledPolicy]:
    """The class of this name.

    Raises
    ------
    KeyError
        If there is none.
    ValueError
        If a package offers it, but it cannot be had.

    Examples
    --------
    >>> find_policy("ParetoUCB1").__name__
    'ParetoUCB1'
    """
    return OURS[name] if name in OURS else _loaded(offered()[name])


@cache
def offered() -> dict[str, EntryPoint]:
    """What installed packages offer, by name; nothing of it is imported yet."""
    found: dict[str, EntryPoint] = {}
    for entry in entry_points(group=GROUP):
        ours = entry.name in OURS or entry.name in ALIASES
        if ours or entry.name in found:
            other = "conebandit" if ours else _package(found[entry.name])
            warnings.warn(
                f"package {_package(entry)} offers a policy named {entry.name!r}, which is the name of one of {other}; "
                "it is not used. Give it another name.",
                stacklevel=2,
            )
        else:
            found[entry.name] = entry
    return found


def _package(entry: EntryPoint) -> str:
    return "of an unknown name" if entry.dist is None else entry.dist.name


def _loaded(entry: EntryPoint) -> type[CompiledPolicy]:
    """Import what a package offers, and see whether it is a policy that can be saved and loaded."""
    about = f"policy {entry.name!r} of package {_package(entry)}"
    try:
        policy = entry.load()
    except Exception as error:  # whatever a stranger's module raises
        raise ValueError(f"{about} cannot be imported: {type(error).__name__}: {error}.") from error
    if not (isinstance(policy, type) and issubclass(policy, CompiledPolicy)):
        raise ValueError(f"{about} must be a subclass of conebandit.policies.compiled.CompiledPolicy; got {policy!r}.")
    if policy.__name__ != entry.name:
        raise ValueError(f"{about} must have the name of its class, {policy.__name__!r}, since files are known by it.")
    return policy
