"""Policies and environments by import path, and what is said when there are none."""

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import conebandit as cb
from conebandit.cli import app
from conebandit.studies.bench import find_contenders, run_suite
from conebandit.studies.own import drawn_by, imported, made_for
from conebandit.studies.suite import find_tasks

EXAMPLES = Path(__file__).parents[2] / "examples"
MINE = """
import numpy as np
import conebandit as cb
from conebandit.environments import shift


def means(x):
    return np.stack([np.hstack([0.5 + 0.4 * x, 0.9 - 0.4 * x]), np.hstack([0.9 - 0.4 * x, 0.5 + 0.4 * x])], axis=1)


world = cb.World("mine", shift.stationary(shift.uniform(1)), means, cb.Cone.orthant(2), 2)


def drawn(seed, tilt=0.0):
    return cb.environments.smooth(n_arms=3, context_dim=1, change_point=10, seed=seed)


class Broken:
    def __init__(self):
        raise RuntimeError("not today")


class Other:
    n_arms, n_objectives = 3, 2

    def __init__(self, n_arms, cone, context_dim):
        pass
"""


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """A folder with a module of a name that no other test has, which is the current one."""
    name = f"mine_{tmp_path.name}".replace("-", "_")
    (tmp_path / f"{name}.py").write_text(MINE + (EXAMPLES / "own_policy.py").read_text())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield name
    sys.modules.pop(name, None)


def test_bench_takes_a_policy_and_an_environment_of_ones_own(mine, tmp_path):
    command = ["bench", "--policy", f"{mine}:EpsilonGreedy", "--policy", "random", "--task", f"{mine}:world"]
    done = CliRunner().invoke(app, [*command, "--horizon", "60", "--seeds", "2", "--jobs", "2"])
    assert done.exit_code == 0, done.output
    page = (tmp_path / "bench/leaderboard.md").read_text()
    assert f"{mine}:EpsilonGreedy" in page
    assert f"{mine}:world" in page


def test_ones_own_run_is_that_of_simulate_bit_for_bit(mine, tmp_path):
    folders = (str(tmp_path),)
    contenders, tasks = find_contenders([f"{mine}:EpsilonGreedy"], folders), find_tasks([f"{mine}:drawn"], folders)
    rows = run_suite(tasks=tasks, contenders=contenders, horizon=50, seeds=(3,), n_jobs=2)
    world = cb.environments.smooth(n_arms=3, context_dim=1, change_point=10, seed=3)
    policy = imported(f"{mine}:EpsilonGreedy")(3, world.cone, 1, seed=3)
    assert rows[0]["play"] == cb.simulate(policy, world, 50, seed=3).average("play", after=10)


@pytest.mark.parametrize(
    ("option", "path", "says"),
    [
        ("--policy", "not_there_at_all:X", "'{path}': there is no module not_there_at_all in"),
        ("--policy", "{mine}:Nothing", "'{path}': {mine} has no Nothing."),
        ("--policy", "{mine}:means", "TypeError: means() takes 1 positional argument"),
        ("--policy", "{mine}:Other", "it has no context_dim; check_policy says what else is wrong with it."),
        ("--task", "not_there_at_all:x", "'{path}': there is no module not_there_at_all in"),
        ("--task", "{mine}:nothing", "'{path}': {mine} has no nothing."),
        ("--task", "{mine}:Broken", "RuntimeError: not today"),
        ("--task", "{mine}:Other.n_objectives", "it has no n_arms; check_environment says what else is wrong with it."),
    ],
)
def test_bench_names_what_cannot_be_made_before_anything_runs(mine, monkeypatch, option, path, says):
    monkeypatch.setattr("conebandit.studies.bench.run_suite", lambda **_: pytest.fail("it has begun to run"))
    monkeypatch.setattr("rich.console.Console.width", 1000)
    given = path.format(mine=mine)
    done = CliRunner().invoke(app, ["bench", "--task", "paper", "--policy", "random", option, given])
    assert done.exit_code == 2, done.output
    told = f"{'policy' if option == '--policy' else 'environment'} {given} cannot be made: "
    told += says.format(path=given, mine=mine)
    assert f"Invalid value for {option}: {told}" in " ".join(done.output.replace("│", " ").split())
    assert not Path("bench").exists()


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("{}:Nothing", "has no Nothing"),
        ("not_there_at_all:x", "there is no module not_there_at_all in .*, nor installed"),
        ("{}:", "write module:name"),
        (":x", "write module:name"),
    ],
)
def test_what_is_not_there_is_named(mine, tmp_path, path, says):
    with pytest.raises(ValueError, match=says):
        imported(path.format(mine), (str(tmp_path),))


def test_a_module_that_fails_says_why(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "fails_at_import.py").write_text("1 / 0\n")
    (tmp_path / "needs_another.py").write_text("import this_is_not_installed\n")
    with pytest.raises(ValueError, match="cannot be imported: ZeroDivisionError: division by zero"):
        imported("fails_at_import:x", (str(tmp_path),))
    with pytest.raises(ValueError, match="needs the module this_is_not_installed"):
        imported("needs_another:x", (str(tmp_path),))


def test_seed_and_bounds_are_handed_over_where_they_are_taken(mine):
    world = cb.environments.paper(n_arms=3)
    assert made_for(lambda n_arms, cone, context_dim: (n_arms, context_dim), world, 5, {}) == (3, 1)
    made = made_for(lambda n_arms, cone, context_dim, seed, bounds, a=1: (seed, bounds.tolist(), a), world, 5, {"a": 2})
    assert made == (5, [[0.0, 1.0]], 2)
    assert drawn_by(world, 5, {}) is world
    with pytest.raises(ValueError, match="it is an environment already, and has no setting 'nu'"):
        drawn_by(world, 5, {"nu": 1.0})


def test_an_unknown_name_says_how_to_give_ones_own():
    done = CliRunner().invoke(app, ["bench", "--policy", "EpsilonGreedy"])
    assert done.exit_code == 2
    assert "mine:name" in " ".join(done.output.replace("│", " ").split())
