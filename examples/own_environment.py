"""An environment of your own: write a class with three methods, check it, and simulate policies in it.

Run it with ``python examples/own_environment.py``; it takes a few seconds.

The environment here is a web experiment. The context is the hour of the day, the arms are three page layouts, and two
metrics are measured: whether a visitor signs up, and how satisfied they are. After 5000 visitors the page is launched
abroad, and most visitors come in what is the evening here.
"""

import numpy as np

import conebandit as cb

LAYOUTS = ("plain", "colourful", "wordy")


class WebExperiment:
    """Hour of the day (0 to 24), three layouts, sign-ups and satisfaction."""

    # The five attributes that every environment has.
    n_arms = 3
    n_objectives = 2
    context_dim = 1
    cone = cb.Cone.orthant(2, names=("sign-ups", "satisfaction"))
    change_points = (5000,)

    # The three methods that every environment has. They work on many rounds at a time, and all randomness comes from
    # the generator that they are given.

    def contexts(self, rng, n, start):
        """Hours of visits start, ..., start + n - 1, counted from 0: shape (n, 1)."""
        visit = np.arange(start, start + n)
        peak = np.where(visit < 5000, 10.0, 19.0)
        return (rng.normal(peak, 4.0) % 24)[:, None]

    def means(self, contexts):
        """Mean metrics of every layout at every hour: (n, 1) -> (n, 3, 2). They must be positive."""
        evening = 0.5 - 0.5 * np.cos(2 * np.pi * (contexts[:, 0] - 7) / 24)  # 0 at 7 in the morning, 1 at 19
        same = np.ones_like(evening)
        plain = [0.6 - 0.3 * evening, 0.5 * same]
        colourful = [0.2 + 0.5 * evening, 0.3 + 0.4 * evening]
        wordy = [0.1 * same, 0.8 - 0.6 * evening]
        return np.stack([np.stack(layout, axis=1) for layout in (plain, colourful, wordy)], axis=1)

    def rewards(self, rng, means):
        """What is measured, around means of any shape (..., 2): a yes or no, and a score."""
        luck = rng.random(means.shape)
        signed_up = luck[..., 0] < means[..., 0]
        score = means[..., 1] + 0.2 * (2 * luck[..., 1] - 1)
        return np.stack([signed_up, score], axis=-1)


def main():
    """Check the environment, then let two policies run in it."""
    environment = WebExperiment()

    cb.check_environment(environment)  # raises an error that lists everything wrong

    shape = {"n_arms": 3, "cone": environment.cone, "context_dim": 1, "bounds": [[0, 24]]}
    policies = {
        # Noise 0.5 is right for anything between 0 and 1; 2 bounds the slope of the means, with the day as unit.
        "tree": cb.ConeTree(**shape, sigma=0.5, holder=2),
        "random arm": cb.RandomArm(**shape),
    }
    runs = {name: cb.simulate(policy, environment, horizon=40_000, seed=1) for name, policy in policies.items()}

    print("Averages after the launch abroad")
    print(f"{'':12}" + "".join(f"{name:>12}" for name in runs))
    for series in ("play", "front", "shortfall", "coverage", "recall", "precision", "lost"):
        averages = (run.average(series, after=environment.change_points[-1]) for run in runs.values())
        print(f"{series:12}" + "".join(f"{average:12.3f}" for average in averages))

    print("\nLayouts that the tree recommends, and those that are undominated in truth")
    tree = runs["tree"].policy
    for hour in (7, 10, 13, 16, 19, 22):
        reported = [LAYOUTS[k] for k in tree.front([hour]).arms]
        truth = cb.pareto_mask(environment.means(np.array([[hour]]))[0], environment.cone)
        print(f"{hour:2}:00  {', '.join(reported):26}{', '.join(np.array(LAYOUTS)[truth])}")


if __name__ == "__main__":
    main()
