"""From predictions to an arm: each rule beside its plain twin."""

import numpy as np
import pytest

from conebandit.kernels.cone_kernel.choice import (
    deviations_of_differences,
    find_front,
    find_reported,
    find_worthwhile,
    pick,
    write_images,
)
from conebandit.kernels.cone_kernel.constants import REPORT_CHANCE, REPORT_CHANCE_ON_FRONT
from conebandit.kernels.cone_kernel.state import CENTRE, SPREAD

from ...plain_cone_kernel import CONES, plain_front, plain_worth


@pytest.mark.parametrize("tie", [-0.1, 0.0, 0.7, 1.5])
def test_front_equals_its_twin(tie):
    rng = np.random.default_rng(1)
    for _ in range(200):
        y, sd = rng.normal(size=(6, 2)), rng.uniform(0.05, 0.8, (6, 2))
        reported, deviations = np.empty(6, dtype=np.bool_), np.empty((6, 6, 2))
        deviations_of_differences(sd**2, np.arange(6), deviations)
        find_front(y[:, :, None], deviations, tie, reported)
        expected = plain_front(y, sd, tie)
        assert expected.any()
        np.testing.assert_array_equal(reported, expected)


@pytest.mark.parametrize("cone", ["orthant", "narrow", "half-plane", "scalar", "three"])
def test_worthwhile_arms_equal_their_twin(cone):
    rng, facets = np.random.default_rng(4), CONES[cone].facets
    metrics, found = facets.shape[1], []
    for _ in range(200):
        scales = rng.uniform(0.2, 2.0, (4, metrics))
        values = rng.normal(size=(5, metrics, 1)) + rng.uniform(0.1, 2) * rng.normal(size=(5, metrics, 9))
        rewards = scales[CENTRE][:, None] + scales[SPREAD][:, None] * values
        front, uncertainty, nearby = rng.random(5) < 0.4, rng.uniform(0, 1, 5), rng.uniform(1, 1000)
        y, worth, chances = np.empty((5, len(facets), 9)), np.empty(5, dtype=np.bool_), np.empty(5)
        write_images(facets, scales, values, y)
        np.testing.assert_allclose(y, np.einsum("fm,kmc->kfc", facets, rewards), atol=1e-12)
        find_worthwhile(facets, scales, values, y, front, uncertainty, nearby, worth, chances)
        size = np.hypot(scales[CENTRE], scales[SPREAD])
        given = {"unit": np.abs(facets) @ size, "size": size, "uncertainty": uncertainty, "nearby": nearby}
        expected, on = plain_worth(rewards[:, :, 0], y[:, :, 1:], front, **given)
        np.testing.assert_array_equal(worth, expected)
        np.testing.assert_allclose(chances, on)
        shown = np.empty(5, dtype=np.bool_)
        find_reported(front, on, shown)
        likely = on >= np.where(front, REPORT_CHANCE_ON_FRONT, REPORT_CHANCE)
        np.testing.assert_array_equal(shown, likely if likely.any() else front)
        found += (worth & ~front).tolist()
    assert any(found), "some arm is worthwhile without being on the front"


@pytest.mark.parametrize("tie", [0.0, 0.8])
def test_pick_equals_its_twin(tie):
    rng = np.random.default_rng(5)
    for _ in range(200):
        y, sd = rng.normal(size=(5, 2, 1)) + rng.normal(size=(5, 2, 9)), rng.uniform(0.1, 1.0, (5, 2))
        front, uncertainty, deviations = rng.random(5) < 0.5, rng.uniform(0, 1, 5), np.empty((5, 5, 2))
        front[rng.integers(5)] = True
        worth = front | (rng.random(5) < 0.5)
        deviations_of_differences(sd**2, np.arange(5), deviations)
        chances, fronts = np.zeros(5), []
        for c in range(1, 9):
            kept = worth & plain_front(y[:, :, c], sd, tie)
            kept = kept if kept.any() else front
            if c % 2 == 0:
                kept = np.arange(5) == np.argmax(np.where(kept, uncertainty, -1.0))
            fronts.append(np.flatnonzero(kept))
            chances[kept] += 1 / (8 * kept.sum())
        for u in rng.random(5):
            found = np.empty(5)
            arm = pick(y, deviations, tie, uncertainty, front, worth, u, found)
            those = fronts[int(8 * u)]
            assert arm == those[int((8 * u - int(8 * u)) * len(those))]
            assert found == pytest.approx(chances)
