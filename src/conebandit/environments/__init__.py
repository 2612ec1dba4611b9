"""Environments: where contexts come from, what arms do there, and how noisy it is. One file each."""

from conebandit.environments.dose_finding import dose_finding
from conebandit.environments.hausdorff import hausdorff_example
from conebandit.environments.paper import paper
from conebandit.environments.piecewise import piecewise
from conebandit.environments.smooth import smooth
from conebandit.environments.table import from_table
from conebandit.environments.trials import actg175, rand_hie
from conebandit.environments.warfarin import warfarin

__all__ = [
    "actg175",
    "dose_finding",
    "from_table",
    "hausdorff_example",
    "paper",
    "piecewise",
    "rand_hie",
    "smooth",
    "warfarin",
]
