"""The contract checks accept what is right and name what is wrong, one fault at a time."""

import random

import numpy as np
import pytest

import conebandit as cb
from conebandit import Cone, ConeTree, Decision, Front, RandomArm, check_environment, check_policy
from conebandit.environments import base
from tests.policies.rows import KINDS, make


class Learner:
    """A right policy, as plain as can be: a random arm, and a front of all arms. Faulty ones change one thing."""

    n_arms, n_objectives, context_dim = 3, 2, 2

    def __init__(self):
        self.seen = []

    def decide(self, context, key):
        self.valid(context)
        return self.decision(random.Random(f"{len(self.seen)} {key}").randrange(3))

    def decision(self, arm):
        return Decision(arm, 1 / 3, np.ones(3, dtype=bool))

    def observe(self, context, arm, reward):
        self.valid(context)
        if not 0 <= arm < 3:
            raise ValueError(f"arm must be 0, 1 or 2; got {arm}.")
        if np.shape(reward) != (2,):
            raise ValueError(f"reward must have 2 entries; got {reward}.")
        self.seen.append((context, arm, reward))

    def front(self, context):
        return Front((0, 1, 2), np.full((3, 2), np.nan), np.full((3, 2), np.inf))

    def valid(self, context):
        if np.shape(context) != (2,) or not np.isfinite(context).all():
            raise ValueError(f"context must be two numbers; got {context}.")


class World:
    """A right environment; faulty ones change one thing."""

    n_arms, n_objectives, context_dim = 3, 2, 1
    cone = Cone.orthant(2)
    change_points = (100,)

    def contexts(self, rng, n, start):
        return rng.random((n, 1))

    def means(self, contexts):
        return 0.5 + 0.5 * contexts[:, :, None] * np.array([[1, 0], [0, 1], [0.6, 0.6]])

    def rewards(self, rng, means):
        return means + 0.1 * rng.standard_normal(means.shape)


# ---- what is right --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "policy",
    [
        Learner(),
        RandomArm(4, Cone.orthant(2), 1),
        RandomArm(1, Cone.orthant(1), 3, bounds=[[-5, -4], [0, 10], [0, 1]]),
        ConeTree(3, Cone.orthant(2), 2),
        ConeTree(3, Cone.orthant(2), 1, preset="paper"),
        ConeTree(5, Cone.from_rays([[1, 0.6], [0.6, 1]]), 1, sigma=0.01, bounds=[[10, 20]]),
        ConeTree(2, Cone.orthant(3), 3),
    ],
    ids=lambda policy: type(policy).__name__,
)
def test_right_policies_pass(policy):
    assert check_policy(policy) is None


def test_the_policy_itself_learns_nothing_from_being_checked():
    tree, learner = ConeTree(3, Cone.orthant(2), 2), Learner()
    check_policy(tree)
    check_policy(learner)
    assert tree.n_observations == 0
    assert learner.seen == []


def test_a_policy_that_has_learned_passes_and_stays_as_it_is():
    env = cb.environments.paper(4, change_point=100, sigma=0.1)
    policy = cb.simulate(ConeTree(4, env.cone, 1, sigma=0.1), env, 3000).policy
    before = [policy.decide([0.3], key) for key in range(10)]
    check_policy(policy)
    assert policy.n_observations == 3000
    assert [d.arm for d in before] == [policy.decide([0.3], key).arm for key in range(10)]


def test_a_right_environment_passes():
    assert check_environment(World()) is None  # ours: tests/environments


def test_noise_that_is_rare_and_large_passes():
    class Rare(World):
        def rewards(self, rng, means):
            return means * (rng.random(means.shape) < 0.01) * 100

    check_environment(Rare())


# ---- policies that are wrong ----------------------------------------------------------------------------------------


class NoFront(Learner):
    front = None


class NoArms(Learner):
    def __getattribute__(self, name):
        if name == "n_arms":
            raise AttributeError(name)
        return super().__getattribute__(name)


class Whimsical(Learner):
    """Forgets that the key stands for the randomness."""

    def decide(self, context, key):
        self.valid(context)
        return self.decision(random.SystemRandom().randrange(3))


class Counting(Learner):
    """A round robin that moves on when asked, not when told."""

    asked = 0

    def decide(self, context, key):
        self.valid(context)
        self.asked += 1
        return self.decision(self.asked % 3)


class Unsure(Learner):
    """Same arm, but the propensity drifts with each question."""

    asked = 0

    def decide(self, context, key):
        self.asked += 1
        return super().decide(context, key)._replace(propensity=1 / (3 + self.asked))


class TooFar(Learner):
    def decision(self, arm):
        return Decision(arm + 1, 1 / 3, np.ones(4, dtype=bool))


