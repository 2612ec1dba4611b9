"""Environments as Gymnasium has them."""

import warnings

import numpy as np
import pytest

import conebandit as cb

gymnasium = pytest.importorskip("gymnasium", reason="pip install 'conebandit[gym]'")
from gymnasium.utils.env_checker import check_env  # noqa: E402

from conebandit import gym  # noqa: E402

NEED_DATA = {"actg175", "rand_hie"}
IDS = sorted(f"conebandit/{name}-v0" for name in gym.names() if name not in NEED_DATA)


class Weighted(gymnasium.RewardWrapper):  # type: ignore[name-defined]
    """One number in place of the vector, as MO-Gymnasium's LinearReward makes it."""

    def reward(self, reward):
        return float(np.mean(reward))


@pytest.mark.parametrize("id_", IDS)
def test_every_environment_passes_the_checker(id_):
    env = gymnasium.make(id_, horizon=30)
    with warnings.catch_warnings():
        # A vector is what MO-Gymnasium has; the checker, written for one number, complains of its type alone.
        warnings.filterwarnings("ignore", ".*The reward returned by `step\\(\\)` must be a float")
        warnings.filterwarnings("ignore", ".*different from the unwrapped version")
        check_env(env.unwrapped, skip_render_check=True)
    unwrapped = env.unwrapped
    assert unwrapped.reward_space.shape == (unwrapped.reward_dim,) == (unwrapped.environment.n_objectives,)


def test_with_one_number_the_checker_has_nothing_to_say():
    class Scalar(gym.BanditEnv):
        def step(self, action):
            observation, reward, *rest = super().step(action)
            return observation, float(reward.mean()), *rest

    check_env(Scalar(cb.environments.dose_finding(), horizon=30), skip_render_check=True)
    wrapped = Weighted(gymnasium.make(IDS[0]))
    wrapped.reset(seed=0)
    assert isinstance(wrapped.step(0)[1], float)


def test_rounds_are_those_of_the_environment():
    world = cb.environments.dose_finding(start=600, stop=700)
    env = gym.BanditEnv(world, horizon=1200)
    observation, _ = env.reset(seed=3)
    seen, rewards, means = [], [], []
    for t in range(1200):
        seen.append(observation)
        observation, reward, terminated, truncated, info = env.step(t % 8)
        assert not terminated
        assert truncated == (t == 1199)
        rewards.append(reward)
        means.append(info["means"][t % 8])
    np.testing.assert_allclose(
        np.array(means)[:, 0], world.means(np.array(seen))[np.arange(1200), np.arange(1200) % 8, 0]
    )
    assert np.mean(seen[:500], axis=0)[0] < 0.4 < np.mean(seen[700:], axis=0)[0]  # the population has aged
    # Noise of deviation 0.3: an average of 1200 is within six standard errors, 0.052.
    assert np.abs(np.mean(np.array(rewards) - means, axis=0)).max() < 0.052
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(0)
    env.reset(seed=3)
    np.testing.assert_array_equal(env.step(0)[1], rewards[0])


def test_refusals():
    env = gym.BanditEnv(cb.environments.paper(n_arms=3))
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(0)
    env.reset(seed=0)
    for wrong in (3, -1, 0.5):
        with pytest.raises(ValueError, match="arm must be an integer from 0 to 2"):
            env.step(wrong)
    with pytest.raises(ValueError, match="horizon must be"):
        gym.BanditEnv(cb.environments.paper(), horizon=0)
    with pytest.raises(ValueError, match="name must be one of"):
        gym.make("chess")


def test_an_environment_without_bounds():
    class Plain:
        n_arms, n_objectives, context_dim, change_points = 2, 1, 1, ()
        cone = cb.Cone.orthant(1)

        def contexts(self, rng, n, start):
            return rng.normal(size=(n, 1))

        def means(self, contexts):
            return np.ones((len(contexts), 2, 1))

        def rewards(self, rng, means):
            return means + rng.normal(size=means.shape)

    env = gym.BanditEnv(Plain(), horizon=5)
    observation, _ = env.reset(seed=0)
    assert env.observation_space.contains(observation)
