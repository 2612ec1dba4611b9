"""What a log cannot say is refused, with the reason; what it says of how much it knows is right."""

from typing import Any

import numpy as np
import pytest

import conebandit as cb
from conebandit.environments import paper, smooth
from tests.evaluation.logs import random_log, random_policy


def log_of(chances, arms, **more):
    rows = np.arange(len(arms))
    rewards = np.column_stack([arms, rows % 3]).astype(float)
    return cb.Log(
        rows[:, None],
        arms,
        rewards,
        chances[rows, arms],
        cb.Cone.orthant(2),
        arm_names=("a", "b", "c"),
        **{"probabilities": chances, **more},
    )


def test_arms_without_support_are_refused_and_named():
    chances = np.tile([0.5, 0.5, 0.0], (10, 1))
    chances[:4] = 1 / 3
    log = log_of(chances, np.arange(10) % 2)
    with pytest.raises(ValueError, match=r"20\.0% of its plays have probability 0 there") as error:
        cb.evaluate(log, ["uniform"])
    for part in ("policy 'uniform'", "60.0% of the rows", "row 4", "row 9", "c (20.0%)", "explore=0.1", "log.take"):
        assert part in str(error.value)
    with pytest.raises(ValueError, match=r"60\.0% of its plays"):
        cb.evaluate(log, {"third": "c", "first": "a"})
    assert cb.evaluate(log, ["a", "b"], estimator="ips").front
    assert cb.evaluate(log.take(slice(4)), ["a"], estimator="ips").n_rows == 4


def test_an_arm_for_each_row_is_a_policy():
    log = random_log(n=200)
    arms = np.random.default_rng(1).integers(0, log.n_arms, len(log))
    names = [log.arm_names[arm] for arm in arms]
    given = {"table": np.eye(log.n_arms)[arms], "indices": arms, "names": names, "function": lambda _: names}
    found = cb.evaluate(log, given, estimator="dr")
    assert (found.values == found.values[0]).all()
    with pytest.raises(ValueError, match="policy 'short' must have an arm for each of the 200 rows; got 3"):
        cb.evaluate(log, {"short": names[:3]})
    with pytest.raises(ValueError, match=r"policy 'new' must give arms \(.*\); got 'nobody'"):
        cb.evaluate(log, {"new": [*names[:-1], "nobody"]})
    with pytest.raises(ValueError, match="An arm for each row, by name, will do as well"):
        cb.evaluate(log, {"odd": arms + 0.5})


def test_a_learner_is_judged_by_what_it_recommends():
    rng = np.random.default_rng(3)
    table = {"page": rng.choice(["old", "new"], 400), "chance": np.full(400, 0.5), "x": rng.random(400)}
    table["sales"] = (table["page"] == "new") * (table["x"] - 0.4) + rng.normal(0, 0.1, 400)
    experiment = cb.Experiment.from_frame(
        table, arm="page", propensity="chance", metrics=["sales"], context=["x"], policy="LinearParetoUCB"
    )
    learner = experiment.learn(table)
    given = {"learner": learner, "recommended": learner.recommend(table)["arm"]}
    found = cb.evaluate(table, given, experiment=experiment)
    assert found.values[0] == found.values[1] > 0


def test_arms_that_were_never_played_are_refused_where_only_propensities_are_known():
    chances = np.tile([0.5, 0.5, 0.0], (10, 1))
    log = log_of(chances, np.arange(10) % 2, probabilities=None)
    with pytest.raises(ValueError, match="are of arms that were never played there"):
        cb.evaluate(log, ["uniform"])


def test_a_mean_weight_below_one_is_refused_where_only_propensities_are_known():
    chances = np.eye(3)[np.arange(30) % 3]  # each row could have been nothing else
    log = log_of(chances, np.arange(30) % 3, probabilities=None)
    with pytest.raises(ValueError, match="about 67% of its plays have probability 0"):
        cb.evaluate(log, ["uniform"])


