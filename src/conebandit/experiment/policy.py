"""Which policies can be served, by name."""

from __future__ import annotations

from typing import Any

from conebandit.experiment.declaration import Experiment
from conebandit.experiment.entries import MAX_WORDS
from conebandit.experiment.errors import InvalidError
from conebandit.policies.compiled import CompiledPolicy
from conebandit.policies.cone_tree import ConeTree
from conebandit.policies.load import load_policy

Served = ConeTree | CompiledPolicy

__all__ = ["Served", "load_policy", "make_policy", "policy_names"]


def _policies() -> dict[str, Any]:
    """All that are built on ``CompiledPolicy``, and the tree, whose presets are one name."""
    found: dict[str, Any] = {policy.__name__: policy for policy in CompiledPolicy.__subclasses__()}
    found.pop("AdaptiveTree", None)
    return {"ConeTree": ConeTree, **found}


def policy_names() -> tuple[str, ...]:
    """Names that a declaration may use.

    Examples
    --------
    >>> {"ConeTree", "ParetoUCB1", "LinearParetoUCB"} <= set(policy_names())
    True
    """
    return tuple(sorted(_policies()))


def make_policy(experiment: Experiment, n_arms: int) -> Served:
    """A policy that knows nothing yet; an ``InvalidError`` if its settings do not fit.

    Examples
    --------
    >>> experiment = Experiment.from_dict({"id": "e", "arms": ["a", "b"], "metrics": [{"name": "m"}]})
    >>> make_policy(experiment, n_arms=2).n_observations
    0
    """
    kinds = _policies()
    if experiment.policy not in kinds:
        raise InvalidError(f"policy.name must be one of {', '.join(sorted(kinds))}; got {experiment.policy!a}.")
    try:
        policy: Served = kinds[experiment.policy](
            n_arms=n_arms,
            cone=experiment.cone,
            context_dim=experiment.context_dim,
            seed=experiment.seed,
            **experiment.settings,
        )
    except (TypeError, ValueError, OverflowError, MemoryError) as error:
        raise InvalidError(f"policy: {error}"[:MAX_WORDS]) from None
    return policy
