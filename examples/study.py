"""A study: a policy of your own against two of ours, over seeds, with paired differences.

Run it with ``python examples/study.py``; it takes a few seconds. It needs ``pip install 'conebandit[data]'``.

For a study of your own, write the table below into a file, ``study.toml``, and run ``conebandit study run study.toml``:
that uses all cores, can be stopped at any time, and goes on where it was.
"""

import sys
import tempfile
from pathlib import Path

import conebandit as cb

STUDY = {
    "policies": ["default", "random", {"name": "own_policy:EpsilonGreedy", "grid": {"epsilon": [0.05, 0.3]}}],
    "environments": [{"name": "paper", "n_arms": 5, "sigma": 0.3, "change_point": 500}],
    "horizon": 1500,
    "seeds": 5,
}


def main():
    """Run the study in this process, then print what was found."""
    sys.path.insert(0, str(Path(__file__).parent))  # own_policy.py is there; a study file finds what is beside it

    with tempfile.TemporaryDirectory() as folder:
        study = cb.run_study(STUDY, folder, backend="sequential")
        print(f"{len(study)} runs, {study.n_missing} missing")

        print("\nPlay regret per round after the shift, average over seeds with a 95 % interval")
        for row in study.averages("play").to_dicts():
            print(f"{row['policy']:42} {row['mean']:.4f}  {row['low']:.4f} to {row['high']:.4f}")

        print("\nMinus the default policy, paired by seed; the intervals hold all together with 95 %")
        for row in study.differences("play", reference="default").to_dicts():
            print(f"{row['policy']:42} {row['difference']:+.4f}  {row['low_all']:+.4f} to {row['high_all']:+.4f}")


if __name__ == "__main__":
    main()
