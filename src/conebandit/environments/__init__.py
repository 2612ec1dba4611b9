"""Environments: where contexts come from, what arms do there, and how noisy it is. One file each."""

from conebandit.environments.dose_finding import dose_finding
from conebandit.environments.hausdorff import hausdorff_example
from conebandit.environments.paper import paper
from conebandit.environments.piecewise import piecewise
from conebandit.environments.smooth import smooth

__all__ = ["dose_finding", "hausdorff_example", "paper", "piecewise", "smooth"]
