"""What a ``ConeKernel`` knows: a tuple of arrays, and the positions within the smaller ones.

For each arm and metric the state holds the covariance of the weights of D features and a table of L columns: the
posterior mean and L - 1 draws from the posterior, which are kept up to date by perturbed observations (ensemble
sampling, Lu & Van Roy 2017). The spread of the draws tells which arms may be on the front without a quadratic form for
each; those that may be are then judged by the covariance.

    size      (5,)          OBSERVATIONS; NEXT_WORK, the number of observations at which a fit begins or goes on, NEVER
                            after the last one; FITTED, whether there is a model; FIT_BEGAN, the number of observations
                            at which the fit under way began, 0 if there is none; ROWS that are stored
    orders    (D, d)        order of the cosine of each feature in each coordinate, 0 for none
    parts     (D, Q)        the same as positions in the table of one-dimensional cosines, 0 for none
    weights   (K, M, D, L)  posterior mean and draws
    covs      (K, M, D, D)  posterior covariance
    prior     (M, D)        prior variance of the weights, in units of the amplitude of a metric
    beyond    (M,)          prior variance of a mean by the features that are left out, in units of the spread
    agreement (M, M)        of metrics: log odds that arms are in the same order in two of them, 0 if as by chance
    cheap     (K,)          what each arm costs more than the best one, at most, where it costs least (CHEAP_SHARE of
                            contexts)
    scales    (5, M)        CENTRE and SPREAD of the rewards; NOISE of all arms together, AMPLITUDE of what sets an arm
                            apart from the others, SHARED amplitude of what they have in common; two more rows if arms
                            are described by features: LEVEL_OF_ARMS and DESCRIBED amplitude of what these say about
                            the constant and about all other weights: variances in units of the spread
    noise     (K, M)        variance of the noise of each arm, in units of the spread
    relevance (M, d)        how much of the variance of a metric each coordinate explains
    lengths   (M, d)        position of the length scale of each coordinate in ``prior.LENGTHS``
    smoothness (M, d)       the same of its smoothness in ``prior.NUS``
    constant  (M,)          prior variance of the weight of the constant feature, in units of the amplitude
    counts    (K, M)        observations of each arm and metric
    fitted_to (M,)          how many values of each metric the last fit had, or 0 if too few to know its scale
    data      (n, d + M)    contexts and rewards, of all observations until the last fit is done, then of none
    chosen    (n,)          their arms
    facets    (F, M)        of the cone
    slack     (F,)          the resolution on each facet: smaller differences do not matter
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from conebandit.kernels.types import Floats, Ints

OBSERVATIONS, NEXT_WORK, FITTED, FIT_BEGAN, ROWS = range(5)
NEVER = int(np.iinfo(np.int64).max)
CENTRE, SPREAD, NOISE, AMPLITUDE, SHARED, LEVEL_OF_ARMS = range(6)
DESCRIBED = LEVEL_OF_ARMS + 1


class State(NamedTuple):
    """See the top of this file."""

    size: Ints
    orders: Ints
    parts: Ints
    weights: Floats
    covs: Floats
    prior: Floats
    beyond: Floats
    agreement: Floats
    cheap: Floats
    scales: Floats
    noise: Floats
    relevance: Floats
    lengths: Ints
    smoothness: Ints
    constant: Floats
    counts: Ints
    fitted_to: Ints
    data: Floats
    chosen: Ints
    facets: Floats
    slack: Floats
