"""Estimators against plain loops, and against Open Bandit Pipeline."""

import json
import math
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import conebandit as cb
from conebandit.evaluation.estimators import Problem, stable_shares
from conebandit.evaluation.outcomes import folds, ridge
from conebandit.evaluation.targets import Target
from tests.evaluation.logs import random_log, random_policy

PEERS = Path(__file__).parent.parent / "data" / "peers" / "open_bandit.json"


def flat(contexts, arms, rewards, n_arms):
    """A model whose predictions are odd on purpose, and the same whatever it was fitted on."""
    return lambda x: np.stack(
        [np.full((len(x), rewards.shape[1]), 0.5 + arm) + x[:, :1] * rewards.shape[1] for arm in range(n_arms)], axis=1
    )


def plain_known(log, m):
    """1 over the share of an arm's values of a metric that are known, weighted by propensities; 0 where unknown."""
    weights = []
    for arm, reward in zip(log.arms, log.rewards[:, m], strict=True):
        of_arm = [
            (1.0 / p, not math.isnan(r))
            for a, p, r in zip(log.arms, log.propensities, log.rewards[:, m], strict=True)
            if a == arm
        ]
        share = sum(w for w, known in of_arm if known) / sum(w for w, _ in of_arm)
        weights.append(0.0 if math.isnan(reward) else 1.0 / share)
    return weights


def plain_values(log, policy, estimator, predictions=None, shares=None):
    """Value and variance in every metric, written out."""
    n, found = len(log), []
    for m in range(log.rewards.shape[1]):
        known, scores, weights = plain_known(log, m), [], []
        for i in range(n):
            arm, reward = int(log.arms[i]), float(np.nan_to_num(log.rewards[i, m]))
            w = policy[i, arm] / log.propensities[i] * known[i]
            if estimator == "ips":
                scores.append(w * reward)
                weights.append(1.0)
            elif estimator == "snips":
                scores.append(reward)
                weights.append(w)
            else:
                expected = sum(policy[i, k] * predictions[i, k, m] for k in range(log.n_arms))
                scores.append(expected + w * (reward - predictions[i, arm, m]))
                weights.append(1.0 if shares is None else shares[i])
        total = sum(weights)
        value = sum(w * s for w, s in zip(weights, scores, strict=True)) / total
        rows = total**2 / sum(w**2 for w in weights)
        variance = sum((w * (s - value)) ** 2 for w, s in zip(weights, scores, strict=True)) / total**2
        found.append((value, variance * rows / (rows - 1)))
    return np.array(found).T


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("estimator", "missing"), list(product(["ips", "snips", "dr"], [0.0, 0.3])))
def test_values_and_errors_are_those_of_plain_loops(estimator, missing, seed):
    log = random_log(seed, missing=missing, scale=10.0 ** (3 * seed - 4))
    policy = random_policy(log, seed)
    found = cb.evaluate(log, {"it": policy}, estimator=estimator, model=flat)
    predictions = flat(None, None, log.rewards, log.n_arms)(log.contexts)
    values, variances = plain_values(log, policy, estimator, predictions)
    np.testing.assert_allclose(found.values[0], values, rtol=1e-9)
    np.testing.assert_allclose(found.errors[0] ** 2, variances, rtol=1e-9)


