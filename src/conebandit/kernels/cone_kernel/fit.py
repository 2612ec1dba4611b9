"""The posterior of the weights from all samples: sums over samples, then linear algebra for each arm and metric."""

from __future__ import annotations

import numpy as np

from conebandit.kernels.compile import compiled, in_place
from conebandit.kernels.cone_kernel.blocks import (
    add_four_products,
    add_four_to_two,
    add_products,
    add_rows,
    add_symmetric_row,
    add_transposed,
    cholesky,
    column,
    invert,
    write_transposed,
)
from conebandit.kernels.cone_kernel.constants import BLOCK
from conebandit.kernels.cone_kernel.features import highest_order, write_features
from conebandit.kernels.types import Bools, Floats, Ints


@compiled
def add_samples(
    parts: Ints,
    data: Floats,
    chosen: Ints,
    first: int,
    last: int,
    fresh: Bools,
    origin: Floats,
    gram: Floats,
    cross: Floats,
) -> None:
    """Add samples ``first``, ..., ``last`` - 1 to the sums that a fit needs.

    These are the sums of phi phi' in ``gram`` (K, P, D, D), in its lower triangles, and those of phi times reward minus
    ``origin`` in ``cross`` (K, M, D). Samples of which all metrics are known count in place 0 of the second axis of
    ``gram``, for all metrics at once; others in place 1 + m if metric m is known. Only entries are touched whose row or
    column is a ``fresh`` feature. Every entry is one sum in the order of the samples, so that it does not matter in how
    many calls it was added up. Complete samples of an arm wait in a queue and are added four at once; at the end zeros
    fill it up, which change nothing.
    """
    arms, objectives, features = cross.shape
    dim = data.shape[1] - objectives
    cosines, alone = np.empty(1 + dim * highest_order(dim)), np.empty((1, features))
    queue, waiting = np.empty((arms, BLOCK, features)), np.empty(arms, dtype=np.int64)
    waiting[:] = 0
    columns = _places(fresh)
    for t in range(first, last):
        k = chosen[t]
        known = 0
        for m in range(objectives):
            known += not np.isnan(data[t, dim + m])
        if known == 0:
            continue
        phi = queue[k, waiting[k]] if known == objectives else alone[0]
        write_features(parts, data[t, :dim], cosines, phi)
        for m in range(objectives):
            target = data[t, dim + m] - origin[m]
            if not np.isnan(target):
                for j in columns:
                    cross[k, m, j] += target * phi[j]
                if known < objectives:
                    add_products(gram[k, 1 + m], alone, 1, fresh, columns)
        if known == objectives:
            waiting[k] += 1
            if waiting[k] == BLOCK:
                if columns.size == features:
                    add_four_products(gram[k, 0], queue[k])
                else:
                    add_products(gram[k, 0], queue[k], BLOCK, fresh, columns)
                waiting[k] = 0
    for k in range(arms):
        if columns.size == features and waiting[k]:
            queue[k, waiting[k] :] = 0.0
            add_four_products(gram[k, 0], queue[k])
        else:
            add_products(gram[k, 0], queue[k], waiting[k], fresh, columns)


@compiled
def _places(flags: Bools) -> Ints:
    """Where flags are set."""
    found, count = np.empty(flags.size, dtype=np.int64), 0
    for j in range(flags.size):
        if flags[j]:
            found[count] = j
            count += 1
    return found[:count]


@in_place
def keep_products(old: Floats, there: Ints, here: Ints, new: Floats) -> None:
    """Copy the sums of products of features that stay: of an arm, from (P, D, D) to one with other features."""
    for p in range(min(old.shape[0], new.shape[0])):
        for j in range(here.size):
            for i in range(here.size):
                new[p, here[j], here[i]] = old[p, there[j], there[i]]


@in_place
def first_known(data: Floats, n: int, first: Floats) -> None:
    """Write the first known reward of each metric (M,) among ``n`` samples; 0 if there is none."""
    dim = data.shape[1] - first.size
    for m in range(first.size):
        first[m] = 0.0
        for t in range(n):
            if not np.isnan(data[t, dim + m]):
                first[m] = data[t, dim + m]
                break


