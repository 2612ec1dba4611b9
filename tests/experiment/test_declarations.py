"""Declarations: what is accepted is quick to read, and whatever is refused is refused in words."""

import math
import time
from datetime import date
from pathlib import Path

import numpy as np
import pytest

from conebandit.experiment.cones import MAX_CONE_NUMBERS, MAX_CONE_ROWS, most_facets
from conebandit.experiment.declaration import Experiment
from conebandit.experiment.errors import InvalidError
from conebandit.experiment.policy import make_policy, policy_names

MAX_SECONDS = 5.0  # about one, where nothing else runs


def declared(metrics=1, **changes):
    return {"id": "e", "arms": ["a", "b"], "metrics": [{"name": f"m{i}"} for i in range(metrics)], **changes}


def most_rows(kind, dim):
    return max(n for n in range(MAX_CONE_ROWS + 1) if most_facets(n, dim) * dim <= MAX_CONE_NUMBERS[kind])


@pytest.mark.parametrize("kind", ["rays", "weights", "facets"])
@pytest.mark.parametrize("dim", [4, 6, 9, 12, 16])
def test_a_cone_of_the_most_rows_is_read_within_seconds(kind, dim):
    """Rows in general position; the same ones again take no time, and one more is refused."""
    rows = np.random.default_rng(dim).random((most_rows(kind, dim) + 1, dim)).round(15).tolist()
    start = time.perf_counter()
    first = Experiment.from_dict(declared(dim, cone={kind: rows[:-1]}))
    assert time.perf_counter() - start < MAX_SECONDS
    again = Experiment.from_dict(declared(dim, cone={kind: rows[:-1]}))
    assert again.cone is first.cone, "a log that is folded anew does not pay for it again"
    with pytest.raises(InvalidError, match=rf"cone.{kind} (gives {len(rows)} rows|must be a list of 1 to 64)"):
        Experiment.from_dict(declared(dim, cone={kind: rows}))


def test_the_bound_on_facets_is_reached_by_cyclic_cones():
    for dim, n in [(2, 9), (3, 9), (4, 9), (5, 9), (6, 9), (6, 6)]:
        rows = [[t**k for k in range(dim)] for t in range(1, n + 1)]
        cone = Experiment.from_dict(declared(dim, cone={"rays": rows})).cone
        assert len(cone.facets) == most_facets(n, dim), (dim, n)


def nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


NEVER = [
    10**400,
    -(10**400),
    math.nan,
    math.inf,
    -math.inf,
    float("1e400"),
    nested(500),
    nested(100_000),
    date(2026, 1, 1),
]
NUMBERS = {  # where a number may stand in a declaration
    "window": lambda v: declared() | {"metrics": [{"name": "m", "window": v}]},
    "default": lambda v: declared() | {"metrics": [{"name": "m", "window": 1, "default": v}]},
    "worst": lambda v: declared() | {"metrics": [{"name": "m", "direction": "min", "worst": v}]},
    "low": lambda v: declared(context=[{"name": "x", "low": v, "high": 1}]),
    "high": lambda v: declared(context=[{"name": "x", "low": 0, "high": v}]),
    "missing": lambda v: declared(context=[{"name": "x", "low": 0, "high": 1, "missing": v}]),
    "context[0].missing": lambda v: declared(context=[{"name": "x", "levels": ["a"], "missing": v}]),
    "seed": lambda v: declared(seed=v),
    "wedge": lambda v: declared(2, cone={"wedge": v}),
    "rays": lambda v: declared(2, cone={"rays": [[1, 0], [0, v]]}),
    "facets": lambda v: declared(2, cone={"facets": [[1, 0], [0, v]]}),
    "weights": lambda v: declared(cone={"weights": [{"m0": v}]}),
    "weight_ranges": lambda v: declared(2, cone={"weight_ranges": {"m0": [0, v], "m1": [0, 1]}}),
    "delta": lambda v: declared(policy={"name": "ConeTree", "preset": "sound", "delta": v}),
    "sigma": lambda v: declared(policy={"name": "ConeTree", "preset": "sound", "sigma": v}),
    "width": lambda v: declared(policy={"name": "ParetoUCB1", "width": v}),
    "ridge": lambda v: declared(policy={"name": "LinearParetoUCB", "ridge": v}),
    "bins": lambda v: declared(policy={"name": "BinnedParetoUCB", "bins": v}),
    "explore": lambda v: declared(policy={"name": "ConeTree", "explore": v}),
    "n_features": lambda v: declared(policy={"name": "ConeKernel", "n_features": v}),
}


