"""Bets on the mean of bounded values: tests and confidence intervals that stay valid however often one looks.

The method is that of I. Waudby-Smith and A. Ramdas, *Estimating means of bounded random variables by betting*,
Journal of the Royal Statistical Society B 86 (2024) 1-27. Values lie between 0 and 1, and somebody claims that each
of them has, given all before it, a mean of at most ``bound``. Against that one bets a share ``c`` of one's money:
each value multiplies the money by ``1 + c (value / bound - 1)``. If the claim is true, this cannot be expected to
grow, whatever else depends on what, so the money *ever* exceeds ``1 / error`` times what one had with probability
``error`` at most (Ville).

Which share is best depends on how wrong the claim is. So the money is divided evenly over a few of them (``SHARES``).
As the shares do not change, the order of the values does not matter, and a value that is not known yet can be counted
as 0, the most harmless one: the money is then less than it will be. So it does not matter either which values become
known first.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

SHARES = tuple(2.0**-k for k in range(1, 7))
LOSSES = tuple(math.log1p(-share) for share in SHARES)  # what a value of 0 brings, as a logarithm

STEPS = 40  # of a bisection


def log_gains(value: float, bound: float) -> list[float]:
    """What a value brings to each share: by what it multiplies the money, as a logarithm.

    Parameters
    ----------
    value
        From 0 to 1.
    bound
        The mean is claimed to be at most this; above 0, up to 1.

    Examples
    --------
    >>> [round(math.exp(gain), 3) for gain in log_gains(1.0, 0.5)[:3]]
    [1.5, 1.25, 1.125]
    """
    odds = value / bound - 1.0
    return [math.log1p(share * odds) for share in SHARES]


def log_evidence(gains: Sequence[float]) -> float:
    """How much money there is in all, as a logarithm: 0 at the beginning, when every gain is 0.

    Examples
    --------
    >>> log_evidence([0.0] * len(SHARES))
    0.0
    """
    return log_sum(gains) - math.log(len(gains))


def log_sum(logs: Sequence[float]) -> float:
    """The logarithm of a sum, from those of its terms.

    Examples
    --------
    >>> round(log_sum([math.log(2.0), math.log(3.0)]) - math.log(5.0), 12)
    0.0
    """
    largest = max(logs)
    return largest + math.log(sum(math.exp(log - largest) for log in logs))


def confidence_sequence(
    values: Sequence[float],
    range: tuple[float, float],  # noqa: A002  (as a metric calls it)
    error: float,
    weights: Sequence[float] | None = None,
) -> tuple[float, float]:
    """An interval for the mean of values that may be computed anew after each of them.

    If every value has the same mean given those before it, all these intervals together contain it with probability
    ``1 - error`` at least. They are the bounds that bets do not refute, half of the error on each side.

    Parameters
    ----------
    values
        All so far.
    range
        The lowest and the highest value that can be.
    error
        Between 0 and 1.
    weights
        How often each value was seen; once by default. A value between the ends of the range may be replaced by shares
        of both ends, so that the mean stays what it was: that only makes the interval wider.

    Examples
    --------
    >>> low, high = confidence_sequence([0, 1, 1, 0, 1, 1, 1, 1] * 10, (0, 1), 0.05)
    >>> round(low, 2), round(high, 2)
    (0.58, 0.88)
    >>> confidence_sequence([], (0, 1), 0.05)
    (0.0, 1.0)
    """
    low, high = range
    counts = [1.0] * len(values) if weights is None else list(weights)
    scaled = [(value - low) / (high - low) for value in values]
    least = _refuted(scaled, counts, error / 2)
    most = 1.0 - _refuted([1.0 - value for value in scaled], counts, error / 2)
    return low + least * (high - low), low + most * (high - low)


def _refuted(values: Sequence[float], counts: Sequence[float], error: float) -> float:
    """The largest bound that is refuted; 0 if none is. What refutes a bound refutes all that are smaller."""
    refuted, standing = 0.0, 1.0
    for _ in itertools.repeat(None, STEPS):
        bound = (refuted + standing) / 2
        gains = [0.0] * len(SHARES)
        for value, count in zip(values, counts, strict=True):
            gains = [gain + count * more for gain, more in zip(gains, log_gains(value, bound), strict=True)]
        if log_evidence(gains) >= -math.log(error):
            refuted = bound
        else:
            standing = bound
    return refuted
