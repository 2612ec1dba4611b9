"""Which policies can be served, by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from inspect import signature

from conebandit.experiment.declaration import Experiment
from conebandit.experiment.entries import MAX_WORDS
from conebandit.experiment.errors import InvalidError
from conebandit.policies.compiled import CompiledPolicy
from conebandit.policies.default import default_name
from conebandit.policies.load import load_policy
from conebandit.policies.registry import find_policy, policy_names

Served = CompiledPolicy

SHARED_SETTINGS = {"explore", "resolution"}  # those of every policy

__all__ = ["Served", "load_policy", "make_policy", "policy_names", "with_policy"]


def with_policy(experiment: Experiment) -> Experiment:
    """The same experiment with the name of its policy declared: that of ``default_policy`` if there was none.

    The service begins experiments with it, so that the name is in the log, and the experiment stays what it was when
    the default is another one some day. In a log, no name means ``ConeTree``, which was the default at first; so do
    settings without a name that not every policy has.

    Examples
    --------
    >>> experiment = Experiment.from_dict({"id": "e", "arms": ["a", "b"], "metrics": [{"name": "m"}]})
    >>> experiment.policy, with_policy(experiment).policy
    ('ConeTree', 'ConeKernel')
    """
    given = experiment.declaration.get("policy", {})
    if isinstance(given, str) or not given.keys() <= SHARED_SETTINGS:  # a name, or settings of the tree
        return experiment
    named = {"name": default_name(len(experiment.arms), len(experiment.metrics)), **given}
    made = Experiment.from_dict({**experiment.declaration, "policy": named})
    return replace(made, notes=experiment.notes)


def make_policy(experiment: Experiment, arms: Sequence[str]) -> Served:
    """A policy for these arms that knows nothing yet; an ``InvalidError`` if its settings do not fit.

    Examples
    --------
    >>> experiment = Experiment.from_dict({"id": "e", "arms": ["a", "b"], "metrics": [{"name": "m"}]})
    >>> make_policy(experiment, experiment.arms).n_observations
    0
    """
    if experiment.policy not in policy_names():
        names = ", ".join(policy_names())
        raise InvalidError(f"policy.name must be one of {names}; got {experiment.policy!a}.")
    settings, resolution = dict(experiment.settings), [metric.resolution for metric in experiment.metrics]
    if any(resolution):
        if "resolution" in settings:
            raise InvalidError("resolution: give it for each metric, or once for the policy, but not both.")
        settings["resolution"] = resolution
    if experiment.arm_features:
        settings["arm_features"] = _described(experiment, arms)
    try:
        return find_policy(experiment.policy)(
            n_arms=len(arms),
            cone=experiment.cone,
            context_dim=experiment.context_dim,
            seed=experiment.seed,
            **settings,
        )
    except (TypeError, ValueError, OverflowError, MemoryError) as error:
        raise InvalidError(f"policy: {error}"[:MAX_WORDS]) from None


def _described(experiment: Experiment, arms: Sequence[str]) -> list[list[float]]:
    """The features (K, f) of some arms; an ``InvalidError`` if the policy cannot use them."""
    if "arm_features" not in signature(find_policy(experiment.policy)).parameters:
        raise InvalidError(
            f"arms: policy {experiment.policy} cannot use what describes them. Give names alone, or another policy."
        )
    return [list(experiment.arm_features[arm].values()) for arm in arms]
