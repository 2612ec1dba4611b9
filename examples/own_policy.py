"""A policy of your own: write a class with three methods, check it, and simulate it.

Run it with ``python examples/own_policy.py``; it takes a few seconds.

The policy here is epsilon-greedy for vector rewards. It cuts the first context coordinate into four bins and keeps the
average reward vector of every arm in every bin. Mostly it plays an arm whose averages no other arm dominates, and now
and then any arm.
"""

import random

import numpy as np

import conebandit as cb


class EpsilonGreedy:
    """Running means of all arms on a few bins of the first context coordinate, which lies between 0 and 1."""

    def __init__(self, n_arms, cone, context_dim, *, n_bins=4, epsilon=0.1, seed=0):
        # The three attributes that every policy has.
        self.n_arms = n_arms
        self.n_objectives = cone.dim
        self.context_dim = context_dim
        # All else is our own.
        self.cone, self.n_bins, self.epsilon, self.seed = cone, n_bins, epsilon, seed
        self.counts = np.zeros((n_bins, n_arms, cone.dim))
        self.sums = np.zeros((n_bins, n_arms, cone.dim))

    # ---- the three methods that every policy has -------------------------------------------------------------------

    def decide(self, context, key):
        """Choose an arm. The key stands for the randomness, so that nothing changes when we are asked twice."""
        best = self._front_arms(self._bin(context))
        chances = np.full(self.n_arms, self.epsilon / self.n_arms)
        chances[best] += (1 - self.epsilon) / len(best)
        luck = random.Random(f"{self.seed} {key}")
        arm = luck.choices(range(self.n_arms), weights=chances)[0]
        everyone = np.ones(self.n_arms, dtype=bool)  # this policy never rules out an arm for good
        return cb.Decision(arm, float(chances[arm]), everyone)

    def observe(self, context, arm, reward):
        """Learn from one reward vector; an entry is nan if that metric is not known."""
        where, reward = self._bin(context), np.asarray(reward, dtype=float)
        if arm not in range(self.n_arms):
            raise ValueError(f"arm must be an integer from 0 to {self.n_arms - 1}; got {arm!r}.")
        if reward.shape != (self.n_objectives,):
            raise ValueError(f"reward must have {self.n_objectives} entries; got {reward!r}.")
        known = ~np.isnan(reward)
        self.counts[where, arm, known] += 1
        self.sums[where, arm, known] += reward[known]

    def front(self, context):
        """Report the arms that are undominated by our averages, their means, and how far these may be off."""
        where = self._bin(context)
        arms = self._front_arms(where)
        counts, sums = self.counts[where, arms], self.sums[where, arms]
        with np.errstate(divide="ignore", invalid="ignore"):  # nothing seen: mean nan, radius inf
            return cb.Front(tuple(arms.tolist()), sums / counts, 1 / np.sqrt(counts))

    # ---- our own helpers -------------------------------------------------------------------------------------------

    def _bin(self, context):
        context = np.asarray(context, dtype=float)
        if context.shape != (self.context_dim,) or not ((context >= 0) & (context <= 1)).all():
            raise ValueError(f"context must be {self.context_dim} numbers between 0 and 1; got {context!r}.")
        return min(int(context[0] * self.n_bins), self.n_bins - 1)

    def _front_arms(self, where):
        """Arms not seen in this bin, as long as there are any; then those that no other arm dominates."""
        unseen = (self.counts[where] == 0).any(axis=1)
        if unseen.any():
            return np.flatnonzero(unseen)
        return np.flatnonzero(cb.pareto_mask(self.sums[where] / self.counts[where], self.cone))


def main():
    """Check the policy, then compare it with a random arm in the paper's experiment."""
    environment = cb.environments.paper(n_arms=5, nu=1, change_point=2000, sigma=0.3)
    shape = {"n_arms": 5, "cone": environment.cone, "context_dim": environment.context_dim}
    policies = {"epsilon-greedy": EpsilonGreedy(**shape), "random arm": cb.RandomArm(**shape)}

    cb.check_policy(policies["epsilon-greedy"])  # raises an error that lists everything wrong

    runs = {name: cb.simulate(policy, environment, horizon=6000, seed=1) for name, policy in policies.items()}
    print(f"Averages after the change point, {environment.name}")
    print(f"{'':12}" + "".join(f"{name:>16}" for name in runs))
    for series in ("play", "front", "shortfall", "coverage", "recall", "precision", "lost"):
        averages = (run.average(series, after=environment.change_points[-1]) for run in runs.values())
        print(f"{series:12}" + "".join(f"{average:16.3f}" for average in averages))


if __name__ == "__main__":
    main()
