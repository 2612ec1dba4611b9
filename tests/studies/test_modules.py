"""Modules of the user's own are what their files say, however long the process that runs them has been there."""

import importlib
import sys

import pytest

import conebandit as cb
from conebandit.studies import modules
from conebandit.studies.comparison import compare
from conebandit.studies.modules import marks, read_module
from conebandit.studies.results import Results
from conebandit.studies.siblings import with_siblings

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
        modules._needed.pop(name, None)


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
    assert len(made) == 2, "the two forms are told apart"


def test_studies_with_modules_of_the_same_name_have_each_its_own(tmp_path, names):
    write(tmp_path / "one", names, 0)
    write(tmp_path / "two", names, 4)
    for turn, (folder, arm) in enumerate([("one", 0), ("two", 4), ("one", 0)]):
        play, _ = ran(tmp_path / folder, names, tmp_path / f"results {turn}", backend="sequential")
        assert play == expected(arm)


def test_modules_that_import_others_of_the_same_name_have_each_its_own(tmp_path, names):
    write(tmp_path / "one", names, 1)
    write(tmp_path / "two", names, 2)
    (tmp_path / "two" / f"{names[0]}.py").rename(tmp_path / "two" / f"{names[0]}_too.py")
    assert read_module(names[0], [str(tmp_path / "one")]).ARM == 1
    assert read_module(f"{names[0]}_too", [str(tmp_path / "two")]).ARM == 2
    assert read_module(names[0], [str(tmp_path / "one")]).ARM == 1


def test_a_module_that_somebody_has_dropped_is_noted_as_it_is_now(tmp_path, names):
    for folder, arm in (("one", 1), ("two", 2)):
        write(tmp_path / folder, names, arm)
        assert arm == read_module(names[0], [str(tmp_path / folder)]).ARM
        assert modules._read[names[1]][0] == tmp_path / folder / f"{names[1]}.py"
        sys.modules.pop(names[0])


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


def test_what_a_module_imports_is_read_again_when_somebody_else_has_imported_it(tmp_path, names, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    write(tmp_path, names, 1)
    importlib.import_module(names[1])
    write(tmp_path, names, 2)
    assert read_module(names[0], [str(tmp_path)]).ARM == 2


@pytest.mark.parametrize("way", ["import {0}", "from {0} import ARM", "def later():\n    from {0} import ARM"])
def test_the_mark_of_a_module_is_of_what_it_imports_as_well(tmp_path, names, way):
    (tmp_path / f"{names[0]}.py").write_text(way.format(names[1]))
    made = set()
    for text in ("ARM = 1", "ARM = 22", "ARM = 1"):
        (tmp_path / f"{names[1]}.py").write_text(text)
        read_module(names[0], [str(tmp_path)])
        made |= set(marks([f"{names[0]}:Fixed"]).values())
    assert len(made) == 2


def test_the_mark_does_not_depend_on_what_was_imported_before(tmp_path, names):
    write(tmp_path, names, 1)
    read_module(names[0], [str(tmp_path)])
    mark = marks([f"{names[0]}:Fixed"])
    for known in (modules._read, modules._needed):
        known.clear()
    read_module(names[1], [str(tmp_path)])
    read_module(names[0], [str(tmp_path)])
    assert marks([f"{names[0]}:Fixed"]) == mark


def test_modules_beside_one_are_found_by_what_it_says(tmp_path):
    (tmp_path / "pack" / "deep").mkdir(parents=True)
    for path, text in {
        "mine.py": "import pack.near\nimport os.path, numpy, json, conebandit\nfrom space.inner import x",
        "json.py": "",
        "conebandit.py": "",
        "other.py": "",
        "wrong.py": "def",
        "pack/__init__.py": "",
        "pack/near.py": "from . import beside\nfrom .deep import low\nimport wrong",
        "pack/beside.py": "from .near import x",
        "pack/deep/__init__.py": "",
        "pack/deep/low.py": "from ..aside import thing",
        "pack/aside.py": "from ....too_far import x",
    }.items():
        (tmp_path / path).write_text(text)
    (tmp_path / "space").mkdir()  # without an __init__.py
    (tmp_path / "space" / "inner.py").write_text("")
    found = with_siblings("mine", [str(tmp_path)])
    inner = ["pack", "pack.near", "pack.beside", "pack.deep", "pack.deep.low", "pack.aside", "space.inner"]
    assert sorted(found) == sorted(["mine", "wrong", *inner])


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


def test_a_change_in_what_a_module_imports_is_told(tmp_path, names):
    write(tmp_path, names, 1)
    ran(tmp_path, names, tmp_path / "results", backend="sequential")
    for part in (tmp_path / "results" / "parts").glob("*.parquet"):
        part.unlink()
    write(tmp_path, names, 2)
    with pytest.warns(UserWarning, match=f"the file of the module {names[1]} has changed since the study was begun"):
        play, _ = ran(tmp_path, names, tmp_path / "results", backend="sequential")
    assert play == expected(2)


def test_a_comparison_names_modules_that_differ(tmp_path, names):
    for arm in (1, 2):
        write(tmp_path, names, arm)
        ran(tmp_path, names, tmp_path / f"results {arm}", backend="sequential")
    found = compare(Results(tmp_path / "results 1"), Results(tmp_path / "results 2"), ["play"])
    assert f"Modules of your own are not the same in both: {names[1]}." in found.words
    found = compare(Results(tmp_path / "results 1"), Results(tmp_path / "results 1"), ["play"])
    assert not any("Modules" in words for words in found.words)
