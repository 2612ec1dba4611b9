"""The policy we recommend."""

from __future__ import annotations

import warnings
from typing import Any

from numpy.typing import ArrayLike

from conebandit.geometry.cone import Cone, as_cone
from conebandit.policies.cone_kernel import ConeKernel
from conebandit.policies.cone_kernel.arms import as_arm_features
from conebandit.policies.cone_tree import ConeTree
from conebandit.validate.arguments import as_count

# The kernel keeps a matrix of n_features^2 numbers for each arm and metric; beyond this many of them, 130 MB, the tree.
MAX_MODELS = 1000


def default_policy(
    n_arms: int,
    cone: Cone,
    context_dim: int,
    seed: int = 0,
    *,
    bounds: ArrayLike | None = None,
    explore: float = 0.0,
    resolution: ArrayLike = 0.0,
    arm_features: ArrayLike | None = None,
) -> ConeKernel | ConeTree:
    """The policy that we recommend for a problem of this size, by evidence.

    ``ConeKernel`` has the best score in nearly every environment of the suite (``docs/which-policy.md``). Its memory
    and the time of a fit grow with the number of arms times metrics, so for more than a thousand of those it is
    ``ConeTree(preset="adaptive")``.

    Parameters
    ----------
    n_arms, cone, context_dim, seed, bounds, explore, resolution
        As for :class:`ConeTree`.
    arm_features
        Numbers that describe the arms, such as doses or prices: as for :class:`ConeKernel`. ``ConeTree`` cannot use
        them; a warning says so.

    Examples
    --------
    >>> import conebandit as cb
    >>> policy = cb.default_policy(n_arms=10, cone=cb.Cone.orthant(2), context_dim=3)
    >>> type(policy).__name__
    'ConeKernel'

    Doses that are alike inform each other:

    >>> policy = cb.default_policy(3, cb.Cone.orthant(2), 1, arm_features=[10, 20, 40])
    >>> policy.arm_features.ravel()
    array([10., 20., 40.])
    """
    common: dict[str, Any] = {"seed": seed, "bounds": bounds, "explore": explore, "resolution": resolution}
    kind = default_name(as_count(n_arms, "n_arms"), as_cone(cone).dim)
    described = as_arm_features(arm_features, n_arms)
    if kind == "ConeKernel":
        return ConeKernel(n_arms, cone, context_dim, arm_features=described, **common)
    if described is not None:
        warnings.warn(
            f"arm_features are not used: {n_arms} arms are too many for ConeKernel, and ConeTree cannot use them.",
            stacklevel=2,
        )
    return ConeTree(n_arms, cone, context_dim, preset="adaptive", **common)


def default_name(n_arms: int, n_objectives: int) -> str:
    """Name of the policy that we recommend for this many arms and metrics.

    Examples
    --------
    >>> default_name(10, 2), default_name(600, 2)
    ('ConeKernel', 'ConeTree')
    """
    return "ConeKernel" if n_arms * n_objectives <= MAX_MODELS else "ConeTree"
