"""The linear algebra of a fit beside NumPy."""

import numpy as np
import pytest
from numba.core.errors import TypingError

from conebandit.kernels.cone_kernel.blocks import COLUMNS, predict_columns
from conebandit.kernels.cone_kernel.fit import (
    add_information,
    add_squares,
    add_unsure,
    count_known,
    covariance,
    draw_weights,
    first_known,
    inverse_root,
    keep_products,
    posterior_mean,
    some_are_partial,
)
from conebandit.kernels.symmetric import multiply_symmetric, multiply_symmetric_by_four


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 7, 8, 13, 21])
def test_linear_algebra_equals_numpy(size):
    rng = np.random.default_rng(size)
    phi, prior = rng.normal(size=(20, size)), rng.uniform(0.1, 2.0, size)
    cross, noise = rng.normal(size=size), 0.3
    precision = phi.T @ phi / noise + np.diag(1 / prior)
    half = np.tril(phi[:8].T @ phi[:8]), np.tril(phi[8:].T @ phi[8:])
    inverse = inverse_root(*half, prior, noise)
    expected = np.linalg.inv(np.linalg.cholesky(precision))
    np.testing.assert_allclose(inverse[0, :size, :size], expected.T, atol=1e-10)
    np.testing.assert_allclose(np.tril(inverse[1, :size, :size]), expected, atol=1e-10)
    np.testing.assert_allclose(inverse_root(sum(half), np.empty((0, 0)), prior, noise)[0], inverse[0], atol=1e-10)
    mean, variances = np.empty((2, size))
    posterior_mean(inverse, cross, noise, mean, variances)
    cov = np.linalg.inv(precision)
    np.testing.assert_allclose(mean, cov @ cross / noise, atol=1e-10)
    np.testing.assert_allclose(variances, np.diag(cov), atol=1e-10)
    normals, got, weights = rng.normal(size=(size, 4)), np.empty((size, size)), np.empty((size, 4))
    covariance(inverse, got)
    draw_weights(inverse, mean, normals, weights)
    np.testing.assert_allclose(got, cov, atol=1e-10)
    np.testing.assert_allclose(weights, mean[:, None] + inverse[0, :size, :size] @ normals, atol=1e-10)


@pytest.mark.parametrize("size", [1, 5, 7, 8, 9, 17, 29])
def test_predictions_are_sums_in_the_order_of_the_features(size):
    rng = np.random.default_rng(size)
    weights, phi, values = rng.normal(size=(size, COLUMNS)), rng.normal(size=size), np.empty(COLUMNS)
    predict_columns(weights, phi, values)
    expected = np.zeros(COLUMNS)
    for j in range(size):
        expected += phi[j] * weights[j]
    np.testing.assert_array_equal(values, expected)


def test_passes_over_samples_equal_numpy():
    rng = np.random.default_rng(0)
    data, chosen = rng.normal(size=(50, 5)), rng.integers(3, size=50)  # d = 2, M = 3
    data[:4, 2:] = np.nan
    assert not some_are_partial(data, 50, 3)
    data[rng.random((50, 5)) < 0.2] = np.nan
    data[:, 4] = np.nan
    assert some_are_partial(data, 50, 3)
    rewards, first, squares = data[:40, 2:], np.empty(3), np.zeros((3, 3))
    first_known(data, 40, first)
    known = [column[~np.isnan(column)] for column in rewards.T]
    np.testing.assert_array_equal(first, [column[0] if len(column) else 0.0 for column in known])
    centre, spread, counts = rng.normal(size=3), rng.uniform(1, 2, 3), np.zeros((3, 3), dtype=np.int64)
    add_squares(data, chosen, 40, centre, spread, squares)
    count_known(data, chosen, 40, counts)
    for k in range(3):
        mine = rewards[chosen[:40] == k]
        np.testing.assert_allclose(squares[k], np.nansum(((mine - centre) / spread) ** 2, axis=0))
        np.testing.assert_array_equal(counts[k], (~np.isnan(mine)).sum(axis=0))


