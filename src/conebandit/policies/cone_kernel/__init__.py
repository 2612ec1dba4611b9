"""``ConeKernel``: the policy, and the fitter that learns its model anew from time to time."""

from conebandit.policies.cone_kernel.explanation import Beaten, KernelExplanation
from conebandit.policies.cone_kernel.policy import ConeKernel

__all__ = ["Beaten", "ConeKernel", "KernelExplanation"]
