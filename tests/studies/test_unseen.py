"""The environments that nothing is tuned on, and what is made of runs there."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

import conebandit as cb
from conebandit.regret import SERIES
from conebandit.studies.bench import CONTENDERS, DEFAULT
from conebandit.studies.standings import standings
from conebandit.studies.suite import SUITE

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
unseen_kinds, unseen, peers, peers_play = map(
    importlib.import_module, ("unseen_kinds", "unseen", "peers", "peers_play")
)

KINDS = unseen_kinds.kinds()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_every_kind_keeps_the_contract_and_has_something_to_learn(kind):
    env = kind.make(0)
    cb.check_environment(env)
    assert env.change_points[-1] < kind.horizon
    target = env.contexts(np.random.default_rng(0), 500, kind.horizon)
    means = env.means(target)
    assert means.min() > 0
    share = cb.pareto_mask(means, env.cone).mean()
    assert 1 / env.n_arms < share < 0.95, "some arms are on the front and some are not"
    assert not np.array_equal(means, kind.make(1).means(target)), "every seed draws its own means"
    np.testing.assert_array_equal(means, kind.make(0).means(target))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_noise_has_the_mean_that_is_promised(kind):
    env = kind.make(0)
    one = env.means(env.contexts(np.random.default_rng(0), 1, 0))[:, :2]
    rewards = env.rewards(np.random.default_rng(1), np.repeat(one, 40_000, axis=0))
    error = rewards.std(axis=0) / 200 + 1e-12
    assert (np.abs(rewards.mean(axis=0) - one[0]) < 5 * error).all()  # 142 averages: chance of a false alarm 1e-4


def test_there_are_as_many_kinds_as_promised():
    names = [kind.name for kind in KINDS]
    assert len(set(names)) == len(names) >= 20
    assert not set(names) & {task.name for task in SUITE}
    for horizon, seeds in unseen_kinds.SEEDS.items():
        assert sum(kind.horizon == horizon for kind in KINDS) >= 3
        assert len(seeds) >= (10 if horizon == min(unseen_kinds.SEEDS) else 5)
    assert len({kind.stream for kind in KINDS}) == len(KINDS) - 7, "the first eight share a stream, no others do"
    assert set(peers_play.KINDS) <= set(names)
    assert len(peers_play.KINDS) == 11


def test_rivals_are_all_that_learn():
    names = {contender.name for contender in unseen.contenders(DEFAULT)}
    assert {DEFAULT, "tree-adaptive", "linear"} <= names
    assert names >= {contender.name for contender in CONTENDERS if contender.baseline} - {"random"}
    assert not names & {"oracle", "random", "tree-sound", "tree-paper"}
    assert DEFAULT not in {contender.name for contender in unseen.contenders("linear")}


def row(task, policy, play):
    return dict.fromkeys(SERIES, 0.0) | {"task": task, "policy": policy, "seed": 0, "play": play}


def test_the_best_rival_of_each_kind_counts():
    plays = {"a": {DEFAULT: 0.2, "linear": 0.1, "binned": 0.3}, "b": {DEFAULT: 0.1, "linear": 0.8, "binned": 0.4}}
    table = standings([row(task, name, play) for task, one in plays.items() for name, play in one.items()])
    duels = unseen.find_duels(table, DEFAULT)
    assert [(duel.kind, duel.rival.policy) for duel in duels] == [("a", "linear"), ("b", "binned")]
    assert [duel.ratio for duel in duels] == pytest.approx([2.0, 0.25])


def test_looks_are_counted(tmp_path):
    log = tmp_path / "looks.md"
    for ratios in ([2.0, 0.5], [0.75]):
        unseen.count_look("some kinds", ratios, log)
    lines = log.read_text().splitlines()
    assert lines[-3].startswith("| ---")
    assert [line.split(" | ")[2:] for line in lines[-2:]] == [
        ["some kinds", "1.000", "2.000 |"],
        ["some kinds", "0.750", "0.750 |"],
    ]


def test_peers_meet_the_streams_of_simulate():
    kind = next(kind for kind in KINDS if kind.name == peers_play.KINDS[0])
    env = kind.make(3)
    rounds = env.change_points[-1] + 200
    policy = cb.LinearParetoUCB(env.n_arms, env.cone, env.context_dim, bounds=env.bounds)
    run = cb.simulate(policy, env, rounds, seed=3)
    contexts, outcomes = peers_play.stream(env, rounds, 3)
    np.testing.assert_array_equal(contexts, run.contexts)
    np.testing.assert_array_equal(outcomes[np.arange(rounds), run.arms], run.rewards)
    regret = peers_play.play_regret(env, contexts, run.arms)
    assert regret == pytest.approx(run.average("play", after=env.change_points[-1]))


def test_every_peer_that_plays_can_be_installed_and_started():
    assert set(peers.PLAYERS.values()) <= set(peers.PEERS.values())
    for name, package in peers.PLAYERS.items():
        assert name.startswith(package)
        assert (name in peers.EXPLORATION) == (package == "vowpalwabbit")
