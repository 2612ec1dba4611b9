"""What every policy offers, and the small types it speaks in."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import repeat
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from conebandit.validate.arguments import Key
from conebandit.validate.arrays import FloatArray
from conebandit.validate.sizes import Sizes


class Decision(NamedTuple):
    """An arm to play.

    Attributes
    ----------
    arm
        Index of the arm.
    propensity
        Probability with which this arm is drawn in this state for this context.
    mask
        Shape (K,), True for arms that are still in the running: all of them if the policy has a floor (``explore``).
    probabilities
        Shape (K,), the probability of every arm in this state for this context: over all keys, so they do not depend
        on the key. They add up to 1 (up to rounding), and the one of ``arm`` is ``propensity``. All policies of this
        library give them; None if a policy of your own does not.

    Notes
    -----
    Other policies can be judged from a log of decisions, by weighting each reward with how much more probable its arm
    is under the other policy (inverse-propensity weighting). That needs support as well as exact probabilities: an arm
    that the other policy plays must have a positive probability here, and a policy that has learned gives most arms
    none. No weighting mends that afterwards. So give the policy that makes the log a floor, ``explore=0.1`` say
    (``benchmarks/results/weights.md`` shows the difference).

    Examples
    --------
    >>> decision = Decision(1, 0.5, np.array([False, True, True]), np.array([0.0, 0.5, 0.5]))
    >>> decision.active, decision.probabilities[decision.arm]
    ((1, 2), np.float64(0.5))
    """

    arm: int
    propensity: float
    mask: NDArray[np.bool_]
    probabilities: FloatArray | None = None

    @property
    def active(self) -> tuple[int, ...]:
        """Arms that are still in the running."""
        return tuple(int(k) for k in np.flatnonzero(self.mask))


class Decisions(NamedTuple):
    """Arms to play in many contexts, row by row what :class:`Decision` says of one.

    Attributes
    ----------
    arms
        Shape (n,), indices of the arms.
    propensities
        Shape (n,), their probabilities.
    masks
        Shape (n, K), True for arms that are still in the running.
    probabilities
        Shape (n, K), the probabilities of all arms.

    Examples
    --------
    >>> import conebandit as cb
    >>> policy = cb.ParetoUCB1(n_arms=2, cone=cb.Cone.orthant(2), context_dim=1)
    >>> decisions = policy.decide_many([[0.1], [0.5], [0.9]], keys=["a", "b", "c"])
    >>> decisions.probabilities.tolist()
    [[0.5, 0.5], [0.5, 0.5], [0.5, 0.5]]
    >>> decisions.arms[1] == policy.decide([0.5], key="b").arm
    np.True_
    """

    arms: NDArray[np.int64]
    propensities: FloatArray
    masks: NDArray[np.bool_]
    probabilities: FloatArray


@dataclass(frozen=True, slots=True)
class Front:
    """Arms that a policy considers undominated in a context, with what it knows about them.

    Attributes
    ----------
    arms
        Their indices, ascending; never empty.
    means
        Shape (len(arms), M), estimated means; nan where nothing is known.
    radii
        Shape (len(arms), M), how far each estimate may be off; inf where nothing is known. They are pointwise: each is
        for its own arm and metric, and the more of them there are, the surer it is that one of them is too small. Those
        of :class:`ConeKernel` are two posterior deviations; its method ``radii`` has others, and some for all at once.
    chances
        Shape (K,), for *every* arm the chance that it is on the front, or essential if there is a resolution; nan until
        something is known. None if a policy does not say it: of those here only :class:`ConeKernel` does.

    Examples
    --------
    >>> front = Front(arms=(0, 2), means=np.array([[0.9, 0.4], [0.5, 0.8]]), radii=np.full((2, 2), 0.1))
    >>> dict(zip(front.arms, front.means.tolist()))
    {0: [0.9, 0.4], 2: [0.5, 0.8]}

    An arm of which little is known has a chance, reported or not:

    >>> import conebandit as cb
    >>> policy = cb.ConeKernel(n_arms=2, cone=cb.Cone.orthant(1), context_dim=1)
    >>> for t in range(20):
    ...     policy.observe([t / 20], 1, [-1.0])
    >>> (policy.front([0.3]).chances > 0.2).all()
    np.True_
    """

    arms: tuple[int, ...]
    means: FloatArray
    radii: FloatArray
    chances: FloatArray | None = None


def chances_at(chances: FloatArray, arms: NDArray[np.int64]) -> FloatArray:
    """Of each row of ``chances`` (n, K), the one of its arm."""
    return chances[np.arange(len(arms)), arms]


def fronts_of(
    flags: NDArray[np.bool_],
    means: FloatArray,
    radii: FloatArray,
    chances: Iterable[FloatArray | None] = repeat(None),
) -> list[Front]:
    """A front for each row: the flagged arms (n, K), with their means and radii, both (n, K, M), and all chances."""
    fronts = []
    for on, mean, radius, chance in zip(flags, means, radii, chances, strict=False):
        arms = np.flatnonzero(on)
        fronts.append(Front(tuple(arms.tolist()), mean[arms], radius[arms], chance))
    return fronts


@runtime_checkable
class Policy(Sizes, Protocol):
    """Any object with these members can be simulated; the service serves policies of the registry.

    ``decide`` must not change the policy, and must give the same answer to the same context and key until the next
    ``observe``.

    Examples
    --------
    >>> import conebandit as cb
    >>> isinstance(cb.RandomArm(n_arms=2, cone=cb.Cone.orthant(2), context_dim=1), cb.Policy)
    True
    """

    def decide(self, context: ArrayLike, key: Key) -> Decision:
        """Arm for a context; ``key`` stands for the randomness of this decision."""
        ...

    def observe(self, context: ArrayLike, arm: int, reward: ArrayLike) -> None:
        """Learn from a reward vector, nan where a metric is not known yet."""
        ...

    def front(self, context: ArrayLike) -> Front:
        """Arms that are undominated by the estimates at a context."""
        ...