@in_place
def some_are_partial(data: Floats, n: int, objectives: int) -> bool:
    """Whether some, but not all, metrics are known of one of ``n`` samples."""
    dim = data.shape[1] - objectives
    for t in range(n):
        known = 0
        for m in range(objectives):
            known += not np.isnan(data[t, dim + m])
        if 0 < known < objectives:
            return True
    return False


@in_place
def add_squares(data: Floats, chosen: Ints, n: int, centre: Floats, spread: Floats, squares: Floats) -> None:
    """Add squared rewards of ``n`` samples, in units of their spread, from their centre, to the sums of arms (K, M)."""
    dim = data.shape[1] - centre.size
    for t in range(n):
        for m in range(centre.size):
            target = (data[t, dim + m] - centre[m]) / spread[m]
            if not np.isnan(target):
                squares[chosen[t], m] += target * target


@in_place
def count_known(data: Floats, chosen: Ints, n: int, counts: Ints) -> None:
    """Add to ``counts`` (K, M) how often each metric of each arm is known among ``n`` samples."""
    dim = data.shape[1] - counts.shape[1]
    for t in range(n):
        for m in range(counts.shape[1]):
            counts[chosen[t], m] += not np.isnan(data[t, dim + m])


def inverse_root(complete: Floats, partial: Floats, prior: Floats, noise: float) -> Floats:
    """Inverse of R, upper triangular, and its transpose; R'R is the posterior precision of the weights of one arm.

    That is, R'R = (``complete`` + ``partial``) / ``noise`` + diag(1 / ``prior``): the first two are sums of phi phi'
    over samples of which all metrics, and only some, are known, in lower triangles; the second one may be empty. The
    result has a multiple of four rows; those beyond the number of features have no meaning, nor have entries above the
    diagonal of the transpose.
    """
    padded = -(-prior.size // BLOCK) * BLOCK
    both = np.zeros((2, padded, padded))
    write_inverse_root(complete, partial, prior, noise, both[0], both[1])
    return both


@in_place
def write_inverse_root(
    complete: Floats, partial: Floats, prior: Floats, noise: float, inverse: Floats, root: Floats
) -> None:
    """Write the inverse of the root and its transpose; both come as zeros."""
    features, padded = prior.size, root.shape[0]
    add_transposed(root, complete, 1.0 / noise)
    if partial.size:
        add_transposed(root, partial, 1.0 / noise)
    for j in range(features):
        root[j, j] += 1.0 / prior[j]
    for j in range(features, padded):
        root[j, j] = 1.0
    cholesky(root)
    invert(root, inverse)
    write_transposed(inverse, root)  # it is not needed any more


@in_place
def posterior_mean(inverse: Floats, cross: Floats, noise: float, mean: Floats, variances: Floats) -> None:
    """Write mean and variances of the weights, given what :func:`inverse_root` gives."""
    features, solved = cross.size, variances  # each place is needed for one, and then for the other
    mean[:], solved[:] = 0.0, 0.0
    for j in range(features):
        target, row, rest = cross[j] / noise, inverse[0, j, j:], solved[j:]
        for i in range(rest.size):
            rest[i] += target * row[i]
    for j in range(features):
        share, row = solved[j], inverse[1, j]
        variances[j] = 0.0
        for i in range(j + 1):
            mean[i] += share * row[i]
            variances[i] += row[i] * row[i]


def covariance(inverse: Floats, cov: Floats) -> None:
    """Write the covariance of the weights (D, D), given what :func:`inverse_root` gives."""
    write_covariance(inverse, np.zeros(inverse.shape[1:]), cov)


@in_place
def write_covariance(inverse: Floats, padded: Floats, cov: Floats) -> None:
    """The same; ``padded``, with as many rows as the inverse, comes as zeros."""
    features = cov.shape[0]
    for first in range(0, padded.shape[0], BLOCK):
        rows = inverse[1, first : first + BLOCK]
        p, q, r, s = rows[0], rows[1], rows[2], rows[3]
        for j in range(0, first + BLOCK, 2):
            one, other = padded[j, : j + 2], padded[j + 1, : j + 2]
            add_four_to_two(one, other, column(rows, j), column(rows, j + 1), p, q, r, s)
    for first in range(0, features, BLOCK):
        last = min(first + BLOCK, features)
        for i in range(last):
            for j in range(max(first, i), last):
                value = padded[j, i]
                cov[j, i] = value
                cov[i, j] = value


@in_place
def draw_weights(inverse: Floats, mean: Floats, normals: Floats, weights: Floats) -> None:
    """Write mean and draws: column 0 of ``normals`` (D, L) is 0, the others are standard normal."""
    features = mean.size
    for j in range(features):
        weights[j, :] = mean[j]
        add_rows(weights[j], inverse[0, j, j:features], normals[j:])


@in_place
def add_information(
    here: Floats, places: Ints, cov: Floats, mean: Floats, prior: Floats, precision: Floats, total: Floats
) -> None:
    """Add what an arm tells about effects to the lower triangle of their precision (S, S), and to ``total`` (S,).

    ``here`` (S,) is how much of each effect there is at the arm, ``places`` (S,) the feature whose weight it is part
    of. If the weights of the arm have this ``cov`` and ``mean`` given a prior of mean 0 and variances ``prior``, T,
    then, with the arm's own weights integrated out, the precision of their prior mean grows by
    inv(T) - inv(T) cov inv(T), and precision times mean, which is ``total``, by inv(T) mean.
    """
    for a in range(places.size):
        j = places[a]
        row, own, ones = precision[a], cov[j], here[a]
        for b in range(a + 1):
            row[b] -= ones * here[b] * (own[places[b]] / (prior[j] * prior[places[b]]))
        for b in range(a + 1):
            if places[b] == j:
                row[b] += ones * here[b] * (1.0 / prior[j])
        total[a] += ones * (mean[j] / prior[j])


@compiled
def add_unsure(prior: Floats, spread: Floats, normals: Floats, cov: Floats, weights: Floats) -> None:
    """Add what is not known of the effects to the covariance of the weights of an arm, and to its draws.

    ``spread`` (D, S) times its transpose is the covariance of what the effects add up to at the arm, which has
    the prior variances ``prior``, T: so cov inv(T) spread comes on top of the arm's own weights.
    ``normals`` (S, L) are 0 in column 0, the mean, and standard normal in the others.
    """
    features, effects = spread.shape
    scaled, unsure, shares = np.empty((features, features)), np.empty((effects, features)), np.empty(features)
    unsure[:] = 0.0
    for j in range(features):
        for i in range(features):
            scaled[j, i] = cov[j, i] / prior[j]
    for e in range(effects):
        known = 0  # if there are no effects but the shared ones, the spread is an upper triangle
        for j in range(features):
            shares[j] = spread[j, e]
            known = j + 1 if shares[j] != 0.0 else known
        add_rows(unsure[e], shares[:known], scaled)
    column = np.empty(effects)
    for j in range(features):
        for e in range(effects):
            column[e] = unsure[e, j]
        add_rows(weights[j], column, normals)
        add_rows(cov[j, : j + 1], column, unsure)
        for i in range(j):
            cov[i, j] = cov[j, i]


def squared_errors(gram: Floats, cross: Floats, squares: Floats, weights: Floats) -> Floats:
    """Sum of squared errors of the posterior means (K, M, D) on the samples of each arm and metric, from sums: (K, M).

    ``cross`` (K, M, D) are sums of features times targets, ``squares`` (K, M) of squared targets.
    """
    left = squares.copy()
    _subtract_fitted(gram, cross, weights, np.empty(weights.shape[2]), left)
    return left


@in_place
def _subtract_fitted(gram: Floats, cross: Floats, weights: Floats, fitted: Floats, left: Floats) -> None:
    """Turn the sums of squared targets, ``left`` (K, M), into those of errors; ``fitted`` (D,) is to write on."""
    arms, objectives, features = weights.shape
    for k in range(arms):
        for m in range(objectives):
            fitted[:] = 0.0
            for j in range(features):
                left[k, m] -= 2.0 * weights[k, m, j] * cross[k, m, j]
                add_symmetric_row(gram[k, 0, j], weights[k, m, j], fitted, j)
                if gram.shape[1] > 1:
                    add_symmetric_row(gram[k, 1 + m, j], weights[k, m, j], fitted, j)
            for j in range(features):
                left[k, m] += fitted[j] * weights[k, m, j]
            left[k, m] = max(left[k, m], 0.0)
