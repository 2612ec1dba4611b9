"""What to ask next: the pair of outcomes whose comparison settles most about a set of arms."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike

from conebandit.geometry.inputs import outcome_in_words
from conebandit.geometry.order import BoolArray, Order
from conebandit.kernels.order import TOLERANCE
from conebandit.validate.arrays import FloatArray, as_vectors, magnitude, safe_exponent

MAX_OUTCOMES = 64  # so that a question is found in about a second: time grows with the fourth power


@dataclass(frozen=True)
class Question:
    """Which of two outcomes would you rather have? Printed, it is the question in words.

    Attributes
    ----------
    first, second
        The outcomes, in the units of the objectives.
    positions
        Their rows among the outcomes that were asked about: the points, unless others were given.
    open_pairs
        How many pairs of points are open: both on the front, neither as good as the other.
    left
        How many stay open if the first is preferred, and if the second is.
    names
        Names of the objectives, if they have any.

    Examples
    --------
    >>> import conebandit as cb
    >>> question = cb.Cone.orthant(2).ask([[3, 0], [0, 1]])
    >>> print(question)
    Would you rather have (3, 0) or (0, 1)?
    >>> question.left
    (0, 0)
    """

    first: tuple[float, ...]
    second: tuple[float, ...]
    positions: tuple[int, int]
    open_pairs: int
    left: tuple[int, int]
    names: tuple[str, ...] | None = None

    def __str__(self) -> str:
        sides = (outcome_in_words(dict(enumerate(one)), self.names) for one in (self.first, self.second))
        return f"Would you rather have {' or '.join(sides)}?"


def next_question(cone: Order, points: ArrayLike, outcomes: ArrayLike | None) -> Question | None:
    """See :meth:`conebandit.Cone.ask`."""
    arms = as_vectors(points, "points", cone.dim, (2,))
    front = np.flatnonzero(_on_front(_as_good(cone, arms)))  # a dominated arm stays so whatever is answered
    choices = arms if outcomes is None else as_vectors(outcomes, "outcomes", cone.dim, (2,))
    positions = front if outcomes is None else np.arange(len(choices))
    for name, rows, where in (("points", front, " on the front"), ("outcomes", positions, "")):
        if len(rows) > MAX_OUTCOMES:
            raise ValueError(f"{name} must be at most {MAX_OUTCOMES}{where}; got {len(rows)}. Leave some out.")
    n_open = _open_pairs(_as_good(cone, arms[front]))
    if n_open == 0:
        return None
    pairs = [(i, j) for i, j in combinations(positions.tolist(), 2) if not _is_known(cone, choices[i], choices[j])]
    if not pairs:
        raise ValueError(
            "outcomes hold no pair whose comparison is not known already; give others, such as the points themselves."
        )
    shift = safe_exponent(max(magnitude(arms), magnitude(choices)))
    leads = _Leads(cone, np.ldexp(arms[front], shift))
    choices_shifted = np.ldexp(choices, shift)
    images = choices_shifted @ cone.facets.T
    noise = TOLERANCE * (np.abs(choices_shifted) @ np.abs(cone.facets).T)
    steps = [(images[i] - images[j], np.maximum(noise[i], noise[j])) for i, j in pairs]
    left = [tuple(leads.open_after(sign * step, zero) for sign in (1, -1)) for step, zero in steps]
    best = min(range(len(pairs)), key=lambda q: (max(left[q]), sum(left[q])))
    first, second = (tuple(choices[i].tolist()) for i in pairs[best])
    return Question(first, second, pairs[best], n_open, (left[best][0], left[best][1]), cone.names)


class _Leads:
    """How far each of n points is above each other one on each facet, shape (n, n, F), with room for rounding."""

    def __init__(self, cone: Order, points: FloatArray) -> None:
        images, sizes = points @ cone.facets.T, np.abs(points) @ np.abs(cone.facets).T
        self._room = images[:, None] - images[None] + TOLERANCE * np.maximum(sizes[:, None], sizes[None])

    def open_after(self, step: FloatArray, noise: FloatArray) -> int:
        """Open pairs if a step, as an image on the facets, joins the cone.

        Then p is as good as q iff p - q is an improvement plus t >= 0 such steps, for some t: on every facet
        ``t * step`` is at most the lead. A step is zero on facets where it is at most ``noise`` in size.
        """
        up, down = step > noise, step < -noise
        most = (self._room[..., up] / step[up]).min(axis=-1, initial=np.inf)
        least = (self._room[..., down] / step[down]).max(axis=-1, initial=0.0)
        return _open_pairs((least <= most) & (self._room[..., ~(up | down)] >= 0).all(axis=-1))


def _as_good(cone: Order, points: FloatArray) -> BoolArray:
    """Which of n points are at least as good as which, shape (n, n)."""
    return np.asarray(cone.weakly_dominates(points[:, None], points[None]))


def _is_known(cone: Order, a: FloatArray, b: FloatArray) -> bool:
    return bool(cone.weakly_dominates(a, b) or cone.weakly_dominates(b, a))


def _on_front(as_good: BoolArray) -> BoolArray:
    """Points that no other point beats."""
    return np.asarray(~(as_good & ~as_good.T).any(axis=0))


def _open_pairs(as_good: BoolArray) -> int:
    """Pairs of points on the front of which neither is as good as the other."""
    front = _on_front(as_good)
    return int((~as_good & ~as_good.T)[np.ix_(front, front)].sum()) // 2
