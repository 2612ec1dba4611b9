"""Draw the pictures of docs/choosing-a-cone.md.

python docs/figures/choosing_a_cone.py
"""

from __future__ import annotations

from pathlib import Path

from conebandit import Cone, plots
from conebandit.reproduce import printed

NAMES = ("efficacy", "safety")


def main() -> None:
    """Write the figures beside this file."""
    here = Path(__file__).parent
    cones = {
        "Narrow: 28 degrees": Cone.from_rays([[1, 0.6], [0.6, 1]], names=NAMES),
        "Orthant: 90 degrees": Cone.orthant(2, names=NAMES),
        "Wide: 1 efficacy is worth 0.4 to 2 safety": Cone.from_tradeoffs(
            "one unit of efficacy is worth between 0.4 and 2 of safety", names=NAMES
        ),
    }
    figure = plots.cone_figure(printed.ARMS, cones, printed.ARM_NAMES)
    plots.save(figure, here / "choosing-a-cone")


if __name__ == "__main__":
    main()
