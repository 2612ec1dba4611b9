"""Kernels of ``ConeKernel``: Bayesian regression on products of cosines for each arm and metric, with a shared prior.

The mean of arm k in metric m is a sum of features with Gaussian weights; ``docs/kernel.md`` says how and why.
Its files, from the bottom: ``constants`` (one table), ``state`` (what is known), ``blocks`` (linear algebra),
``features`` (the cosines and predictions), ``choice`` (from predictions to an arm), ``prior`` and ``fit`` (what
a fit computes), ``steps`` (what a policy calls in every round), ``each_arm`` (what a fit computes for several arms in
one call) and ``many`` (decisions at many contexts). What a policy calls in every round is exposed here.
"""

from conebandit.kernels.cone_kernel.many import choose_many
from conebandit.kernels.cone_kernel.steps import choose, estimate, learn, run

__all__ = ["choose", "choose_many", "estimate", "learn", "run"]
