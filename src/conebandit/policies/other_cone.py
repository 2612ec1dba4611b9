"""A policy, asked under another cone and resolution than its own: what it would report on the same estimates."""

from __future__ import annotations

from typing import TypeVar

from numpy.typing import ArrayLike

from conebandit.geometry.cone import Cone, as_cone
from conebandit.policies.compiled import CompiledPolicy

Policy = TypeVar("Policy", bound=CompiledPolicy)


def under_cone(policy: Policy, cone: Cone, resolution: ArrayLike) -> Policy | None:
    """A policy that has learned the same and answers under another cone; the one that is given stays as it is.

    Parameters
    ----------
    policy
        Of any kind.
    cone
        For as many objectives.
    resolution
        The smallest difference that matters, as for every policy.

    Returns
    -------
    CompiledPolicy or None
        Estimates and reports are, bit for bit, those of the policy that had this cone and resolution from the start
        and made the same observations; so are decisions, but for `ConeKernel`, which finds out at its next fit where
        arms cost least under this cone. None if the policy learns otherwise under another cone: it eliminates arms for
        good, say.

    Examples
    --------
    >>> import conebandit as cb
    >>> policy = cb.ParetoUCB1(n_arms=2, cone=cb.Cone.orthant(2), context_dim=1)
    >>> policy.observe([0.5], 0, [1.0, 0.0])
    >>> policy.observe([0.5], 1, [0.0, 0.3])
    >>> policy.front([0.5]).arms, under_cone(policy, cb.Cone.wedge(150), 0.0).front([0.5]).arms
    ((0, 1), (0,))
    """
    if as_cone(cone).dim != policy.n_objectives:
        raise ValueError(f"cone must have dimension {policy.n_objectives}, as that of the policy; got {cone.dim}.")
    if not policy._layout.cone_free:
        return None
    other = type(policy)(cone=cone, **{**policy._arguments(), "resolution": resolution})
    return other._with(other._layout.under_cone(policy.state(), other._state))