class Impossible(Learner):
    def decision(self, arm):
        return Decision(arm, 0.0, np.ones(3, dtype=bool))


class Overconfident(Learner):
    def decision(self, arm):
        return Decision(arm, 1.5, np.ones(3, dtype=bool))


class Undefined(Learner):
    def decision(self, arm):
        return Decision(arm, np.nan, np.ones(3, dtype=bool))


class PlaysTheDead(Learner):
    def decision(self, arm):
        return Decision(arm, 1 / 3, np.arange(3) != arm)


class Partial(Learner):
    """Probabilities that do not add up to 1."""

    chances: tuple[float, ...] = (1 / 3, 1 / 3, 0.0)
    mask = (True, True, True)

    def decision(self, arm):
        chances = np.roll(self.chances, arm)
        return Decision(arm, 1 / 3, np.roll(self.mask, arm), chances)


class Short(Partial):
    chances = (1 / 3, 2 / 3)


class Negative(Partial):
    chances = (1 / 3, -1 / 3, 1.0)


class Contradictory(Partial):
    chances = (1 / 2, 1 / 4, 1 / 4)


class HopesForTheDead(Partial):
    chances = (1 / 3, 1 / 3, 1 / 3)
    mask = (True, True, False)


class EmptyFront(Learner):
    def front(self, context):
        return Front((), np.empty((0, 2)), np.empty((0, 2)))


class StrangeFront(Learner):
    def front(self, context):
        return Front((0, 3), np.zeros((2, 2)), np.zeros((2, 2)))


class RefusesNan(Learner):
    def observe(self, context, arm, reward):
        if np.isnan(reward).any():
            raise ValueError("reward must not be nan.")
        super().observe(context, arm, reward)


class Crashes(Learner):
    def decide(self, context, key):
        raise KeyError("oops")


class ReturnsAnInteger(Learner):
    def decide(self, context, key):
        return super().decide(context, key).arm


class AnyContext(Learner):
    def valid(self, context):
        pass


class AnyLength(Learner):
    def valid(self, context):
        if not np.isfinite(context).all():
            raise ValueError("context must be finite.")


class AnyArm(Learner):
    def observe(self, context, arm, reward):
        super().observe(context, arm % 3, reward)


class CountsFromTheEnd(Learner):
    """Like a list: index -1 is the last one. Nearly every careless policy does this."""

    def observe(self, context, arm, reward):
        super().observe(context, range(3)[arm], reward)


class AnyReward(Learner):
    def observe(self, context, arm, reward):
        super().observe(context, arm, reward[:2])


class LeavesTraces(Learner):
    """Refuses, but only after it has changed its state."""

    def observe(self, context, arm, reward):
        self.seen.append(None)
        super().observe(context, arm, reward)
        self.seen.pop()


class Merging(Learner):
    """A right one that can be merged."""

    def clone(self):
        return type(self)()

    @property
    def n_observations(self):
        return len(self.seen)

    def merge(self, other):
        self.seen = [*self.seen, *other.seen]
        return self


class TakesItAway(Merging):
    def merge(self, other):
        self.seen, other.seen = [*self.seen, *other.seen], []


class Forgets(Merging):
    def merge(self, other):
        self.seen = self.seen or other.seen


class AddsToNothing(Merging):
    def merge(self, other):
        self.seen = [*self.seen, None, *other.seen]


class CannotBeMerged(Merging):
    def merge(self, other):
        raise TypeError("it cannot be merged.")


class RefusesLate(Merging):
    def merge(self, other):
        self.seen.append(None)
        raise TypeError("it cannot be merged.")


@pytest.mark.parametrize("policy", [Merging(), CannotBeMerged(), *(make(kind) for kind in KINDS)])
def test_policies_that_can_be_merged_and_those_that_say_no_pass(policy):
    check_policy(policy)


