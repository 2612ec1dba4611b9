"""Write the picture of docs/evaluate.md.

python docs/figures/judged_policies.py
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

import conebandit as cb
from conebandit.plots import save
from conebandit.validate.arrays import FloatArray


def by_kidneys(contexts: FloatArray) -> FloatArray:
    """A higher dose for those who bear it."""
    return np.eye(4)[np.where(contexts[:, 1] > 0.5, 2, 1)]


def main() -> None:
    """Write the figure beside this file."""
    env = cb.environments.dose_finding(n_arms=4, start=0, stop=1)
    trial = cb.RandomArm(n_arms=4, cone=env.cone, context_dim=env.context_dim)
    run = cb.simulate(trial, env, horizon=3000, seed=1)
    coin = np.tile([0.5, 0, 0, 0.5], (3000, 1))
    found = cb.evaluate(run, {"lowest": 0, "highest": 3, "a coin": coin, "any": "uniform", "by kidneys": by_kidneys})
    print(found)
    save(found.figure(), Path(__file__).parent / "judged-policies")


if __name__ == "__main__":
    main()
