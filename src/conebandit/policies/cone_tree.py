"""Trees over contexts: three algorithms behind one name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Self

from numpy.typing import ArrayLike, NDArray

from conebandit.kernels.tree import ARM
from conebandit.policies.adaptive_tree import AdaptiveTree
from conebandit.policies.compiled import CompiledPolicy
from conebandit.policies.dyadic_tree import DyadicTree
from conebandit.policies.explanation import Explanation
from conebandit.policies.layout import Layout
from conebandit.policies.merging import Samples
from conebandit.policies.streamed_tree import StreamedAdaptiveTree, StreamedTree
from conebandit.validate import storage
from conebandit.validate.arguments import MAX_REWARD, as_number, as_positive
from conebandit.validate.arrays import FloatArray

Preset = Literal["paper", "sound", "adaptive"]
History = Literal["exact", "stream"]

MIN_DELTA = 1e-300  # its inverse is multiplied by the number of arms and objectives

_CONSTANTS = ("delta", "sigma", "beta", "holder")


class _Default(float):
    """A default, which can be told from the same number when somebody gives it."""


_DELTA, _BETA = _Default(0.05), _Default(1.0)


@dataclass(eq=False, repr=False, kw_only=True)
class ConeTree(CompiledPolicy):
    """Tree policy of the paper (Algorithm 1), for any cone, number of arms and (few) context dimensions.

    Contexts are sorted into dyadic bins. A bin is split in 2^d when it has seen enough contexts, and its samples are
    dealt anew. In every bin arms are eliminated that cannot be on the front; among the others one is drawn uniformly.

    Parameters
    ----------
    n_arms
        Number of arms, K.
    cone
        The preference cone; its dimension is the number of objectives, M.
    context_dim
        Number of context coordinates, d, at most 10 (any number for ``"adaptive"``).
    preset
        ``"sound"`` eliminates an arm only if another one is better on every facet of the cone even when all estimates
        are at their worst, with radii that hold for all bins and rounds at once: with probability 1 - delta no arm is
        lost that is undominated anywhere in a bin (``docs/sound.md``). ``"paper"`` is Algorithm 1 as printed, with all
        constants 1 and the printed elimination rule, which is not sound; it is here to be compared with.
        ``"adaptive"`` keeps the tree and the optimism but learns noise and smoothness from the data
        (``docs/adaptive.md``); it promises less, learns much faster, and takes none of the constants below.
    history
        ``"exact"`` keeps every sample, so that bins that are split deal them anew. ``"stream"`` keeps none: bins count
        ahead for the parts that they may be split into, and what came before they began to is known to larger bins
        alone. Memory no longer grows with the observations, and is at most 256 MB; regret is about the same
        (``docs/decisions/0015-trees-without-samples.md``).
    seed
        Seed of the policy's own randomness.
    delta
        Probability of error, 0.05 by default. The paper uses 1 / horizon.
    sigma
        Noise level: rewards are sub-Gaussian with this parameter. Only for ``"sound"``; 1 by default.
    beta, holder
        Smoothness: means differ by at most ``holder * distance ** beta`` (sup norm, contexts scaled to the unit cube).
        Both are 1 by default; ``holder`` only for ``"sound"``.
    bounds
        Shape (d, 2), range of each context coordinate; the unit cube by default.
    explore
        Probability with which any arm is played, each with the same chance, in place of the policy's choice; 0 by
        default. So every arm has at least the probability ``explore / n_arms``, which a log needs if other policies are
        to be judged by it.
    resolution
        The smallest difference that matters: one number, or one for each objective, in its units; 0 by default. It
        changes what is reported, not what is played: arms are left out that another one makes inessential by the
        estimates, being at least as good up to the resolution on every facet and better by more on one.

    Examples
    --------
    >>> import conebandit as cb
    >>> policy = cb.ConeTree(n_arms=3, cone=cb.Cone.orthant(2), context_dim=1, preset="sound", seed=0)
    >>> decision = policy.decide([0.3], key=17)
    >>> policy.observe([0.3], decision.arm, [0.9, 0.4])
    >>> policy.front([0.3]).arms
    (2,)

    >>> policy = cb.ConeTree(n_arms=3, cone=cb.Cone.orthant(2), context_dim=20, preset="adaptive")
    >>> policy.observe([0.5] * 20, 0, [900.0, -4.0])      # any scale
    >>> policy
    ConeTree(n_arms=3, context_dim=20, preset='adaptive', n_observations=1)

    >>> policy = cb.ConeTree(n_arms=3, cone=cb.Cone.orthant(2), context_dim=1, history="stream")
    >>> policy.observe([0.3], 0, [0.9, 0.4])
    >>> sorted(policy.state())                            # no data
    ['links', 'moments', 'size', 'tallies']
    """

    preset: Preset = "sound"
    history: History = "exact"
    delta: float = _DELTA
    sigma: float | None = None
    beta: float = _BETA
    holder: float | None = None

    def __post_init__(self) -> None:
        self._algorithm = self._make_algorithm()
        super().__post_init__()

    def _make_algorithm(self) -> DyadicTree | AdaptiveTree:
        """The algorithm of the preset, with the constants that it takes."""
        if self.history not in ("exact", "stream"):
            raise ValueError(f"history must be 'exact' or 'stream'; got {self.history!r}.")
        stream = self.history == "stream"
        if self.preset == "adaptive":
            values = {name: getattr(self, name) for name in _CONSTANTS}
            given = [name for name, value in values.items() if value is not None and not isinstance(value, _Default)]
            if given:
                raise ValueError(
                    f"{', '.join(given)} cannot be given to preset 'adaptive', which learns what it needs from the "
                    "data; leave it out, or use preset 'sound'."
                )
            return StreamedAdaptiveTree() if stream else AdaptiveTree()
        if self.preset not in ("paper", "sound"):
            raise ValueError(f"preset must be 'paper', 'sound' or 'adaptive'; got {self.preset!r}.")
        sound = self.preset == "sound"
        if not sound and not (self.sigma is None and self.holder is None):
            raise ValueError("sigma and holder are for preset 'sound'; preset 'paper' has all constants 1, as printed.")
        self.delta = as_number(self.delta, "delta", least=MIN_DELTA, below=1.0)
        self.beta = as_number(self.beta, "beta", above=0.0, most=1.0)
        self.sigma, self.holder = _in_reach(self.sigma, "sigma"), _in_reach(self.holder, "holder")
        make = StreamedTree if stream else DyadicTree
        return make(sound, self.delta, self.sigma, self.beta, self.holder)

    # Elsewhere these four belong to the class; here they depend on the preset.

    @property
    def _kernels(self) -> Any:
        return self._algorithm.kernels

    @property
    def _query(self) -> Any:
        return self._algorithm.query

    @property
    def _observe_rows(self) -> Any:
        return self._algorithm.kernels.learn_rows

    @property
    def _layout(self) -> Layout:  # type: ignore[override]
        return self._algorithm.layout

    def _own_sizes(self) -> dict[str, int]:
        return self._algorithm.sizes(self)

    def _given(self) -> dict[str, NDArray[Any]]:
        return self._algorithm.given(self)

    # ---- what it knows ------------------------------------------------------------------------------------------

    @property
    def n_leaves(self) -> int:
        """Number of bins that are not split."""
        return self._algorithm.n_leaves(self._state)

    @property
    def noise(self) -> FloatArray:
        """Shape (M,), deviation of the noise in each metric as preset ``"adaptive"`` estimates it; nan before."""
        if not isinstance(self._algorithm, AdaptiveTree):
            raise AttributeError(f"preset {self.preset!r} does not estimate the noise; only 'adaptive' does.")
        return self._algorithm.noise(self._state)

    def explain(self, context: ArrayLike) -> Explanation:
        """The path of bins to a context, the arms still active there, and why the others are not.

        Parameters
        ----------
        context
            Shape (d,), within the bounds.
        """
        return self._algorithm.explain(self, self._state, context)

    def _live_tree(self) -> dict[str, Any] | None:
        return self._algorithm.tree(self, self._state) if isinstance(self._algorithm, DyadicTree) else None

    def _merged(self, other: Self, start: Self) -> Self:
        if "data" not in self._state._fields:
            raise TypeError(
                "a ConeTree with history='stream' cannot be merged: it keeps no samples to deal to the bins of another "
                "tree. Use history='exact', or learn from all rows in one place: its method learn takes many files."
            )
        first = _samples(start)
        mine, theirs = _samples(self).after(first, "this policy"), _samples(other).after(first, "other")
        if not len(mine.arms):
            return self.clone()._with(other.state())
        merged = self.copy()
        self._algorithm.add(merged, theirs)
        return merged

    # ---- arguments and files ------------------------------------------------------------------------------------

    @property
    def settings(self) -> dict[str, Any]:
        """Settings by name, as the constructor takes them: each preset has its own."""
        taken = {"sound": _CONSTANTS, "paper": ("delta", "beta"), "adaptive": ()}[self.preset]
        # Samples that are kept are not spoken of: so files are as they were when there was nothing else.
        history = {"history": self.history} if self.history == "stream" else {}
        return {"preset": self.preset, **history, **{name: getattr(self, name) for name in taken}}

    @property
    def _kind(self) -> str:
        return "AdaptiveTree" if type(self) is ConeTree and self.preset == "adaptive" else super()._kind

    def _options(self) -> dict[str, Any]:
        options = self._arguments()
        if self._kind == "AdaptiveTree":
            del options["preset"]  # the kind says it
        if self.preset == "adaptive":
            return options
        return {**options, "sigma": self.sigma, "holder": self.holder}

    @classmethod
    def _restore(cls, kind: str, options: dict[str, Any], arrays: storage.Arrays) -> Self:
        if kind == "AdaptiveTree":
            options["preset"] = "adaptive"
        elif options["preset"] == "paper":
            del options["sigma"], options["holder"]  # which it does not take; they are 1
        return super()._restore(kind, options, arrays)

    def _shown(self) -> dict[str, Any]:
        shown = super()._shown()
        seen = shown.pop("n_observations")
        history = {"history": self.history} if self.history == "stream" else {}
        return {**shown, "preset": self.preset, **history, "n_observations": seen}


def _samples(policy: ConeTree) -> Samples:
    """The rows that a tree has learned from."""
    n, state = policy.n_observations, policy._state
    return Samples(state.data[:n], state.chain[:n, ARM])


def _in_reach(value: float | None, name: str) -> float:
    """A positive number, 1 by default, that no reward in units of it can overflow."""
    number = 1.0 if value is None else as_positive(value, name)
    if number > MAX_REWARD:
        raise ValueError(f"{name} must be at most {MAX_REWARD:g}; got {value!r}. Give rewards in other units.")
    return number
