"""A clinical trial: five doses, efficacy and toxicity, a dose for each patient, and how well such trials do.

Run it with ``python examples/clinical_trial.py``; it takes some seconds and writes ``clinical_trial.png``. It needs
matplotlib, ``pip install 'conebandit[plot]'``.

Before a trial that learns as it goes is run with patients, it is simulated: many times, with an assumed truth. Here the
drug works better at higher doses, and poor kidneys clear it slowly, so that a dose that most patients bear is toxic for
some. The trial does not know that. It knows what a board has said: a toxic reaction is as bad as the loss of at least
one and at most three responses.
"""

import numpy as np
from matplotlib.figure import Figure

import conebandit as cb
from conebandit.environments import noise, shift

TRIAL = """
id = "dose-finding"
arms = [                             # doses that are alike inform each other
    { name = "10 mg", dose = 10 },
    { name = "20 mg", dose = 20 },
    { name = "40 mg", dose = 40 },
    { name = "60 mg", dose = 60 },
    { name = "80 mg", dose = 80 },
]
policy = { explore = 0.1 }           # a tenth of the patients are randomised to any dose
cone = { tradeoffs = ["one unit of toxicity is worth between 1 and 3 of efficacy"] }

[[metrics]]
name = "efficacy"                    # a response: 1 or 0
range = [0, 1]
resolution = 0.05                    # smaller differences do not matter

[[metrics]]
name = "toxicity"                    # a toxic reaction: 1 or 0
direction = "min"
range = [0, 1]
resolution = 0.05

[[context]]
name = "age"
low = 18
high = 90

[[context]]
name = "kidneys"                     # how well they work, eGFR
low = 15
high = 120
"""
N_PATIENTS = 400
experiment = cb.Experiment.from_toml(TRIAL)
doses = np.array([features["dose"] for features in experiment.arm_features.values()])


def rates(contexts):
    """The assumed truth: rates of responses and of toxic reactions (n, 5) for contexts (n, 2), both from 0 to 1."""
    age, kidneys = contexts[:, :1], contexts[:, 1:]
    exposure = doses * (1.6 - kidneys)
    return 0.8 * exposure / (exposure + 15 + 20 * age), 1 / (1 + np.exp((75 - 20 * age - exposure) / 8))


def rewards(contexts):
    """What a simulation wants: more is better, so toxicity is turned around."""
    responses, reactions = rates(contexts)
    return np.stack([responses, 1 - reactions], axis=2)


def as_table(run):
    """The patients of a simulated trial as a table, as if they had been recorded."""
    age, kidneys = run.contexts.T
    return {
        "arm": [experiment.arms[k] for k in run.arms],
        "age": 18 + 72 * age,
        "kidneys": 15 + 105 * kidneys,
        "efficacy": run.rewards[:, 0],
        "toxicity": 1 - run.rewards[:, 1],
    }


def characteristics(runs):
    """What happens to the patients of some trials, on average."""
    means = np.mean([run.rewards.mean(axis=0) for run in runs], axis=0)
    return {
        "patients who respond": means[0],
        "patients with a toxic reaction": 1 - means[1],
        "patients on a dose of their front": np.mean([run.series["play"] == 0 for run in runs]),
    }


def draw(runs, explanation, truth):
    """Which doses are given in the course of a trial, and what it says at its end about one patient."""
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    colours = [f"{0.85 - 0.75 * k / (len(doses) - 1):.2f}" for k in range(len(doses))]  # higher doses are darker
    blocks = np.array([run.arms for run in runs]).reshape(len(runs), -1, 40)  # of 40 patients each
    shares = [(blocks == k).mean(axis=(0, 2)) for k in range(len(doses))]
    left.stackplot(20 + 40 * np.arange(blocks.shape[1]), shares, labels=experiment.arms, colors=colours)
    left.set(
        title=f"Doses in {len(runs)} trials", xlabel="patient", ylabel="share", ylim=(0, 1), xlim=(20, N_PATIENTS - 20)
    )
    left.legend(loc="lower left", reverse=True)
    for each in explanation.arms:
        efficacy, toxicity = each.estimates["efficacy"], each.estimates["toxicity"]
        errors = [[[mid - low], [high - mid]] for mid, low, high in (efficacy, toxicity)]
        colour = "tab:green" if each.on_front else "tab:gray"
        right.errorbar(efficacy.estimate, toxicity.estimate, errors[1], errors[0], "o", color=colour, alpha=0.8)
        right.annotate(each.arm, (efficacy.estimate, toxicity.estimate), (5, 5), textcoords="offset points")
    right.plot(*truth, "k+", markersize=12)
    right.set(title="One patient: green is on the front, + is true", xlabel="efficacy", ylabel="toxicity")
    figure.savefig("clinical_trial.png", dpi=150)


def main():
    """Declare, simulate one trial and read it, then simulate many."""
    print(experiment, end="\n\n")
    print(experiment.cone.turned(["toxicity"]).describe(), end="\n\n")
    patients = shift.stationary(shift.product(shift.beta(3, 2), shift.beta(3, 2)))
    world = cb.World("trial", patients, rewards, experiment.cone, n_arms=len(doses), noise=noise.Bernoulli())

    # One trial, read as any table of past patients would be.
    run = cb.simulate(cb.Learner(experiment).policy, world, N_PATIENTS, seed=1)
    learner = experiment.learn(as_table(run))
    patient = {"age": 54, "kidneys": 50}
    print(learner.explain(patient), end="\n\n")
    print(learner.segments(max_leaves=4), end="\n\n")
    print(learner.how_many(power=0.8), end="\n\n")

    # Operating characteristics: what happens to the patients of such trials, and how often is the result right?
    policies = {"learns": cb.Learner(experiment).policy, "randomises": cb.RandomArm(len(doses), experiment.cone, 2)}
    trials = {
        name: cb.simulate_many(policy, world, N_PATIENTS, seeds=range(20), resolution=0.05)
        for name, policy in policies.items()
    }
    found = {name: characteristics(runs) for name, runs in trials.items()}
    print(f"{'20 trials of each kind':36}" + "".join(f"{name:>12}" for name in found))
    for what in found["learns"]:
        print(f"{what:36}" + "".join(f"{each[what]:12.0%}" for each in found.values()))

    missed, bad = (
        np.mean([run.average(s, after=N_PATIENTS - 50) for run in trials["learns"]]) for s in ("missed", "bad")
    )
    print(f"At their end, those that learn do not report {missed:.0%} of the doses that matter; {bad:.0%} of what they")
    print("report is worse than another dose by more than the resolution.")

    truth = np.concatenate(rates(experiment.encode(patient)[None]))
    draw(trials["learns"], learner.explain(patient), truth)
    print("\nLook at clinical_trial.png")


if __name__ == "__main__":
    main()