@pytest.mark.parametrize(
    ("policy", "says"),
    [
        (TakesItAway, "merge must leave the other policy as it is"),
        (Forgets, "merge must count the observations of both, 100; n_observations is 66"),
        (AddsToNothing, "merge with a policy that has learned nothing must change nothing"),
        (RefusesLate, "a merge that is refused must leave no trace"),
        (NoFront, "'front' must be a method"),
        (NoArms, "it has no attribute 'n_arms'"),
        (Whimsical, "decide must be a function of state, context and key; two equal calls differ"),
        (Counting, "decide must be a function of state, context and key; two equal calls differ"),
        (Unsure, "decide must be a function of state, context and key; two equal calls differ"),
        (TooFar, "the mask of a decision must be a boolean array"),
        (Impossible, r"propensity in \(0, 1\]"),
        (Overconfident, r"propensity in \(0, 1\]"),
        (Undefined, r"propensity"),
        (PlaysTheDead, "the arm must be among the active ones"),
        (Partial, "probabilities must be at least 0 and add up to 1"),
        (Negative, "probabilities must be at least 0 and add up to 1"),
        (Short, "probabilities must be an array of 3 floats"),
        (Contradictory, "the probability of the arm must be the propensity"),
        (HopesForTheDead, "only active arms may have a positive probability"),
        (EmptyFront, r"front must name one or more arms below 3; got \(\)"),
        (StrangeFront, r"front must name one or more arms below 3; got \(0, 3\)"),
        (RefusesNan, "raised ValueError: reward must not be nan"),
        (Crashes, "raised KeyError: 'oops'"),
        (ReturnsAnInteger, "decide, observe or front raised AttributeError"),
        (AnyContext, "a nan context must be refused with a ValueError"),
        (AnyContext, "a nan context in observe must be refused"),
        (AnyLength, "a context of the wrong length must be refused with a ValueError"),
        (AnyArm, "an unknown arm must be refused with a ValueError"),
        (CountsFromTheEnd, "a negative arm must be refused with a ValueError"),
        (AnyReward, "a reward of the wrong length must be refused with a ValueError"),
        (LeavesTraces, "refused arguments must leave no trace; decisions changed"),
    ],
)
def test_wrong_policies_are_refused_by_name(policy, says):
    with pytest.raises(ValueError, match=rf"^{policy.__name__} does not keep the contract:[\s\S]*{says}"):
        check_policy(policy())


def test_an_object_that_is_no_policy_is_told_all_that_is_missing():
    with pytest.raises(ValueError, match="object does not keep the contract") as caught:
        check_policy(object())
    lines = str(caught.value).splitlines()[1:]
    assert lines == [
        "- it has no attribute 'n_arms'",
        "- it has no attribute 'n_objectives'",
        "- it has no attribute 'context_dim'",
        "- it has no method 'decide'",
        "- it has no method 'observe'",
        "- it has no method 'front'",
    ]


def test_a_wrong_policy_is_told_everything_at_once():
    class Careless(AnyContext):
        def observe(self, context, arm, reward):
            pass

    with pytest.raises(ValueError, match="Careless") as caught:
        check_policy(Careless())
    assert str(caught.value).count("must be refused") == 6


# ---- environments that are wrong ------------------------------------------------------------------------------------


class NoCone(World):
    cone = None


class OtherCone(World):
    cone = Cone.orthant(3)


class Backwards(World):
    change_points = (200, 100)


class Halfway(World):
    change_points = (99.5,)


class Flat(World):
    def contexts(self, rng, n, start):
        return rng.random(n)


class TooWide(World):
    def contexts(self, rng, n, start):
        return rng.random((n, 2))


class NanContexts(World):
    def contexts(self, rng, n, start):
        return np.full((n, 1), np.nan)


class OwnContexts(World):
    """Ignores the generator that it is given."""

    own = np.random.default_rng(0)

    def contexts(self, rng, n, start):
        return self.own.random((n, 1))


class ArmsLast(World):
    def means(self, contexts):
        return super().means(contexts).transpose(0, 2, 1)


class ZeroMeans(World):
    def means(self, contexts):
        return super().means(contexts) - 0.5


class InfiniteMeans(World):
    def means(self, contexts):
        return super().means(contexts) * np.inf


class RestlessMeans(World):
    calls = 0

    def means(self, contexts):
        self.calls += 1
        return super().means(contexts) + 0.01 * self.calls


class RelativeMeans(World):
    """The means in a context depend on which others are asked for."""

    def means(self, contexts):
        return super().means(contexts - contexts.mean(axis=0) + 0.5)


class FlatRewards(World):
    def rewards(self, rng, means):
        return super().rewards(rng, means)[..., 0]


class NanRewards(World):
    def rewards(self, rng, means):
        return np.full_like(means, np.nan)


class OwnRewards(World):
    own = np.random.default_rng(0)

    def rewards(self, rng, means):
        return super().rewards(self.own, means)


class Biased(World):
    """A bias of 0.005 in one metric, with a deviation of 0.1."""

    def rewards(self, rng, means):
        return super().rewards(rng, means) + np.array([0, 0.005])


class CutRewards(World):
    """Cutting noise to [0, 1] moves the average of arms near the edge."""

    def rewards(self, rng, means):
        return np.clip(means + rng.standard_normal(means.shape), 0, 1)


class Broken(World):
    def rewards(self, rng, means):
        raise RuntimeError("the dog ate it")


class NoMeans(World):
    means = 0.5


