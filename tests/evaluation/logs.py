"""Logs for tests, with all that is nasty in them."""

import numpy as np

import conebandit as cb


def random_log(seed=0, n=60, n_arms=3, n_objectives=2, context_dim=2, *, missing=0.0, scale=1.0, known=True):
    """A log of random probabilities, contexts and rewards; nothing is learned."""
    rng = np.random.default_rng(seed)
    chances = 0.7 * rng.dirichlet(np.ones(n_arms), n) + 0.3 / n_arms
    arms = np.array([rng.choice(n_arms, p=row) for row in chances])
    contexts = rng.normal(0.0, scale, (n, context_dim))
    rewards = scale * (rng.normal(size=(n, n_objectives)) + arms[:, None])
    rewards[rng.random(rewards.shape) < missing] = np.nan
    return cb.Log(
        contexts,
        arms,
        rewards,
        chances[np.arange(n), arms],
        cb.Cone.orthant(n_objectives),
        probabilities=chances if known else None,
        arm_names=tuple("abcdefgh"[:n_arms]),
        adaptive=False,
    )


def random_policy(log, seed=1):
    return np.random.default_rng(seed).dirichlet(np.ones(log.n_arms), len(log))
