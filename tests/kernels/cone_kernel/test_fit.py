"""The linear algebra of a fit beside NumPy."""

import numpy as np
import pytest

from conebandit.kernels.cone_kernel.fit import covariance, draw_weights, inverse_root, posterior_mean


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 7, 8, 13, 21])
def test_linear_algebra_equals_numpy(size):
    rng = np.random.default_rng(size)
    phi, prior = rng.normal(size=(20, size)), rng.uniform(0.1, 2.0, size)
    cross, noise = rng.normal(size=size), 0.3
    precision = phi.T @ phi / noise + np.diag(1 / prior)
    half = np.tril(phi[:8].T @ phi[:8]), np.tril(phi[8:].T @ phi[8:])
    inverse = inverse_root(*half, prior, noise)
    np.testing.assert_allclose(inverse[:size, :size], np.linalg.inv(np.linalg.cholesky(precision)).T, atol=1e-10)
    mean, variances = np.empty((2, size))
    posterior_mean(inverse, cross, noise, mean, variances)
    cov = np.linalg.inv(precision)
    np.testing.assert_allclose(mean, cov @ cross / noise, atol=1e-10)
    np.testing.assert_allclose(variances, np.diag(cov), atol=1e-10)
    normals, got, weights = rng.normal(size=(size, 4)), np.empty((size, size)), np.empty((size, 4))
    covariance(inverse, got)
    draw_weights(inverse, mean, normals, weights)
    np.testing.assert_allclose(got, cov, atol=1e-10)
    np.testing.assert_allclose(weights, mean[:, None] + inverse[:size, :size] @ normals, atol=1e-10)
