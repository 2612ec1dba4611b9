"""Looks and samples that were never in a store."""

import numpy as np

from conebandit.experiment.declaration import Experiment
from conebandit.experiment.policy import make_policy, with_policy
from conebandit.service.dashboard.counts.tally import Sample
from conebandit.service.dashboard.looks import Look

DAY = 86_400_000
DOSES = {
    "id": "doses",
    "arms": ["placebo", "low", "high"],
    "metrics": [{"name": "response", "units": "points"}, {"name": "toxicity", "direction": "min", "range": [0, 1]}],
    "context": [
        {"name": "age", "low": 20, "high": 80},
        {"name": "stage", "levels": ["early", "late"], "unknown": "zeros"},
        {"name": "weight", "low": 40, "high": 120},
    ],
    "policy": {"name": "LinearParetoUCB"},
}


def a_look(declaration=DOSES, observations=200, seed=0):
    """An experiment whose policy has learned something: more of an arm is better for the young."""
    experiment = with_policy(Experiment.from_dict(declaration))
    policy, rng = make_policy(experiment, experiment.arms), np.random.default_rng(seed)
    for x in some_contexts(experiment, observations, seed):
        arm = int(rng.integers(policy.n_arms))
        policy.observe(x, arm, rng.normal(arm * (0.6 - x[0]), 0.1, policy.n_objectives))
    return Look(
        experiment=experiment,
        policy=policy,
        served=dict.fromkeys(experiment.arms, True),
        events=10,
        version=observations,
        at=0,
        observations=observations,
        stage="running",
        mode="live",
        revising=False,
        learned=dict.fromkeys(experiment.metric_index, observations),
        barred=frozenset(),
    )


def some_contexts(experiment, n, seed=0):
    rng, parts = np.random.default_rng(seed), []
    for column in experiment.columns:
        width = column.width
        if width == 1:
            parts.append(rng.random((n, 1)))
        else:
            parts.append(np.vstack([np.eye(width), np.zeros((1, width))])[rng.integers(0, width + 1, n)])
    return np.hstack(parts) if parts else np.full((n, 1), 0.5)


def a_sample(look, n=300, seed=1, days=10):
    """Decisions at even times over some days."""
    rng = np.random.default_rng(seed)
    return Sample(
        seq=np.arange(1, n + 1),
        at=np.linspace(0, days * DAY - 1, n).astype(np.int64),
        x=some_contexts(look.experiment, n, seed),
        arm=rng.integers(0, look.policy.n_arms, n),
        propensity=np.ones(n),
        visit=np.ones(n, dtype=np.int64),
    )
