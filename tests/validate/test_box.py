"""The box of contexts: its bounds are checked once, and contexts outside are refused with the coordinate."""

import numpy as np
import pytest

from conebandit.validate.box import Box, as_bounds


def test_bounds_default_to_the_unit_cube():
    np.testing.assert_array_equal(as_bounds(None, 3), [[0, 1]] * 3)
    assert Box(3).is_unit
    assert len(Box(3)) == 3


def test_bounds_are_a_copy():
    given = np.array([[0.0, 2.0]])
    box = as_bounds(given, 1)
    given[0, 1] = 9.0
    np.testing.assert_array_equal(box, [[0, 2]])


@pytest.mark.parametrize(
    ("bounds", "says"),
    [
        ([[0, 1]], r"bounds must have shape \(2, 2\)"),
        ([0, 1], r"bounds must have shape \(2, 2\)"),
        ([[0, 1], [1, 1]], "lowest below highest"),
        ([[0, 1], [2, 1]], "lowest below highest"),
        ([[0, 1], [np.nan, 1]], "a finite"),
        ([[0, 1], [0, np.inf]], "a finite"),
        ([[0, 1], [-1e308, 1e308]], "finite difference"),
    ],
)
def test_bad_bounds_are_refused(bounds, says):
    with pytest.raises(ValueError, match=says):
        as_bounds(bounds, 2)


def test_contexts_are_scaled_and_those_outside_are_refused():
    box = Box(2, [[0, 10], [-1, 1]])
    np.testing.assert_array_equal(box.point([5, 0]), [0.5, 0.5])
    np.testing.assert_array_equal(box.points(np.array([[0.0, -1.0], [10.0, 1.0]])), [[0, 0], [1, 1]])
    with pytest.raises(ValueError, match=r"context\[1\] must lie in \[-1, 1\]; got 2.0"):
        box.point([5, 2])
    with pytest.raises(ValueError, match=r"context\[0\] must lie in \[0, 10\]; got nan"):
        box.points(np.array([[5.0, 0.0], [np.nan, 0.0]]))
    with pytest.raises(ValueError, match=r"context must have shape \(2,\)"):
        box.point([5])
