"""Contextual bandits with vector rewards, a preference cone and a shifting population.

Examples
--------
>>> import conebandit as cb
>>> cone = cb.Cone.orthant(2)
>>> cb.pareto_mask([[0.9, 1.2], [1.4, 0.6], [0.8, 0.9]], cone)
array([ True,  True, False])
"""

from conebandit._version import __version__
from conebandit.cone import Cone
from conebandit.gap import additive_gap, dominance_distance, gap, hausdorff, log_hausdorff
from conebandit.pareto import pareto_mask

__all__ = [
    "Cone",
    "__version__",
    "additive_gap",
    "dominance_distance",
    "gap",
    "hausdorff",
    "log_hausdorff",
    "pareto_mask",
]