def test_products_of_features_that_stay_are_kept():
    old, new = np.random.default_rng(0).normal(size=(1, 5, 5)), np.zeros((3, 4, 4))
    there, here = np.array([0, 2, 4]), np.array([0, 1, 3])
    keep_products(old, there, here, new)
    expected = np.zeros((3, 4, 4))
    expected[0][np.ix_(here, here)] = old[0][np.ix_(there, there)]
    np.testing.assert_array_equal(new, expected)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 7, 8, 13, 32, 35])
def test_a_symmetric_product_needs_nothing_below_the_blocks_on_the_diagonal(size):
    rng = np.random.default_rng(size)
    matrix, x, product = rng.normal(size=(size, size)), rng.normal(size=size), np.full(size + 1, 7.0)
    matrix += matrix.T
    expected, block = matrix @ x, np.arange(size) // 4
    matrix[block[:, None] > block] = np.nan
    multiply_symmetric(matrix, x, product[:size])
    np.testing.assert_allclose(product[:size], expected, atol=1e-12)
    assert product[size] == 7.0


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 7, 8, 12, 13, 19, 32, 35, 72])
def test_a_symmetric_product_with_four_vectors_is_that_with_each_bit_for_bit(size):
    rng = np.random.default_rng(size)
    matrix, x, products = rng.normal(size=(size, size)), rng.normal(size=(4, size)), np.full((5, size), 7.0)
    block = np.arange(size) // 4
    matrix[block[:, None] > block] = np.nan
    multiply_symmetric_by_four(matrix, x, products[:4])
    one = np.empty(size)
    for vector, product in zip(x, products, strict=False):
        multiply_symmetric(matrix, vector, one)
        np.testing.assert_array_equal(product, one)
    assert (products[4] == 7.0).all()


def test_a_symmetric_product_refuses_arrays_with_gaps():
    with pytest.raises(TypingError, match="contiguous"):
        multiply_symmetric(np.eye(4), np.ones(8)[::2], np.empty(4))


def test_a_symmetric_product_is_summed_in_the_same_order_everywhere():
    """Four partial sums along a row, then those of columns: written out, for the first four rows of eight."""
    rng = np.random.default_rng(0)
    matrix, x, product = rng.normal(size=(8, 8)), rng.normal(size=8), np.empty(8)
    matrix += matrix.T
    multiply_symmetric(matrix, x, product)
    for i in range(4):
        here = 0.0
        for r in range(4):
            here += x[r] * matrix[r, i]
        along = [0.0 + matrix[i, 4 + lane] * x[4 + lane] for lane in range(4)]
        assert product[i] == here + ((along[0] + along[1]) + (along[2] + along[3]))
    for i in range(4, 8):
        there = 0.0
        for r in range(8):
            there += x[r] * matrix[r, i]
        assert product[i] == there + 0.0


@pytest.mark.parametrize("columns", [1, 3])
def test_what_arms_tell_about_effects_equals_numpy(columns):
    rng, size = np.random.default_rng(columns), 5
    places = np.concatenate([np.arange(size), *[np.array([0, 2])] * (columns - 1)])
    here, prior, mean = rng.normal(size=len(places)), rng.uniform(0.1, 2.0, size), rng.normal(size=size)
    root = rng.normal(size=(size, size))
    cov, spread = root @ root.T, rng.normal(size=(size, len(places)))
    precision, total = np.zeros((len(places), len(places))), np.zeros(len(places))
    add_information(here, places, cov, mean, prior, precision, total)
    design = np.zeros((size, len(places)))  # weights of the arm from effects
    design[places, np.arange(len(places))] = here
    inverse = np.diag(1 / prior)
    expected = design.T @ (inverse - inverse @ cov @ inverse) @ design
    np.testing.assert_allclose(np.tril(precision), np.tril(expected), atol=1e-9)
    np.testing.assert_allclose(total, design.T @ inverse @ mean, atol=1e-9)
    normals, weights = rng.normal(size=(len(places), 4)), rng.normal(size=(size, 4))
    unsure, after, more = cov @ inverse @ spread, cov.copy(), weights.copy()
    add_unsure(prior, spread, normals, after, more)
    np.testing.assert_allclose(after, cov + unsure @ unsure.T, atol=1e-9)
    np.testing.assert_allclose(more, weights + unsure @ normals, atol=1e-9)
