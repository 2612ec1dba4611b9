"""Segments: the best question is the best, rules say what they mean, and thresholds are short."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conebandit.experiment.columns import Categorical, Numeric
from conebandit.experiment.declaration import Experiment
from conebandit.experiment.policy import make_policy
from conebandit.experiment.segments import MIN_SHARE, _best_split, _grow, _in_words, _short_between, find_segments

COLUMNS = (Numeric("age", 0.0, 100.0), Categorical("device", ("phone", "desk", "tv")), Numeric("x", -1.0, 1.0))


def drawn(n, n_arms, seed):
    rng = np.random.default_rng(seed)
    x = np.column_stack([rng.random(n), np.eye(3)[rng.integers(0, 3, n)], rng.integers(0, 4, n) / 3])
    return x, rng.random((n, n_arms)) < 0.4, rng


def plain_gini(flags):
    """Sum over arms of n p (1 - p)."""
    return sum(len(flags) * p * (1 - p) for p in flags.mean(axis=0)) if len(flags) else 0.0


@pytest.mark.parametrize("seed", range(5))
def test_the_best_question_explains_most(seed):
    _, on, rng = drawn(80, 3, seed)
    splits, members = rng.random((12, 80)) < 0.5, rng.random(80) < 0.7
    expected = []
    for split in splits:
        yes, no = on[members & split], on[members & ~split]
        small = min(len(yes), len(no)) < max(MIN_SHARE * 80, 1)
        expected.append(-np.inf if small else plain_gini(on[members]) - plain_gini(yes) - plain_gini(no))
    gain, place = _best_split(splits.astype(float), members, on)
    assert place == int(np.argmax(expected))
    assert gain == pytest.approx(max(expected))


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 200), leaves=st.integers(1, 8))
def test_every_context_follows_exactly_one_rule_and_rules_mean_what_they_say(seed, n, leaves):
    x, on, _ = drawn(n, 2, seed)
    found = _grow(COLUMNS, x, on, leaves)
    assert 1 <= len(found) <= leaves
    assert (sum(members.astype(int) for members, _ in found) == 1).all()
    names = np.array(["phone", "desk", "tv"])[x[:, 1:4].argmax(axis=1)]
    values = {"age": 100 * x[:, 0], "x": 2 * x[:, 4] - 1}
    for members, rule in found:
        said = np.ones(n, dtype=bool)
        words = _in_words(rule, COLUMNS)
        for part in [] if words == "everyone" else words.split(" and "):
            said &= understood(part, names, values)
        np.testing.assert_array_equal(said, members, words)


def understood(part, names, values):
    """What a part of a rule says, read as a person would."""
    if part.startswith("device is not "):
        return ~np.isin(names, part.removeprefix("device is not ").split(" or "))
    if part.startswith("device is "):
        return np.isin(names, part.removeprefix("device is ").split(" or "))
    words = part.split(" ")
    if words[1] == "<=":
        return (float(words[0]) <= values[words[2]]) & (values[words[2]] < float(words[4]))
    return values[words[0]] < float(words[2]) if words[1] == "<" else values[words[0]] >= float(words[2])


def test_what_can_be_told_apart_is_told_apart():
    x, _, _ = drawn(400, 2, 0)
    x[:, 0] = x[:, 0].round(1)
    phone = x[:, 1] == 1.0
    on = np.column_stack([phone & (x[:, 0] < 0.5), ~(phone & (x[:, 0] < 0.5))])
    rules = {_in_words(rule, COLUMNS) for _, rule in _grow(COLUMNS, x, on, 6)}
    assert rules == {"age < 50 and device is phone", "age >= 50 and device is phone", "device is not phone"}


def test_where_all_is_the_same_there_is_one_rule():
    x, _, _ = drawn(50, 2, 0)
    on = np.tile([True, False], (50, 1))
    assert [_in_words(rule, COLUMNS) for _, rule in _grow(COLUMNS, x, on, 6)] == ["everyone"]
    assert len(_grow((), np.full((50, 1), 0.5), drawn(50, 2, 1)[1], 6)) == 1


@settings(max_examples=200)
@given(st.floats(-1e12, 1e12), st.floats(-1e12, 1e12))
def test_thresholds_are_above_one_value_and_not_above_the_next(one, other):
    low, high = sorted((one, other))
    if low < high:
        assert low < _short_between(low, high) <= high


def test_thresholds_are_short():
    assert _short_between(39.2, 41.9) == 40.0
    assert _short_between(39.0, 40.0) == 40.0
    assert _short_between(0.123, 0.124) == 0.124


def test_segments_know_their_contexts_and_new_ones_belong_to_exactly_one():
    rng = np.random.default_rng(0)
    context = [{"name": "age", "low": 0, "high": 100}, {"name": "device", "levels": ["phone", "desk"]}]
    declared = {"id": "e", "arms": ["a", "b"], "metrics": [{"name": "m"}], "context": context, "policy": "ConeTree"}
    experiment = Experiment.from_dict(declared)
    policy = make_policy(experiment, experiment.arms)
    x = np.column_stack([rng.random(2000), np.eye(2)[rng.integers(0, 2, 2000)]])
    for row in x:
        arm = int(rng.integers(2))
        policy.observe(row, arm, [float((arm == 1) == (row[0] < 0.5)) + rng.normal(0, 0.1)])
    found = find_segments(experiment, policy, x, 6)
    assert len(found) > 1
    assert [int(segment.has(experiment.columns, x).sum()) for segment in found] == [s.size for s in found]
    new = np.column_stack([rng.random(500), np.eye(2)[rng.integers(0, 2, 500)]])
    assert (sum(segment.has(experiment.columns, new).astype(int) for segment in found) == 1).all()
