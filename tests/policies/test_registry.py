"""Policies by name, and those that other packages offer."""

import subprocess
import sys
import zipfile

import pytest
from typer.testing import CliRunner

import conebandit as cb
from conebandit.cli import app
from conebandit.experiment.declaration import Experiment
from conebandit.experiment.errors import InvalidError
from conebandit.experiment.policy import make_policy
from conebandit.policies import registry
from conebandit.policies.compiled import CompiledPolicy
from conebandit.policies.pareto_ucb import ParetoUCB1
from conebandit.service.stores.base import open_store
from conebandit.studies.bench import CONTENDERS, known_contenders
from conebandit.validate.storage import PolicyFileError
from tests.service.driver import Driver

ORTHANT = cb.Cone.orthant(2)

GREEDY = """
from dataclasses import dataclass
from conebandit.policies.common import setting
from conebandit.policies.pareto_ucb import ParetoUCB1
from conebandit.validate.arguments import as_positive

@dataclass(eq=False, repr=False, kw_only=True)
class Greedy(ParetoUCB1):
    width: float = setting(1e-9, as_positive)

def function(): pass
"""


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Install a package that offers policies, by pip and from a wheel, into a folder of its own."""

    def installed(**offers):
        lines = [f"{name} = {where}" for name, where in offers.items()]
        info = "greedy_bandits-1.0.dist-info"
        content = {
            "greedy_bandits.py": GREEDY,
            f"{info}/METADATA": "Metadata-Version: 2.1\nName: greedy-bandits\nVersion: 1.0\n",
            f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            f"{info}/entry_points.txt": "\n".join(["[conebandit.policies]", *lines, ""]),
        }
        content[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in [*content, f"{info}/RECORD"])
        wheel = tmp_path / "greedy_bandits-1.0-py3-none-any.whl"
        with zipfile.ZipFile(wheel, "w") as file:
            for name, text in content.items():
                file.writestr(name, text)
        options = ["--quiet", "--no-index", "--no-deps", "--no-compile", "--disable-pip-version-check"]
        command = [sys.executable, "-m", "pip", "install", *options, "--target", str(tmp_path / "site"), str(wheel)]
        subprocess.run(command, check=True)
        monkeypatch.syspath_prepend(tmp_path / "site")
        registry.offered.cache_clear()

    yield installed
    sys.modules.pop("greedy_bandits", None)
    registry.offered.cache_clear()


def test_every_policy_of_ours_is_known_by_its_name():
    assert {policy.__name__: policy for policy in registry.OURS.values()} == registry.OURS
    public = {name for name in cb.__all__ if isinstance(getattr(cb, name), type)}
    ours = {name for name in public if issubclass(getattr(cb, name), CompiledPolicy)} - {"CompiledPolicy"}
    assert set(registry.OURS) == ours == set(registry.policy_names())


def test_a_class_that_a_process_defines_is_not_known():
    class Mine(ParetoUCB1):
        pass

    assert "Mine" not in registry.policy_names()
    with pytest.raises(KeyError):
        registry.find_policy("Mine")
    with pytest.raises(InvalidError, match=r"policy.name must be one of .*ConeTree.*; got 'Mine'"):
        make_policy(Experiment.from_dict(declared("Mine")), ["a", "b"])
    with pytest.raises(InvalidError, match=r"policy.name must be one of"):
        make_policy(Experiment.from_dict(declared("AdaptiveTree")), ["a", "b"])  # a kind of files, not a name


def declared(name):
    return {"id": "e", "arms": ["a", "b"], "metrics": [{"name": "m"}], "policy": {"name": name}}


def test_a_policy_of_another_package_is_loaded_served_and_benched(install, tmp_path):
    install(Greedy="greedy_bandits:Greedy")
    assert "Greedy" in registry.policy_names()
    policy = registry.find_policy("Greedy")(2, ORTHANT, 1)
    policy.observe([0.5], 0, [1.0, 2.0])
    policy.save(tmp_path / "policy.npz")
    again = cb.load_policy(tmp_path / "policy.npz")
    assert repr(again) == "Greedy(n_arms=2, context_dim=1, n_observations=1)"
    assert again.front([0.5]).means.tolist() == [[1.0, 2.0]]

    store = open_store(str(tmp_path / "log.db"))
    service = Driver(store)
    service.create({**declared("Greedy"), "id": "checkout"})
    service.decide([{"id": "1", "context": {}}])
    assert type(service.policy()).__name__ == "Greedy"
    store.close()

    assert [c.name for c in known_contenders()] == [*(c.name for c in CONTENDERS), *registry.policy_names()]
    options = ["--policy", "Greedy", "--task", "smooth-1", "--seeds", "1", "--horizon", "6000", "--jobs", "1"]
    done = CliRunner().invoke(app, ["bench", "--to", str(tmp_path / "bench"), *options])
    assert done.exit_code == 0, done.output
    assert '"policy": "Greedy"' in (tmp_path / "bench/leaderboard.json").read_text()


@pytest.mark.parametrize("name", ["ConeTree", "AdaptiveTree"])
def test_names_of_ours_are_taken(install, name):
    install(**{name: "greedy_bandits:Greedy"})
    with pytest.warns(UserWarning, match=f"package greedy-bandits offers a policy named '{name}', which is the name"):
        names = registry.policy_names()
    assert set(names) == set(registry.OURS)
    assert registry.find_policy("ConeTree") is cb.ConeTree


@pytest.mark.parametrize(
    ("where", "says"),
    [
        ("no_such_module:Greedy", "of package greedy-bandits cannot be imported: ModuleNotFoundError"),
        ("greedy_bandits:Nothing", "of package greedy-bandits cannot be imported: AttributeError"),
        ("greedy_bandits:function", "must be a subclass of conebandit.policies.compiled.CompiledPolicy; got <function"),
        ("greedy_bandits:ParetoUCB1", "must have the name of its class, 'ParetoUCB1'"),
    ],
)
def test_a_broken_offer_is_explained_and_disturbs_nothing_of_ours(install, tmp_path, where, says):
    install(Broken=where)
    with pytest.raises(ValueError, match=f"policy 'Broken' .*{says}"):
        registry.find_policy("Broken")
    with pytest.raises(InvalidError, match=f"policy: policy 'Broken' .*{says}"[:60]):
        make_policy(Experiment.from_dict(declared("Broken")), ["a", "b"])
    ParetoUCB1(2, ORTHANT, 1).save(tmp_path / "policy.npz")
    assert cb.load_policy(tmp_path / "policy.npz").n_observations == 0
    assert make_policy(Experiment.from_dict(declared("ConeTree")), ["a", "b"]).n_arms == 2


def test_a_file_of_a_package_that_is_not_installed_is_refused(install, tmp_path):
    class Elsewhere(ParetoUCB1):
        pass

    Elsewhere(2, ORTHANT, 1).save(tmp_path / "policy.npz")
    with pytest.raises(PolicyFileError, match=r"a policy of kind 'Elsewhere'; this version knows \['AdaptiveTree'"):
        cb.load_policy(tmp_path / "policy.npz")
