"""Logs and policies: what is accepted, and what is refused with which words."""

import numpy as np
import pandas
import pytest

import conebandit as cb
from tests.evaluation.logs import random_log

GOOD = {
    "contexts": [[0.1], [0.2]],
    "arms": [0, 1],
    "rewards": [[1.0, 2.0], [np.nan, 3.0]],
    "propensities": [0.5, 0.5],
    "cone": cb.Cone.orthant(2),
}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"arms": []}, "arms must not be empty"),
        ({"arms": [0, -1]}, "arms must be integers from 0 to 0"),
        ({"arms": [0, 0.5]}, "arms must be integers"),
        ({"arms": [0, np.nan]}, "arms must be integers"),
        ({"arms": [0, 10**9]}, "arms must be indices from 0 on; got 1000000000"),
        ({"arms": [0, 5], "arm_names": ("a", "b")}, r"from 0 to 1, one for each decision; got 5\.0"),
        ({"contexts": [[0.1]]}, r"contexts must have shape \(2, any\)"),
        ({"contexts": [0.1, 0.2]}, "contexts must have shape"),
        ({"contexts": [[0.1], [np.nan]]}, r"contexts must be numbers of at most 1e\+100 in size; row 1 is \[nan\]"),
        ({"contexts": [[-1e200], [0.0]]}, "contexts must be numbers"),
        ({"rewards": [[1.0], [2.0]]}, r"rewards must have shape \(2, 2\)"),
        ({"rewards": [[1.0, -np.inf], [2.0, 0.0]]}, "at most 1e.*got -inf"),
        ({"rewards": [[1.0, 1e-200], [2.0, 0.0]]}, "above 1e-100 in size, .* the largest of a metric is 1e-200"),
        ({"adaptive": "no"}, "adaptive must be True, False or None; got 'no'"),
        ({"propensities": [0.5, 0.0]}, "that of row 1 is 0.0"),
        ({"propensities": [1.5, 0.5]}, "that of row 0 is 1.5"),
        ({"propensities": [np.nan, 0.5]}, "that of row 0 is nan"),
        ({"probabilities": [[0.5, 0.4], [0.5, 0.5]]}, "add up to 1; row 0"),
        ({"probabilities": [[1.5, -0.5], [0.5, 0.5]]}, "must be at least 0"),
        ({"probabilities": [[0.4, 0.6], [0.5, 0.5]]}, r"in row 0 they are 0\.5 and 0\.4"),
        ({"probabilities": [[0.5, 0.5], [0.5, 0.5]], "arm_names": ("a", "b", "c")}, "must have 3 columns"),
        ({"arm_names": ("a", "a")}, "different from each other"),
    ],
)
def test_wrong_logs_are_refused(changes, words):
    with pytest.raises(ValueError, match=words):
        cb.Log(**{**GOOD, **changes})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"arm_names": "ab"}, "sequence of strings"),
        ({"rewards": [["x", 1.0], [1.0, 2.0]]}, "rewards must be an array of real numbers"),
        ({"cone": 2}, r"must be a conebandit\.Cone"),
    ],
)
def test_things_of_another_kind_are_refused(changes, words):
    with pytest.raises(TypeError, match=words):
        cb.Log(**{**GOOD, **changes})


def test_whether_a_log_is_adaptive_is_seen_from_its_propensities():
    assert not cb.Log(**{**GOOD, "propensities": [0.3, 0.7]}).adaptive
    assert cb.Log(**{**GOOD, "arms": [1, 1], "propensities": [0.3, 0.7]}).adaptive
    assert cb.Log(**{**GOOD, "adaptive": True}).adaptive


def test_names():
    log = cb.Log(**{**GOOD, "cone": cb.Cone.orthant(2, names=("x", "y"))})
    assert (log.arm_names, log.metric_names, log.n_arms) == (("0", "1"), ("x", "y"), 2)
    assert cb.Log(**GOOD).metric_names == ("metric 0", "metric 1")


def uniform(log):
    return np.full((len(log), log.n_arms), 1.0 / log.n_arms)


def test_the_same_policy_can_be_given_in_many_ways():
    log = random_log()
    policy = cb.RandomArm(3, log.cone, 2, bounds=[[-9, 9], [-9, 9]])

    class Own:
        """Somebody's own policy, without decide_many."""

        def decide(self, context, key):
            return cb.Decision(0, 1 / 3, np.ones(3, dtype=bool), np.full(3, 1 / 3))

    ways = {
        "word": "uniform",
        "array": uniform(log),
        "function": lambda x: np.full((len(x), 3), 1 / 3),
        "policy": policy,
        "own": Own(),
    }
    found = cb.evaluate(log, ways)
    np.testing.assert_allclose(found.values, np.tile(found.values[:1], (5, 1)))
    assert set(found.standings.values()) == {"on"}  # none dominates another that does the same
    assert (found.difference("word", "own").radii == 0).all()
    arms = cb.evaluate(
        log, {"by index": 1, "by name": "b", "by numpy": np.int64(1), "by row": np.tile([0, 1, 0], (60, 1))}
    )
    np.testing.assert_allclose(arms.values, np.tile(arms.values[:1], (4, 1)))


