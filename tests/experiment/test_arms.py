"""Arms may be described by numbers; the library, a saved learner and the service use them alike."""

from contextlib import closing

import numpy as np
import pytest

import conebandit as cb
from conebandit.experiment.errors import InvalidError
from conebandit.experiment.policy import make_policy, with_policy
from conebandit.service.engine.ledger import Ledger
from conebandit.service.engine.turn import Turn
from conebandit.service.errors import ConflictError
from conebandit.service.stores.base import open_store

DOSES = [{"name": "low", "dose": 10}, {"name": "mid", "dose": 20}, {"name": "high", "dose": 40}]
TRIAL = {
    "id": "trial",
    "arms": DOSES,
    "metrics": [{"name": "efficacy"}, {"name": "toxicity", "direction": "min", "worst": 1}],
    "context": [{"name": "age", "low": 18, "high": 90}],
}


def features_of(policy):
    return policy.arm_features.tolist()


def table(n=60):
    rng = np.random.default_rng(0)
    arms = rng.choice(["low", "mid", "high"], n)
    return {"arm": arms, "age": rng.integers(18, 90, n), "efficacy": rng.random(n), "toxicity": rng.random(n)}


def test_features_reach_the_policy_and_are_shown():
    experiment = cb.Experiment.from_dict(TRIAL)
    assert experiment.arms == ("low", "mid", "high")
    assert experiment.arm_features["mid"] == {"dose": 20.0}
    assert "arms: low (dose 10), mid (dose 20), high (dose 40)" in str(experiment)
    assert cb.Experiment.from_toml(experiment.to_toml()) == experiment
    policy = cb.Learner(experiment).policy
    direct = cb.default_policy(3, experiment.cone, 1, arm_features=[10, 20, 40])
    x = np.random.default_rng(1).random((60, 1))
    for each in (policy, direct):
        for i, context in enumerate(x):
            each.observe(context, i % 3, [i % 2, context[0]])
    assert policy.front([0.5]).arms == direct.front([0.5]).arms
    np.testing.assert_array_equal(policy.front([0.5]).means, direct.front([0.5]).means)
    some = make_policy(with_policy(experiment), ["high", "low"])  # as when an arm was retired
    assert features_of(some) == [[40.0], [10.0]]


def test_the_order_of_features_does_not_matter():
    turned = [{"name": "a", "dose": 1, "price": 2}, {"price": 4, "name": "b", "dose": 3}]
    assert features_of(cb.Learner(cb.Experiment.from_dict({**TRIAL, "arms": turned})).policy) == [
        [1, 2],
        [3, 4],
    ]


@pytest.mark.parametrize(
    ("arms", "says"),
    [
        ([*DOSES, "none"], r"arms\[3\] must be a table"),
        ([*DOSES, {"name": "none"}], r"arms\[3\]: all arms must have the same features \(dose\); got {'name': 'none'}"),
        ([{"name": "x", "dose": 1}, {"name": "y", "dose": "much"}], r"arms\[1\]\.dose must be a number"),
        ([{"name": "x", "dose": 1}, {"name": "x", "dose": 2}], "arms: 'x' is there twice"),
        ([{"dose": 1}], "arms: a name has"),
        ([{"name": "x", "": 1}], "the features of arms: a name has"),
    ],
)
def test_wrong_arms_are_refused(arms, says):
    with pytest.raises(InvalidError, match=says):
        cb.Experiment.from_dict({**TRIAL, "arms": arms})


def test_tables_of_nothing_but_names_are_names():
    assert cb.Experiment.from_dict({**TRIAL, "arms": [{"name": "x"}, {"name": "y"}]}).arm_features == {}


def test_a_policy_that_cannot_use_them_is_refused():
    with pytest.raises(InvalidError, match="policy LinearParetoUCB cannot use what describes them"):
        cb.Learner(cb.Experiment.from_dict({**TRIAL, "policy": "LinearParetoUCB"}))


def test_from_a_frame(tmp_path):
    metrics, extra = [TRIAL["metrics"][0], TRIAL["metrics"][1]], {"name": "highest", "dose": 60}
    given = {"arm": "arm", "metrics": metrics, "context": ["age"]}
    experiment = cb.Experiment.from_frame(table(), arms=[*DOSES, extra], **given)
    assert experiment.arms == ("low", "mid", "high", "highest")
    learner = experiment.learn(table())
    assert len(learner.explain({"age": 40}).arms) == 4
    learner.save(tmp_path / "trial.npz")
    again = cb.Learner.load(tmp_path / "trial.npz")
    assert again.experiment.arm_features == experiment.arm_features
    assert again.recommend(table()) == learner.recommend(table())
    with pytest.raises(InvalidError, match=r"column 'arm' has arms that are not declared: high, mid. Add them"):
        cb.Experiment.from_frame(table(), arms=["low"], **given)


def test_the_service_uses_them_and_cannot_add_arms_without(tmp_path):
    experiment = cb.Experiment.from_dict(TRIAL)
    with closing(open_store(str(tmp_path / "log.db"), create=True)) as store:
        with Ledger().transaction(store, 1) as transaction:
            Turn(transaction).create(experiment)
            assert features_of(transaction.state("trial").policy) == [[10], [20], [40]]
            with pytest.raises(ConflictError, match="arms of this experiment are described by dose, and a new one is"):
                Turn(transaction).add_arm("trial", "more")
        with Ledger().transaction(store, 2) as transaction:
            Turn(transaction).retire_arm("trial", "mid")
        with Ledger().transaction(store, 3) as transaction:
            assert features_of(transaction.state("trial").policy) == [[10], [40]]
