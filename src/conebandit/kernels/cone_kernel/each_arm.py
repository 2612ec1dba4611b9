"""What a fit computes for each arm, several arms in one call: then little time is spent between calls.

With few features an arm takes microseconds, which is about what a call from Python costs; and two threads that hand
Python's lock to each other after every call keep each other waiting.
"""

from __future__ import annotations

import numpy as np

from conebandit.kernels.compile import compiled, in_place
from conebandit.kernels.cone_kernel.blocks import add_rows
from conebandit.kernels.cone_kernel.constants import BLOCK
from conebandit.kernels.cone_kernel.fit import (
    add_information,
    add_unsure,
    draw_weights,
    posterior_mean,
    write_covariance,
    write_inverse_root,
)
from conebandit.kernels.cone_kernel.state import State
from conebandit.kernels.cone_kernel.steps import agreeing_at, costs_at
from conebandit.kernels.types import Floats, Ints


@in_place
def clear(matrix: Floats) -> None:
    """Set all entries to 0."""
    for j in range(matrix.shape[0]):
        row = matrix[j]
        for i in range(row.size):
            row[i] = 0.0


@in_place
def write_posterior_root(gram: Floats, m: int, nothing: Floats, prior: Floats, noise: float, inverse: Floats) -> None:
    """What :func:`~.fit.inverse_root` gives for metric ``m`` of an arm with sums ``gram`` (P, D, D)."""
    clear(inverse[0])
    clear(inverse[1])
    partial = gram[1 + m] if gram.shape[0] > 1 else nothing
    write_inverse_root(gram[0], partial, prior, noise, inverse[0], inverse[1])


@compiled
def posterior_of_arms(
    first: int,
    last: int,
    m: int,
    gram: Floats,
    cross: Floats,
    prior: Floats,
    noise: Floats,
    at_arms: Floats,
    places: Ints,
    means: Floats,
    variances: Floats,
    covs: Floats,
    precision: Floats,
    total: Floats,
) -> None:
    """Means, variances (K, M, D) and covariances (K, D, D) of the weights of some arms in metric ``m``.

    As if the effects were 0; what the arms tell about these is added to their ``precision`` and ``total``.
    """
    padded = -(-prior.size // BLOCK) * BLOCK
    inverse, room, nothing = np.empty((2, padded, padded)), np.empty((padded, padded)), np.empty((0, 0))
    for k in range(first, last):
        write_posterior_root(gram[k], m, nothing, prior, noise[k, m], inverse)
        posterior_mean(inverse, cross[k, m], noise[k, m], means[k, m], variances[k, m])
        clear(room)
        write_covariance(inverse, room, covs[k])
        add_information(at_arms[k], places, covs[k], means[k, m], prior, precision, total)


@compiled
def posterior_of_effects(
    precision: Floats, total: Floats, prior: Floats, mean: Floats, variances: Floats, root: Floats
) -> None:
    """Mean and variances (S,) of the effects, and a root (S, S) of their covariance, from what arms tell about them."""
    size, padded = prior.size, -(-prior.size // BLOCK) * BLOCK
    inverse, nothing = np.empty((2, padded, padded)), np.empty((0, 0))
    clear(inverse[0])
    clear(inverse[1])
    write_inverse_root(precision, nothing, prior, 1.0, inverse[0], inverse[1])
    posterior_mean(inverse, total, 1.0, mean, variances)
    for j in range(size):
        for i in range(size):
            root[j, i] = inverse[0, j, i]


@compiled
def add_common(
    first: int,
    last: int,
    m: int,
    at_arms: Floats,
    places: Ints,
    effects: Floats,
    prior: Floats,
    covs: Floats,
    common: Floats,
    means: Floats,
) -> None:
    """Write what the ``effects`` (S,) add up to at some arms, in metric ``m``; add what it changes to their means."""
    shares = np.empty(prior.size)
    for k in range(first, last):
        here = common[k, m]
        for j in range(here.size):
            here[j] = 0.0
        for s in range(places.size):
            here[places[s]] += at_arms[k, s] * effects[s]
        for j in range(here.size):
            shares[j] = here[j] / prior[j]
        add_rows(means[k, m], shares, covs[k])


@compiled
def draw_for_arms(
    first: int,
    gram: Floats,
    prior: Floats,
    noise: Floats,
    means: Floats,
    at_arms: Floats,
    places: Ints,
    roots: Floats,
    normals: Floats,
    covs: Floats,
    weights: Floats,
) -> None:
    """Covariances and draws of as many pairs of arm and metric, from number ``first`` on, as there are ``normals``.

    ``prior`` (M, D) are variances of the arms' own weights, ``roots`` (M, S, S) of the covariances of the effects;
    ``normals`` (n, D + S, L) are 0 in column 0, the mean.
    """
    objectives, features = prior.shape
    padded = -(-features // BLOCK) * BLOCK
    inverse, room, nothing = np.empty((2, padded, padded)), np.empty((padded, padded)), np.empty((0, 0))
    spread = np.empty((features, places.size))
    for i in range(normals.shape[0]):
        k, m = (first + i) // objectives, (first + i) % objectives
        write_posterior_root(gram[k], m, nothing, prior[m], noise[k, m], inverse)
        clear(room)
        write_covariance(inverse, room, covs[k, m])
        draw_weights(inverse, means[k, m], normals[i, :features], weights[k, m])
        clear(spread)
        for s in range(places.size):
            row, root, here = spread[places[s]], roots[m, s], at_arms[k, s]
            for e in range(row.size):
                row[e] += here * root[e]
        add_unsure(prior[m], spread, normals[i, features:], covs[k, m], weights[k, m])


@compiled
def costs_at_each(state: State, seed: np.uint64, contexts: Floats, costs: Floats) -> None:
    """What :func:`~.steps.costs_at` writes at each of some contexts (n, d)."""
    for i in range(contexts.shape[0]):
        costs_at(state, seed, contexts[i], costs[i])


@compiled
def add_agreeing_at_each(state: State, seed: np.uint64, contexts: Floats, agreeing: Floats) -> None:
    """Add what :func:`~.steps.agreeing_at` does at each of some contexts (n, d)."""
    for i in range(contexts.shape[0]):
        agreeing_at(state, seed, contexts[i], agreeing)
