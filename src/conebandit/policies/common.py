"""What all of our policies share: their arguments, checked, and how they show themselves.

Annotations are evaluated here: subclasses in other files inherit these fields, and cannot look their names up.
"""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field, fields
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from conebandit.geometry.cone import Cone, as_cone
from conebandit.policies.export import export_policy
from conebandit.validate.arguments import (
    as_arm,
    as_count,
    as_number,
    as_resolution,
    as_reward,
    as_seed,
    refuse_extreme,
)
from conebandit.validate.arrays import FloatArray
from conebandit.validate.box import Box

Value = TypeVar("Value")


def setting(default: Value, check: Callable[[Any, str], Value]) -> Value:
    """A setting of a policy, as a field of its class: its default, and the function that checks an argument for it."""
    made: Value = field(default=default, metadata={"check": check})
    return made


@dataclass(eq=False, repr=False)
class CommonPolicy:
    """Arguments that every policy takes; each subclass adds its settings as keyword-only fields."""

    n_arms: int
    cone: Cone
    context_dim: int
    _: KW_ONLY
    seed: int = 0
    bounds: ArrayLike | None = None

    def __post_init__(self) -> None:
        self.n_arms = as_count(self.n_arms, "n_arms")
        self.context_dim = as_count(self.context_dim, "context_dim")
        self.n_objectives = as_cone(self.cone).dim
        self.box = Box(self.context_dim, self.bounds)
        self.bounds = self.box.bounds
        self._seed = as_seed(self.seed)
        for name, check in self._checks().items():
            setattr(self, name, check(getattr(self, name), name))

    @classmethod
    def _checks(cls) -> dict[str, Callable[[Any, str], Any]]:
        return {each.name: each.metadata["check"] for each in fields(cls) if "check" in each.metadata}

    @property
    def settings(self) -> dict[str, Any]:
        """Settings of this kind of policy, by name."""
        return {name: getattr(self, name) for name in self._checks()}

    def _arguments(self) -> dict[str, Any]:
        """Arguments of the constructor that make the same policy, all but the cone."""
        size = {"n_arms": self.n_arms, "context_dim": self.context_dim}
        return {**size, "seed": int(self.seed), "bounds": self.box.bounds.tolist(), **self.settings}

    def clone(self) -> Self:
        """A fresh policy with the same settings, which has learned nothing."""
        return type(self)(cone=self.cone, **self._arguments())

    def _checked(self, context: ArrayLike, arm: int, reward: ArrayLike) -> tuple[FloatArray, int, FloatArray]:
        """An observation in the form that kernels take: a point of the unit cube, an arm, a vector."""
        x = self.box.point(context)
        vector, index = as_reward(reward, self.n_objectives), as_arm(arm, self.n_arms)
        refuse_extreme(vector)
        return x, index, vector

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self._shown().items())
        return f"{type(self).__name__}({shown})"

    def _shown(self) -> dict[str, Any]:
        """What ``repr`` tells."""
        return {"n_arms": self.n_arms, "context_dim": self.context_dim}


@dataclass(eq=False, repr=False, kw_only=True)
class LearningPolicy(CommonPolicy):
    """Arguments that every policy takes beside, if it learns.

    Attributes
    ----------
    explore
        Probability with which any arm is played in place of the policy's choice.
    resolution
        Shape (M,), the smallest difference that matters in each metric.
    """

    explore: float = 0.0
    resolution: ArrayLike = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.explore = as_number(self.explore, "explore", least=0.0, most=1.0)
        self.resolution = as_resolution(self.resolution, self.n_objectives)
        self._resolves = bool(self.resolution.any())

    def export(self, contexts: ArrayLike | None = None, *, max_leaves: int = 64) -> dict[str, Any]:
        """The policy as it is now as a plain decision tree, to be written as JSON and read without this library.

        A tree with constant leaves (``ConeTree`` with preset ``"paper"`` or ``"sound"``) is exported as it is, exactly.
        Any other policy is distilled to a small tree of its probabilities; ``agreement`` says how close it is, as the
        share of probability that both give to the same arms, on contexts that the tree was not grown on.

        Parameters
        ----------
        contexts
            Shape (n, d), contexts like those that the tree will be used for; by default drawn evenly from the bounds.
        max_leaves
            Of a distilled tree.

        Examples
        --------
        >>> import conebandit as cb
        >>> policy = cb.ConeTree(n_arms=2, cone=cb.Cone.orthant(2), context_dim=1, preset="sound")
        >>> exported = policy.export()
        >>> exported["exact"], exported["tree"]
        (True, {'probabilities': [0.5, 0.5]})
        """
        return export_policy(self, contexts, max_leaves)

    def _live_tree(self) -> dict[str, Any] | None:
        """The tree to export, of a policy that is one."""
        return None

    def _arguments(self) -> dict[str, Any]:
        # Left out at their defaults, so that a policy whose own constructor does not take them can be copied and saved.
        own = {"explore": self.explore, "resolution": np.asarray(self.resolution).tolist()}
        return {**super()._arguments(), **{name: value for name, value in own.items() if np.any(value)}}
