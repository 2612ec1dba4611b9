"""Which policies can be served, by name."""

from __future__ import annotations

from conebandit.experiment.declaration import Experiment
from conebandit.experiment.entries import MAX_WORDS
from conebandit.experiment.errors import InvalidError
from conebandit.policies.compiled import CompiledPolicy
from conebandit.policies.load import load_policy
from conebandit.policies.registry import find_policy, policy_names

Served = CompiledPolicy

__all__ = ["Served", "load_policy", "make_policy", "policy_names"]


def make_policy(experiment: Experiment, n_arms: int) -> Served:
    """A policy that knows nothing yet; an ``InvalidError`` if its settings do not fit.

    Examples
    --------
    >>> experiment = Experiment.from_dict({"id": "e", "arms": ["a", "b"], "metrics": [{"name": "m"}]})
    >>> make_policy(experiment, n_arms=2).n_observations
    0
    """
    if experiment.policy not in policy_names():
        names = ", ".join(policy_names())
        raise InvalidError(f"policy.name must be one of {names}; got {experiment.policy!a}.")
    try:
        return find_policy(experiment.policy)(
            n_arms=n_arms,
            cone=experiment.cone,
            context_dim=experiment.context_dim,
            seed=experiment.seed,
            **experiment.settings,
        )
    except (TypeError, ValueError, OverflowError, MemoryError) as error:
        raise InvalidError(f"policy: {error}"[:MAX_WORDS]) from None