@pytest.mark.parametrize("place", NUMBERS)
def test_a_number_that_is_none_is_refused_in_words(place):
    for value in NEVER:
        with pytest.raises(InvalidError) as refusal:
            make_policy(Experiment.from_dict(NUMBERS[place](value)), ["a", "b"])
        message = str(refusal.value)
        assert place in message or "must consist of texts, numbers" in message, message
        assert len(message) <= 500


@pytest.mark.parametrize(
    ("odd", "says"),
    [
        ({1, 2}, r"policy\.x\[1\] is \{1, 2\}, a set\."),
        (np.True_, r"policy\.x\[1\] is .*True.*, a bool"),
        (range(10**9), r"policy\.x\[1\] is range\(0, 1000000000\), a range\."),
        (1j, r"policy\.x\[1\] is 1j, a complex\."),
        (date(2026, 1, 1), r"policy\.x\[1\] is 2026-01-01, a date or time\."),
    ],
)
def test_what_a_declaration_cannot_hold_is_named(odd, says):
    with pytest.raises(InvalidError, match=f"must consist of texts, numbers, lists and tables.*: {says}"):
        Experiment.from_dict(declared(policy={"name": "ParetoUCB1", "x": (1, odd), "path": Path("here")}))


def test_numbers_of_numpy_may_be_declared():
    wanted = declared(seed=3, policy={"name": "ParetoUCB1", "width": 0.5})
    given = declared(seed=np.int64(3), policy={"name": "ParetoUCB1", "width": np.float32(0.5)})
    assert Experiment.from_dict(given).declaration == Experiment.from_dict(wanted).declaration


def test_settings_that_would_overflow_are_refused():
    for value in (1e308, 10**30, 5e-324):
        with pytest.raises(InvalidError, match=r"policy\.ridge must be between 1e-15 and 1e"):
            Experiment.from_dict(NUMBERS["ridge"](value))


def test_every_policy_takes_a_floor():
    for name in policy_names():
        made = make_policy(Experiment.from_dict(declared(policy={"name": name, "explore": 0.1})), ["a", "b"])
        assert made.explore == 0.1
    assert make_policy(Experiment.from_dict(declared(policy={"explore": 1})), ["a", "b"]).explore == 1.0
    with pytest.raises(InvalidError, match=r"policy: explore must be a number, at least 0 and at most 1; got 1\.5"):
        make_policy(Experiment.from_dict(declared(policy={"explore": 1.5})), ["a", "b"])


def test_levels_are_found_in_every_spelling():
    """'é' is one letter or two, and which of them a caller's keyboard makes nobody sees."""
    column = {"name": "city", "levels": ["Orléans", "Paris"], "unknown": "zeros"}
    experiment = Experiment.from_dict(declared(context=[column]))
    composed, decomposed = "Orl\u00e9ans", "Orle\u0301ans"
    assert composed != decomposed
    for city in (composed, decomposed):
        assert experiment.encode({"city": city}).tolist() == [1.0, 0.0]
    assert experiment.encode({"city": "\uff30aris"}).tolist() == [0.0, 1.0]
    assert experiment.encode({"city": "Rome"}).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("entry", ["a", True, 1e99])
def test_a_bad_number_in_a_cone_is_named_once(entry):
    with pytest.raises(InvalidError, match=r"^an entry of cone\.rays must be a number"):
        Experiment.from_dict(declared(2, cone={"rays": [[1, 0], [0, entry]]}))


def test_entries_without_a_value_are_not_written_as_toml():
    metric = {"name": "m", "units": None, "window": None}
    made = Experiment.from_dict({"id": "e", "arms": ["a", "b"], "metrics": [metric]})
    assert Experiment.from_toml(made.to_toml()).metrics == made.metrics
