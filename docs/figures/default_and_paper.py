"""Write the picture of the README: the default policy beside the paper's algorithm, in the paper's experiment.

python docs/figures/default_and_paper.py
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

import conebandit as cb
from conebandit.pages import palette
from conebandit.plots import save
from conebandit.plots.style import new_figure
from conebandit.validate.arrays import FloatArray

N_ARMS, NU, CHANGE_POINT, HORIZON, N_RUNS, WINDOW = 10, 1, 2000, 50_000, 5, 1000
COLOURS = {"a random arm": palette.GREY, "the paper's policy": palette.AMBER, "conebandit's default": palette.GREEN}


def curves() -> dict[str, tuple[FloatArray, FloatArray]]:
    """For each policy play regret, summed up, and error of the report in windows of rounds: a row for each run."""
    env = cb.environments.paper(n_arms=N_ARMS, nu=NU, change_point=CHANGE_POINT)
    size = N_ARMS, env.cone, env.context_dim
    policies: tuple[cb.Policy, ...] = (
        cb.RandomArm(*size),
        cb.ConeTree(*size, preset="paper", delta=1 / HORIZON),
        cb.default_policy(*size),
    )
    found = {}
    for name, policy in zip(COLOURS, policies, strict=True):
        runs = cb.simulate_many(policy, env, HORIZON, seeds=range(N_RUNS), progress=False)
        played = np.array([np.cumsum(run.series["play"]) for run in runs])
        wrong = np.array([run.series["shortfall"] + run.series["front"] for run in runs])
        found[name] = played[:, WINDOW - 1 :: WINDOW], wrong.reshape(N_RUNS, -1, WINDOW).mean(axis=2)
    return found


def draw(ax: Axes, name: str, values: FloatArray) -> None:
    """Mean over runs, with one deviation shaded."""
    rounds = np.arange(WINDOW, HORIZON + 1, WINDOW)
    mean, deviation = values.mean(axis=0), values.std(axis=0, ddof=1)
    ax.fill_between(rounds, mean - deviation, mean + deviation, color=COLOURS[name], alpha=0.15, lw=0)
    ax.plot(rounds, mean, color=COLOURS[name], lw=1.8, label=name)


def main() -> None:
    """Write the figure beside this file."""
    with new_figure(9.6, 3.6) as figure:
        left, right = figure.subplots(1, 2)
        for name, (played, wrong) in curves().items():
            draw(left, name, played)
            draw(right, name, wrong)
            print(f"{name}: play {played[:, -1].mean():.0f} in all, report {wrong[:, -1].mean():.3f} at the end")
        left.set(title="What bad plays have cost so far", xlabel="round", ylabel="play regret, summed up")
        right.set(title="How wrong the reported front is", xlabel="round", ylabel="shortfall + front", ylim=(0, None))
        for ax in (left, right):
            ax.axvline(CHANGE_POINT, color=palette.MUTED, lw=0.8, ls=":")
        handles, labels = left.get_legend_handles_labels()
        figure.legend(handles, labels, ncols=3, loc="outside lower center", frameon=False)
        save(figure, Path(__file__).parent / "default-and-paper")


if __name__ == "__main__":
    main()
