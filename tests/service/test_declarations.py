"""Declarations: what is accepted is quick to read, whatever it is."""

import time

import numpy as np
import pytest

from conebandit.service.errors import InvalidError
from conebandit.service.experiment import MOST_CONE_NUMBERS, MOST_CONE_ROWS, Experiment, _most_facets

MOST_SECONDS = 5.0  # about one, where nothing else runs


def declared(metrics=1, **changes):
    return {"id": "e", "arms": ["a", "b"], "metrics": [{"name": f"m{i}"} for i in range(metrics)], **changes}


def most_rows(kind, dim):
    return max(n for n in range(MOST_CONE_ROWS + 1) if _most_facets(n, dim) * dim <= MOST_CONE_NUMBERS[kind])


@pytest.mark.parametrize("kind", ["rays", "weights", "facets"])
@pytest.mark.parametrize("dim", [4, 6, 9, 12, 16])
def test_a_cone_of_the_most_rows_is_read_within_seconds(kind, dim):
    """Rows in general position; the same ones again take no time, and one more is refused."""
    rows = np.random.default_rng(dim).random((most_rows(kind, dim) + 1, dim)).round(15).tolist()
    start = time.perf_counter()
    first = Experiment.from_dict(declared(dim, cone={kind: rows[:-1]}))
    assert time.perf_counter() - start < MOST_SECONDS
    again = Experiment.from_dict(declared(dim, cone={kind: rows[:-1]}))
    assert again.cone is first.cone, "a log that is folded anew does not pay for it again"
    with pytest.raises(InvalidError, match=rf"cone.{kind} (gives {len(rows)} rows|must be a list of 1 to 64)"):
        Experiment.from_dict(declared(dim, cone={kind: rows}))


def test_the_bound_on_facets_is_reached_by_cyclic_cones():
    for dim, n in [(2, 9), (3, 9), (4, 9), (5, 9), (6, 9), (6, 6)]:
        rows = [[t**k for k in range(dim)] for t in range(1, n + 1)]
        cone = Experiment.from_dict(declared(dim, cone={"rays": rows})).cone
        assert len(cone.facets) == _most_facets(n, dim), (dim, n)
