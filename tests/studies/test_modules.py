"""Modules of the user's own are what their files say, however long the process that runs them has been there."""

import importlib
import sys

import pytest

import conebandit as cb
from conebandit.studies import modules
from conebandit.studies.modules import marks, read_module

POLICY = '''"""Always the same arm."""
import numpy as np
import conebandit as cb
from {helper} import ARM


class Fixed:
    def __init__(self, n_arms, cone, context_dim):
        self.n_arms, self.n_objectives, self.context_dim = n_arms, 2, context_dim

    def decide(self, context, key):
        return cb.Decision(ARM, 1.0, np.arange(self.n_arms) == ARM)

    def observe(self, context, arm, reward):
        pass

    def front(self, context):
        return cb.Front((ARM,), np.full((1, 2), np.nan), np.full((1, 2), np.inf))
'''


@pytest.fixture
def names(tmp_path, monkeypatch):
    """Of a module and of one that it imports, which no other test has."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    end = tmp_path.name.replace("-", "_")
    yield f"fixed_{end}", f"arm_{end}"
    for name in (f"fixed_{end}", f"arm_{end}"):
        sys.modules.pop(name, None)
        modules._read.pop(name, None)


def write(folder, names, arm):
    """Write both; the size differs with the arm, since Python tells forms of a file apart by second and size."""
    folder.mkdir(exist_ok=True)
    (folder / f"{names[0]}.py").write_text(POLICY.format(helper=names[1]))
    (folder / f"{names[1]}.py").write_text(f"ARM = {arm}  #{' ' * arm}\n")


def ran(folder, names, to, **options):
    """Play regret of each run, and what the runs were made with."""
    (folder / "study.toml").write_text(
        f'policies = ["{names[0]}:Fixed"]\nenvironments = [{{name = "paper", change_point = 20}}]\nhorizon = 60\n'
        "seeds = 2\n"
    )
    frame = cb.run_study(folder / "study.toml", to, **options).to_frame()
    return frame["play"].to_list(), set(frame["versions"].to_list())


def expected(arm):
    """The same from an arm by hand."""
    world = cb.environments.paper(change_point=20)
    found = []
    for seed in (0, 1):
        contexts = cb.simulate(cb.RandomArm(world.n_arms, world.cone, 1), world, 60, seed=seed).contexts
        gaps = [cb.gap(means, cb.pareto_mask(means, world.cone), world.cone)[arm] for means in world.means(contexts)]
        found.append(sum(gaps[20:]) / 40)
    return pytest.approx(found)


@pytest.mark.parametrize("options", [{"backend": "sequential"}, {"jobs": 2}])
def test_a_file_that_was_edited_counts_in_workers_that_know_the_old_one(tmp_path, names, options):
    made = set()
    for arm in (0, 3):
        write(tmp_path / "here", names, arm)  # only the module that is imported by the one that the study names
        play, versions = ran(tmp_path / "here", names, tmp_path / f"results {arm}", **options)
        assert play == expected(arm)
        made |= versions
    assert all(names[0] in each for each in made)


def test_studies_with_modules_of_the_same_name_have_each_its_own(tmp_path, names):
    write(tmp_path / "one", names, 0)
    write(tmp_path / "two", names, 4)
    for turn, (folder, arm) in enumerate([("one", 0), ("two", 4), ("one", 0)]):
        play, _ = ran(tmp_path / folder, names, tmp_path / f"results {turn}", backend="sequential")
        assert play == expected(arm)


def test_a_module_that_somebody_else_has_imported_is_read_again(tmp_path, names, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / f"{names[1]}.py").write_text("ARM = 1\n")
    importlib.import_module(names[1])
    (tmp_path / f"{names[1]}.py").write_text("ARM = 1 + 1\n")
    assert read_module(names[1], [str(tmp_path)]).ARM == 2


def test_a_module_that_has_not_changed_is_not_run_again(tmp_path, names):
    write(tmp_path, names, 2)
    first = read_module(names[0], [str(tmp_path)])
    mark = marks([f"{names[0]}:Fixed", "ConeTree"])
    assert read_module(names[0], [str(tmp_path)]) is first
    assert marks([f"{names[0]}:Fixed"]) == mark
    assert list(mark) == [names[0]]


def test_installed_modules_are_left_alone(tmp_path):
    assert read_module("json", [str(tmp_path)]) is sys.modules["json"]
    assert read_module("conebandit.environments", [str(tmp_path)]) is sys.modules["conebandit.environments"]


def test_an_edit_while_a_study_runs_is_told(tmp_path, names):
    """The second run edits the file, so that later ones are made with another form of it."""
    file = tmp_path / f"{names[1]}.py"
    file.write_text(
        "from pathlib import Path\nimport conebandit as cb\n\n\ndef world(seed):\n"
        "    if seed == 1:\n        Path(__file__).write_text(Path(__file__).read_text() + '# edited')\n"
        "    return cb.environments.paper(n_arms=3, change_point=20)\n"
    )
    table = f'policies = ["random"]\nenvironments = ["{names[1]}:world"]\nhorizon = 40\nseeds = 4\n'
    (tmp_path / "s.toml").write_text(table)
    with pytest.warns(UserWarning, match=f"a worker has other versions than this process.*{names[1]} "):
        study = cb.run_study(tmp_path / "s.toml", tmp_path / "results", jobs=1)
    assert study.to_frame()["versions"].n_unique() >= 2