def test_stabilised_values_are_those_of_plain_loops():
    log = random_log(3, n=200)
    policy = random_policy(log)
    found = cb.evaluate(log, {"it": policy}, estimator="stabilised", model=flat, n_folds=4)
    shares = []
    for i in range(200):
        block = math.isqrt(16 * i // 200)  # blocks end at 1/16, 4/16, 9/16 of the rows, rounded up
        start = math.ceil(200 * (block / 4) ** 2)
        if i < start:
            block -= 1
            start = math.ceil(200 * (block / 4) ** 2)
        stop = math.ceil(200 * ((block + 1) / 4) ** 2)
        seen = range(start // 2, start) if start else range(stop)
        squares = [sum(policy[s] ** 2 / log.probabilities[s]) for s in seen]
        shares.append(1 / math.sqrt(max(sum(squares) / len(squares), 1.0)))
    predictions = flat(None, None, log.rewards, log.n_arms)(log.contexts)
    predictions[:13] = log.rewards.mean(axis=0)  # nothing comes before the first block
    values, variances = plain_values(log, policy, "dr", predictions, shares)
    np.testing.assert_allclose(found.values[0], values, rtol=1e-9)
    np.testing.assert_allclose(found.errors[0] ** 2, variances, rtol=1e-9)


def test_covariances_are_those_of_the_scores():
    log = random_log(5)
    policies = {"one": random_policy(log, 1), "two": random_policy(log, 2)}
    found = cb.evaluate(log, policies, estimator="ips")
    scores = np.concatenate(
        [p[np.arange(60), log.arms, None] / log.propensities[:, None] * log.rewards for p in policies.values()], axis=1
    )
    np.testing.assert_allclose(found.covariance.reshape(4, 4), np.cov(scores.T) / 60, rtol=1e-9)
    difference = found.difference("two", "one")
    paired = scores[:, 2:] - scores[:, :2]
    np.testing.assert_allclose(difference.values, paired.mean(axis=0), rtol=1e-9)
    np.testing.assert_allclose(difference.errors, paired.std(axis=0, ddof=1) / np.sqrt(60), rtol=1e-9)
    np.testing.assert_allclose(found.difference("one", "two").values, -difference.values)


def test_values_are_those_of_open_bandit_pipeline():
    cases = json.loads(PEERS.read_text())["cases"]
    compared = 0
    for case in cases:
        arms, n = np.array(case["arms"]), len(case["arms"])
        logged, predicted = np.array(case["logged"]), np.array(case["predicted"])
        log = cb.Log(
            np.arange(n)[:, None],
            arms,
            np.array(case["rewards"])[:, None],
            logged[np.arange(n), arms],
            cb.Cone.orthant(1),
            probabilities=logged,
            adaptive=False,
        )
        known = lambda *_, p=predicted: lambda x: p[x[:, 0].astype(int), :, None]  # noqa: E731
        for estimator, value in case["values"].items():
            if (
                estimator == "replay"
            ):  # they keep the matching rows of any log, which is what snips does of a uniform one
                uniform = np.full(logged.shape, 1.0 / logged.shape[1])
                log = cb.Log(log.contexts, arms, log.rewards, uniform[:, 0], log.cone, probabilities=uniform)
            found = cb.evaluate(log, {"it": np.array(case["wanted"])}, estimator=estimator, model=known)
            assert found.values[0, 0] == pytest.approx(value, rel=1e-9, abs=1e-9)
            compared += 1
    assert compared == 30


def test_models_never_see_the_rows_they_are_asked_about():
    for n, count in ((1, 2), (7, 10), (100, 10), (101, 3)):
        for in_time in (False, True):
            parts = list(folds(n, count, in_time=in_time))
            assert sorted(np.concatenate([rows for _, rows in parts]).tolist()) == list(range(n))
            for past, rows in parts:
                assert not set(past) & set(rows)
                if in_time and len(rows) and len(past):
                    assert past.max() < rows.min()


def test_models_of_adaptive_logs_learn_from_the_past_alone():
    seen = []

    def spy(contexts, arms, rewards, n_arms):
        seen.append(contexts[:, 0].tolist())
        return lambda x: np.zeros((len(x), n_arms, rewards.shape[1]))

    log = random_log(n=40)
    ordered = cb.Log(np.arange(40.0)[:, None], log.arms, log.rewards, log.propensities, log.cone, adaptive=True)
    cb.evaluate(ordered, "uniform", estimator="dr", model=spy, n_folds=4)
    assert seen == [list(range(stop)) for stop in (3, 10, 23)]


def test_ridge_is_a_penalised_regression():
    log = random_log(2, n=200, missing=0.2)
    predicted = ridge(log.contexts, log.arms, log.rewards, 3)(log.contexts[:5])
    z = (log.contexts - log.contexts.mean(axis=0)) / log.contexts.std(axis=0)
    rows = np.column_stack([np.ones(200), z, z**2 - 1])
    for m, arm in product(range(2), range(3)):
        known = ~np.isnan(log.rewards[:, m])
        level = log.rewards[known, m].mean()
        mine = known & (log.arms == arm)
        # A penalty of one row for each coefficient is the same as one more row for each, which says 0.
        x = np.vstack([rows[mine], np.eye(5)])
        y = np.concatenate([log.rewards[mine, m] - level, np.zeros(5)])
        coefficients = np.linalg.lstsq(x, y, rcond=None)[0]
        np.testing.assert_allclose(predicted[:, arm, m], level + rows[:5] @ coefficients, rtol=1e-9)


def test_ridge_knows_what_to_say_where_nothing_is_known():
    constant = ridge(np.full((6, 1), 1e9), np.zeros(6, dtype=int), np.full((6, 1), 5.0), 2)(np.full((1, 1), 1e9))
    np.testing.assert_allclose(constant, np.full((1, 2, 1), 5.0))
    unknown = ridge(np.ones((3, 1)), np.zeros(3, dtype=int), np.full((3, 1), np.nan), 2)(np.ones((2, 1)))
    np.testing.assert_array_equal(unknown, np.zeros((2, 2, 1)))


@pytest.mark.parametrize("estimator", ["ips", "snips", "dr", "stabilised"])
def test_the_policy_that_made_the_log_has_the_mean_of_its_rewards(estimator):
    for known in (True, False):
        log = random_log(4, known=known)
        found = cb.evaluate(log, ["logged"], estimator=estimator)
        if estimator in ("ips", "snips") or not known:
            np.testing.assert_allclose(found.values[0], log.rewards.mean(axis=0))
        assert found.overlap["logged"].effective_rows == pytest.approx(60)
        assert found.overlap["logged"].mean_weight == pytest.approx(1)


def test_units_do_not_matter():
    log = random_log(6)
    other = cb.Log(
        1e6 * log.contexts - 5.0,
        log.arms,
        1e-3 * log.rewards,
        log.propensities,
        log.cone,
        probabilities=log.probabilities,
        adaptive=False,
    )
    for estimator in ("ips", "snips", "dr", "stabilised"):
        one, two = (cb.evaluate(x, [0, 1, "uniform"], estimator=estimator) for x in (log, other))
        np.testing.assert_allclose(1e-3 * one.values, two.values, rtol=1e-6)
        np.testing.assert_allclose(1e-3 * one.errors, two.errors, rtol=1e-6)
        assert [*one.standings.values()] == [*two.standings.values()]  # arms have other names


def test_values_missing_by_arm_do_not_bias():
    # Half of the values of the first arm are lost: without correction its share would be halved.
    log = random_log(7, n=4000)
    rewards = np.where((log.arms == 0)[:, None] & (np.random.default_rng(0).random((4000, 1)) < 0.5), np.nan, 1.0)
    lost = cb.Log(log.contexts, log.arms, rewards * np.ones(2), log.propensities, log.cone, adaptive=False)
    for estimator in ("ips", "snips", "dr"):
        found = cb.evaluate(lost, ["uniform"], estimator=estimator)
        np.testing.assert_allclose(found.values, 1.0, atol=0.07 if estimator == "ips" else 1e-9)


def test_stable_shares_are_equal_for_a_log_that_is_always_the_same():
    log = random_log(8)
    even = cb.Log(
        log.contexts, log.arms, log.rewards, np.full(60, 1 / 3), log.cone, probabilities=np.full((60, 3), 1 / 3)
    )
    target = Target.of("it", "uniform", even)
    np.testing.assert_allclose(stable_shares(target, Problem(even, [target], True)), 1.0)


def test_replay_keeps_matching_rows():
    log = random_log(9, n=300)
    uniform = cb.Log(log.contexts, log.arms, log.rewards, np.full(300, 1 / 3), log.cone)
    found = cb.evaluate(uniform, {"second": 1, "logged": "logged"}, estimator="replay")
    mine = log.arms == 1
    np.testing.assert_allclose(found.values[0], log.rewards[mine].mean(axis=0))
    np.testing.assert_allclose(found.errors[0], log.rewards[mine].std(axis=0, ddof=1) / np.sqrt(mine.sum()))
    assert found.overlap["second"].effective_rows == mine.sum()
    np.testing.assert_allclose(found.values[1], log.rewards.mean(axis=0))


def test_in_a_replay_policies_learn_from_what_they_keep():
    log = random_log(10, n=200)
    uniform = cb.Log(np.clip(log.contexts, 0, 1), log.arms, log.rewards, np.full(200, 1 / 3), log.cone)
    policy = cb.ParetoUCB1(3, log.cone, 2)
    found = cb.evaluate(uniform, {"learner": policy}, estimator="replay")
    assert policy.n_observations == 0
    learner, kept = policy.copy(), []
    for i in range(200):
        if learner.decide(uniform.contexts[i], i).arm == log.arms[i]:
            learner.observe(uniform.contexts[i], log.arms[i], log.rewards[i])
            kept.append(log.rewards[i])
    np.testing.assert_allclose(found.values[0], np.mean(kept, axis=0))


def test_replay_refuses_other_logs():
    with pytest.raises(ValueError, match=r"each of the 3 arms was played with probability 0\.3333"):
        cb.evaluate(random_log(), [0], estimator="replay")


def test_rewards_far_from_zero_cost_adaptive_logs_nothing():
    log = random_log(11, n=500)
    far = cb.Log(log.contexts, log.arms, log.rewards + 1e4, log.propensities, log.cone, probabilities=log.probabilities)
    near = cb.evaluate(log, ["a"], estimator="stabilised")
    found = cb.evaluate(far, [0], estimator="stabilised")
    np.testing.assert_allclose(found.values - 1e4, near.values, rtol=1e-6)
    np.testing.assert_allclose(found.errors, near.errors, rtol=1e-6)


@pytest.mark.parametrize("wrong", [lambda x: np.zeros((len(x), 3)), lambda x: np.full((len(x), 3, 2), np.nan)])
def test_models_that_predict_something_else_are_refused(wrong):
    with pytest.raises(ValueError, match="model must predict finite means of shape"):
        cb.evaluate(random_log(), ["a"], model=lambda *_: wrong)


@pytest.mark.parametrize("scale", [1e-99, 1e-40, 1e40, 1e99])
def test_scales_do_not_matter(scale):
    log = random_log(12)
    scaled = cb.Log(log.contexts, log.arms, log.rewards * scale, log.propensities, log.cone, adaptive=False)
    plain = cb.Log(log.contexts, log.arms, log.rewards, log.propensities, log.cone, adaptive=False)
    for estimator in ("ips", "snips", "dr", "stabilised"):
        one, two = (cb.evaluate(x, [0, 1, 2], estimator=estimator) for x in (plain, scaled))
        np.testing.assert_allclose(two.values, scale * one.values, rtol=1e-9)
        np.testing.assert_allclose(two.errors, scale * one.errors, rtol=1e-9)
        assert [*one.standings.values()] == [*two.standings.values()]  # arms have other names


@pytest.mark.parametrize("estimator", ["ips", "dr"])
@given(share=st.floats(0, 1), seed=st.integers(0, 50))
@settings(max_examples=20, deadline=None)
def test_a_mixture_of_policies_has_the_mixture_of_their_values(estimator, share, seed):
    log = random_log(seed, missing=0.1)
    one, two = random_policy(log, seed), random_policy(log, seed + 1)
    found = cb.evaluate(log, {"one": one, "two": two, "mix": share * one + (1 - share) * two}, estimator=estimator)
    np.testing.assert_allclose(found.values[2], share * found.values[0] + (1 - share) * found.values[1], atol=1e-9)
