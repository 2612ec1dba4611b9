"""Whether arms that are ahead in one metric tend to be ahead in another, and what that says about arms in doubt.

Predictions of metrics are as independent as their noise. But where metrics are traded for each other, as with doses
that do more good and more harm, an arm that is clearly ahead in one metric is behind in the other nearly always, and
hardly ever beaten in both. The *agreement* of two metrics is the log odds of two arms to be in the same order in both,
compared with chance: 0 if the metrics have nothing to do with each other. It is learned from all pairs of arms, see
``policies/cone_kernel/agreement.py``, and counts in the chances that are told.
"""

from __future__ import annotations

import math

import numpy as np

from conebandit.kernels.compile import compiled
from conebandit.kernels.cone_kernel.state import SPREAD
from conebandit.kernels.types import Floats


@compiled
def odds_of_facets(agreement: Floats, facets: Floats, scales: Floats) -> float:
    """How many times as probable as by the predictions alone it is that an arm is beaten: on all facets of the cone.

    An arm in doubt is nearly tied on one facet, and behind on the others. So this is the agreement of a facet with the
    others, on average over facets. That of two facets is the mean over metrics, each metric counting by its part in
    the image of a facet, with its sign. For the orthant these are the metrics themselves.
    """
    rows, metrics = facets.shape
    total, parts = 0.0, np.empty((rows, metrics))
    for j in range(rows):
        size = 0.0
        for m in range(metrics):
            parts[j, m] = facets[j, m] * scales[SPREAD, m]
            size += abs(parts[j, m])
        for m in range(metrics):
            parts[j, m] /= size
    for j in range(rows):
        for i in range(j):
            for m in range(metrics):
                for n in range(metrics):
                    total += parts[j, m] * parts[i, n] * agreement[m, n]  # on the diagonal it is 0
    return math.exp(2.0 * total / rows)


@compiled
def add_agreeing(images: Floats, agreement: Floats, agreeing: Floats) -> None:
    """Add to ``agreeing`` (M, M) how many pairs of arms are expected to be in the same order in two metrics.

    ``images`` (K, M, C) are perturbed predictions. The share of columns in which a pair agrees is its chance by these
    alone, which counts by the odds of the ``agreement`` (M, M). A tie is half of either.
    """
    arms, metrics, columns = images.shape
    for m in range(metrics):
        for n in range(m):
            odds, total = math.exp(agreement[m, n]), 0.0
            for a in range(arms):
                for b in range(a):
                    same = 0.0
                    for c in range(columns):
                        product = (images[a, m, c] - images[b, m, c]) * (images[a, n, c] - images[b, n, c])
                        same += 0.5 * ((product > 0.0) + (product >= 0.0))
                    total += odds * same / (odds * same + columns - same)
            agreeing[m, n] += total
            agreeing[n, m] += total