@pytest.mark.parametrize(
    ("environment", "says"),
    [
        (NoCone, "cone must be a Cone of dimension n_objectives = 2; got None"),
        (OtherCone, "cone must be a Cone of dimension n_objectives = 2"),
        (Backwards, r"change_points must be increasing integers; got \(200, 100\)"),
        (Halfway, r"change_points must be increasing integers; got \(99.5,\)"),
        (Flat, r"contexts\(rng, 64, 0\) must be finite with shape \(64, 1\); got \(64,\)"),
        (TooWide, r"contexts\(rng, 64, 0\) must be finite with shape \(64, 1\); got \(64, 2\)"),
        (NanContexts, r"contexts\(rng, 64, 0\) must be finite"),
        (OwnContexts, "contexts must depend on nothing but rng, n and start"),
        (ArmsLast, r"means of 64 contexts must have shape \(64, 3, 2\); got \(64, 2, 3\)"),
        (ZeroMeans, "means must be finite and positive .*the smallest is 0"),
        (InfiniteMeans, "means must be finite and positive"),
        (RestlessMeans, "means must be a function of each context alone"),
        (RelativeMeans, "means must be a function of each context alone"),
        (FlatRewards, r"rewards\(rng, means\) must be finite with the shape of means, \(64, 3, 2\); got \(64, 3\)"),
        (NanRewards, r"rewards\(rng, means\) must be finite"),
        (OwnRewards, "rewards must depend on nothing but rng and means"),
        (Biased, "rewards must average to their means; arm ., objective 1 has mean"),
        (CutRewards, "rewards must average to their means"),
        (Broken, "raised RuntimeError: the dog ate it"),
        (NoMeans, "'means' must be a method"),
    ],
)
def test_wrong_environments_are_refused_by_name(environment, says):
    with pytest.raises(ValueError, match=rf"^{environment.__name__} does not keep the contract:[\s\S]*{says}"):
        check_environment(environment())


def test_an_object_that_is_no_environment_is_told_all_that_is_missing():
    with pytest.raises(ValueError, match="dict does not keep the contract") as caught:
        check_environment({})
    assert str(caught.value).count("it has no attribute") == 5
    assert str(caught.value).count("it has no method") == 3


def test_a_wrong_environment_is_told_everything_at_once():
    class Careless(OtherCone, Backwards, ZeroMeans):
        def rewards(self, rng, means):
            return means + 1

    with pytest.raises(ValueError, match="Careless") as caught:
        check_environment(Careless())
    for part in ("cone must", "change_points must", "means must be finite", "rewards must average"):
        assert part in str(caught.value)


# ---- wrong in ways that only show in a simulation -------------------------------------------------------------------


class LongMask(Learner):
    """The simulator raises an IndexError."""

    def decision(self, arm):
        return Decision(arm, 1 / 3, np.ones(5, dtype=bool))


class ShapelessFront(Learner):
    def front(self, context):
        return Front((0, 1), np.zeros(7), np.zeros(7))


class InPlace(World):
    """Overwrites the means, from which the simulator then computes the regret."""

    def rewards(self, rng, means):
        means += 0.1 * rng.standard_normal(means.shape)
        return means


class FirstChunkOnly(World):
    def contexts(self, rng, n, start):
        return rng.random((n, 1)) if start == 0 else np.full((n, 3), np.nan)


class ZeroAfterTheChange(World):
    def contexts(self, rng, n, start):
        rounds = np.arange(start, start + n)
        return np.where(rounds < 100, rng.random(n), -rng.random(n))[:, None]

    def means(self, contexts):
        return np.maximum(super().means(contexts), 0) * (contexts[:, :, None] >= 0)


class SamePointTwice(World):
    change_points = (100, 100)


@pytest.mark.parametrize("policy", [LongMask, ShapelessFront])
def test_these_policies_should_be_refused(policy):
    with pytest.raises(ValueError, match=policy.__name__):
        check_policy(policy())


@pytest.mark.parametrize("environment", [InPlace, FirstChunkOnly, ZeroAfterTheChange, SamePointTwice])
def test_these_environments_should_be_refused(environment):
    with pytest.raises(ValueError, match=environment.__name__):
        check_environment(environment())


def test_means_that_are_nan_are_the_only_fault_that_is_told():
    law = cb.environments.shift.stationary(cb.environments.shift.uniform())
    env = base.World("nan", law, lambda x: np.full((len(x), 2, 2), np.nan), Cone.orthant(2), 2)
    with pytest.raises(ValueError, match="contract") as caught:
        check_environment(env)
    assert all(line.startswith("- means must be finite and positive") for line in str(caught.value).splitlines()[1:])