def test_an_arm_may_be_called_uniform():
    log = random_log()
    named = cb.Log(
        log.contexts, log.arms, log.rewards, log.propensities, log.cone, arm_names=("uniform", "logged", "c")
    )
    np.testing.assert_allclose(cb.evaluate(named, ["uniform", "logged"]).values, cb.evaluate(named, [0, 1]).values)


@pytest.mark.parametrize(
    ("policies", "kind", "words"),
    [
        ({"it": "z"}, ValueError, r"must be 'uniform', 'logged' or an arm \(a, b, c\)"),
        ({"it": 3}, ValueError, "arm must be an integer from 0 to 2"),
        ({"it": np.ones((60, 3))}, ValueError, "the probabilities of policy 'it' must be at least 0 and add up to 1"),
        ({"it": np.full((60, 2), 0.5)}, ValueError, r"must have shape \(60, 3\)"),
        ({"it": np.full((60, 3), np.nan)}, ValueError, "add up to 1; row 0"),
        ({"it": lambda x: None}, ValueError, r"must have shape \(60, 3\)"),
        ({"it": lambda x: "a"}, TypeError, "array of real numbers"),
        ({"it": cb.RandomArm(2, cb.Cone.orthant(2), 2)}, ValueError, "n_arms = 2, but the log has 3"),
        ({"it": cb.RandomArm(3, cb.Cone.orthant(2), 1)}, ValueError, "context_dim = 1, but the log has 2"),
        ({}, ValueError, "must not be empty"),
        ([], ValueError, "must not be empty"),
        ({1: "a"}, TypeError, "texts as names"),
        (["a", "a"], ValueError, "different from each other"),
        ([np.ones(3)], TypeError, "a dict from names to policies"),
        (None, TypeError, "a dict from names to policies"),
    ],
)
def test_wrong_policies_are_refused(policies, kind, words):
    with pytest.raises(kind, match=words):
        cb.evaluate(random_log(), policies)


def test_policies_that_give_no_probabilities_are_refused():
    class Silent:
        def decide(self, context, key):
            return cb.Decision(0, 1.0, np.ones(3, dtype=bool))

    with pytest.raises(ValueError, match="policy 'it' must give probabilities"):
        cb.evaluate(random_log(), {"it": Silent()})


@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        ({"estimator": "best"}, ValueError, "estimator must be one of auto, ips"),
        ({"adaptive": "yes"}, ValueError, "adaptive must be True, False or 'auto'"),
        ({"level": 1.0}, ValueError, "level must lie between 0 and 1"),
        ({"n_folds": 1}, ValueError, "n_folds must be an integer, at least 2"),
    ],
)
def test_wrong_options_are_refused(options, kind, words):
    with pytest.raises(kind, match=words):
        cb.evaluate(random_log(), ["a"], **options)


def test_things_that_are_no_log_are_refused():
    with pytest.raises(TypeError, match=r"log must be a conebandit\.Log or a Run"):
        cb.evaluate({"arm": ["a"]}, ["a"])
    with pytest.raises(TypeError, match="run must be a Run"):
        cb.Log.from_run(random_log())


def test_policies_are_asked_as_they_are_and_do_not_learn():
    log = random_log(n=50)
    policy = cb.ParetoUCB1(3, log.cone, 2, bounds=[[-9, 9], [-9, 9]], explore=0.5)
    cb.evaluate(log, {"it": policy})
    assert policy.n_observations == 0


def test_units_are_texts_or_numbers_of_any_library():
    names = ["p1", "p2"]
    for units in (names, np.array(names), np.array(names, dtype=object), pandas.Series(names), [7, 9]):
        assert cb.Log(**GOOD, units=units).units.tolist() == [0, 1]
    for units in ([1.0, float("nan")], ["p1", None]):
        with pytest.raises(ValueError, match="none may be missing"):
            cb.Log(**GOOD, units=units)


def test_adaptive_is_one_word_for_all_rows():
    with pytest.raises(ValueError, match="adaptive must be"):
        cb.Log(**GOOD, adaptive=np.array([True, False]))