@pytest.mark.parametrize("estimator", ["auto", "ips", "replay"])
@pytest.mark.parametrize(("arms", "digits"), [(6, 2), (6, 3), (6, 6), (3, 3), (3, 4), (7, 4), (7, 5), (17, 2)])
def test_propensities_may_be_rounded(arms, digits, estimator):
    """A file may say 0.167 where one arm of six was drawn. Then all weights are alike, and their mean has no error."""
    rng, n = np.random.default_rng(1), 600
    rounded = np.full(n, round(1.0 / arms, digits))
    given = rng.random((n, 1)), rng.integers(arms, size=n), rng.normal(size=(n, 1)), rounded
    found = cb.evaluate(cb.Log(*given, cb.Cone.orthant(1)), ["uniform"], estimator=estimator)
    noted = any("mean weight" in note for note in found.notes)
    assert noted == (digits == 2 and estimator != "replay")


def test_what_a_log_lacks_is_not_taken_for_rounding():
    """An arm that was impossible in 2 % of the rows, and propensities with all their digits."""
    rng, n = np.random.default_rng(2), 200_000
    chance = rng.uniform(0.3, 0.7, n)
    chance[: n // 50] = 0.0
    arms = (rng.random(n) < chance).astype(int)
    given = np.where(arms == 1, chance, 1.0 - chance)
    x, rewards = rng.random((n, 1)), rng.normal(size=(n, 1))
    with pytest.raises(ValueError, match="cannot be judged from this log: the mean weight is 0"):
        cb.evaluate(cb.Log(x, arms, rewards, given, cb.Cone.orthant(1)), ["1"], estimator="ips")


@pytest.mark.parametrize("make", [cb.default_policy, cb.ParetoUCB1, cb.LinearParetoUCB])
def test_logs_of_learners_without_a_floor_are_refused(make):
    env = smooth(4, 2, 1, change_point=0)
    policy = make(4, env.cone, 1)
    run = cb.simulate(policy, env, 600)
    for log in (cb.Log.from_run(run), cb.Log.from_run(run, policy=policy)):
        with pytest.raises(ValueError, match="cannot be judged from this log"):
            cb.evaluate(log, ["uniform"])
        assert cb.evaluate(log, ["logged"]).values.shape == (1, 2)


def test_logs_of_learners_with_a_floor_are_not():
    env = smooth(4, 2, 1, change_point=0)
    policy = cb.ParetoUCB1(4, env.cone, 1, explore=0.2)
    log = cb.Log.from_run(cb.simulate(policy, env, 400), policy=policy)
    found = cb.evaluate(log, ["uniform", "2"])
    assert (found.estimator, found.adaptive) == ("stabilised", True)
    assert found.overlap["uniform"].smallest_propensity == pytest.approx(0.05)


def test_metrics_that_are_never_known_of_an_arm_are_refused():
    log = random_log()
    rewards = log.rewards.copy()
    rewards[log.arms == 2, 1] = np.nan
    lost = cb.Log(log.contexts, log.arms, rewards, log.propensities, log.cone, probabilities=log.probabilities)
    with pytest.raises(ValueError, match=r"cannot be judged in metric 1: .*no value of metric 1 is known \(2\)"):
        cb.evaluate(lost, ["uniform"])
    with pytest.raises(ValueError, match="'logged' cannot be judged in metric 1"):
        cb.evaluate(lost, ["logged"])
    assert np.isfinite(cb.evaluate(lost, [0, 1]).values).all()


def test_one_row_says_nothing():
    log = random_log(n=1)
    with pytest.raises(ValueError, match="at least two rows"):
        cb.evaluate(log, ["logged"], estimator="ips")
    uniform = log_of(np.full((2, 3), 1 / 3), np.array([0, 1]))
    with pytest.raises(ValueError, match="at least two rows"):
        cb.evaluate(uniform, ["a"], estimator="replay")


def test_overlap_is_what_it_says():
    log = random_log(2)
    policy = random_policy(log)
    found = cb.evaluate(log, {"it": policy}).overlap["it"]
    weights = [policy[i, log.arms[i]] / log.propensities[i] for i in range(60)]
    assert found.effective_rows == pytest.approx(sum(weights) ** 2 / sum(w**2 for w in weights))
    assert found.mean_weight == pytest.approx(np.mean(weights))
    assert found.mean_weight_error == pytest.approx(np.std(weights, ddof=1) / np.sqrt(60))
    assert found.smallest_propensity == log.probabilities.min()
    assert found.largest_weight == max(weights)


def test_wrong_propensities_and_few_rows_are_noted():
    log = random_log(3, n=500)
    wrong = cb.Log(log.contexts, log.arms, log.rewards, log.propensities**2, log.cone)
    notes = " ".join(cb.evaluate(wrong, ["uniform"]).notes)
    assert "are the propensities those with which arms were drawn, with all their digits, and could" in notes
    assert not cb.evaluate(log, ["uniform"]).notes
    few = cb.evaluate(random_log(n=30), ["a"]).notes
    assert "are not to be trusted" in few[0]


def test_a_population_that_moves_is_noticed():
    env = paper(n_arms=3, change_point=1000)
    policy = cb.ParetoUCB1(3, env.cone, 1, explore=0.3)
    moved = cb.Log.from_run(cb.simulate(policy, env, 2000), policy=policy)
    found = cb.evaluate(moved, ["0", "1"])
    steady = cb.evaluate(moved.take(slice(1000)), ["0", "1"])
    assert (steady.estimator, steady.notes) == ("stabilised", ())
    assert found.estimator == "dr"
    assert found.adaptive
    assert "The population of the contexts has moved" in found.notes[0]
    assert "consider 'dr'" in cb.evaluate(moved, ["0", "1"], estimator="stabilised").notes[0]


def test_probabilities_found_by_learning_again_are_those_of_the_run():
    env = smooth(3, 2, 2, change_point=0)
    for policy in (cb.default_policy(3, env.cone, 2, explore=0.1), cb.ConeTree(3, env.cone, 2, preset="adaptive")):
        run = cb.simulate(policy, env, 300, seed=4)
        log = cb.Log.from_run(run, policy=policy)
        np.testing.assert_array_equal(log.probabilities[np.arange(300), run.arms], run.propensities)
        np.testing.assert_allclose(log.probabilities.sum(axis=1), 1.0)
    with pytest.raises(ValueError, match="policy must be the one that was handed to simulate"):
        cb.Log.from_run(run, policy=run.policy)


def test_who_learns_is_adaptive():
    env = paper(n_arms=3, change_point=0)
    random = cb.simulate(cb.RandomArm(3, env.cone, 1), env, 50)
    assert not cb.Log.from_run(random).adaptive
    assert cb.Log.from_run(cb.simulate(cb.ParetoUCB1(3, env.cone, 1), env, 50)).adaptive
    assert cb.evaluate(random, ["0"]).estimator == "dr"
    assert cb.evaluate(random, ["0"], adaptive=True).estimator == "dr"  # not all probabilities are known
    assert cb.evaluate(random, ["0"], adaptive=True, estimator="stabilised").estimator == "stabilised"
    assert random_log().take([0, 1]).adaptive is False


def test_runs_of_own_policies_are_adaptive_and_need_a_cone():
    env = paper(n_arms=3, change_point=0)

    class Own:
        """Plays the first arm less and less; no cone, no copy."""

        n_arms, n_objectives, context_dim, seen = 3, 2, 1, 0

        def decide(self, context, key):
            chances = np.array([0.5 / (1 + self.seen), 0.25, 0.75 - 0.5 / (1 + self.seen)])
            arm = int(key) % 3
            return cb.Decision(arm, float(chances[arm]), np.ones(3, dtype=bool), chances)

        def observe(self, context, arm, reward):
            self.seen += 1

        def front(self, context):
            return cb.Front((0,), np.ones((1, 2)), np.ones((1, 2)))

    policy: Any = Own()
    run = cb.simulate(policy, env, 30)
    with pytest.raises(TypeError, match="run must be that of a policy with a cone"):
        cb.Log.from_run(run)
    policy.cone = env.cone
    log = cb.Log.from_run(cb.simulate(policy, env, 30), policy=policy)
    assert log.adaptive
    assert policy.seen == 0
    np.testing.assert_allclose(log.probabilities[:, 0], 0.5 / (1 + np.arange(30)))
