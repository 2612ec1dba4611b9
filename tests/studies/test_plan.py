"""Study files: what they mean, and what is said of wrong ones."""

import re
from datetime import date, time

import numpy as np
import pytest

from conebandit.studies.declaration import differences, read_plan
from conebandit.studies.worlds import from_file

TABLE = {"name": "from_table", "path": "visits.csv", "contexts": ["age"], "arms": "arm", "outcomes": ["relief"]}
STUDY = {"policies": ["random"], "environments": ["paper"], "horizon": 3000, "seeds": 3}


def test_a_grid_may_be_large():
    grid = {name: list(range(35)) for name in ("delta", "width", "nu")}
    assert len(read_plan(STUDY | {"policies": [{"name": "ConeTree", "grid": grid}]}).policies) == 35**3


def test_a_grid_is_every_combination_and_runs_are_numbered_seed_by_seed():
    tree = {"name": "ConeTree", "label": "tree", "delta": 0.1, "grid": {"preset": ["paper", "sound"]}}
    plan = read_plan(
        {
            "policies": ["default", tree],
            "environments": [{"name": "paper", "sigma": 0.1, "grid": {"n_arms": [5, 20], "nu": [1, 2.5]}}],
            "horizon": [3000, 5000],
            "seeds": [7, 3],
        }
    )
    assert [e.label for e in plan.policies] == ["default", "tree(preset=paper)", "tree(preset=sound)"]
    assert plan.policies[1].settings == {"delta": 0.1, "preset": "paper"}
    assert plan.scenes[1].label == "paper(sigma=0.1, n_arms=5, nu=1), T = 5000"
    assert len(plan) == 3 * 4 * 2 * 2
    jobs = [plan.job(run) for run in range(len(plan))]
    assert len({(job.policy.label, job.scene.label, job.seed) for job in jobs}) == len(plan)
    assert [job.seed for job in jobs] == [7] * 24 + [3] * 24, "a part of the study has every cell"


def test_the_papers_experiment_is_a_study_of_four_lines(tmp_path):
    lines = [
        'policies = ["tree-paper", "tree-sound", "default", "random"]',
        'environments = [{ name = "paper", grid = { n_arms = [5, 20], nu = [1, 2], change_point = [500, 1000] } }]',
        "horizon = 20_000",
        "seeds = 10",
    ]
    file = tmp_path / "study.toml"
    file.write_text("\n".join(lines))
    plan = read_plan(file)
    assert len(plan) == 4 * 8 * 10
    plan.try_all()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"policies": []}, "policies must be a list of names or tables; got []"),
        ({"policies": "random"}, "policies must be a list"),
        ({"policies": ["random", "random"]}, "'random' is there twice. Leave one out, or give one another label"),
        ({"policies": [{"label": "x"}]}, r"policies[0] needs a name"),
        ({"policies": [3]}, "policies[0] must be a table"),
        ({"policies": [{"name": "ConeTree", "grid": {"preset": "sound"}}]}, "policies[0].grid.preset must be a list"),
        ({"policies": [{"name": "ConeTree", "grid": {"label": ["a"]}}]}, "policies[0].grid.label cannot vary"),
        (
            {"policies": [{"name": "ConeTree", "grid": {name: list(range(100)) for name in "abcdef"}}]},
            "policies[0].grid has 1,000,000,000,000 combinations; at most 100,000 are possible",
        ),
        ({"environments": [{"name": "paper", "nu": 1, "grid": {"nu": [1]}}]}, "environments[0].grid.nu cannot vary"),
        ({"horizon": 0}, "horizon must be an integer from 1 to 1,000,000,000; got 0"),
        ({"horizon": "long"}, "horizon must be an integer"),
        ({"horizon": [10, 10]}, "horizon must be an integer, or a list of different ones"),
        ({"seeds": 0}, "seeds must be an integer from 1"),
        ({"seeds": [1, -2]}, "seeds must be an integer from 0"),
        ({"seeds": True}, "seeds must be an integer"),
        ({"seeds": 10**8, "policies": ["random", "ucb1"]}, "200,000,000 runs; at most 100,000,000"),
        ({"resolution": -1}, "resolution must be a number from 0 on"),
        ({"curves": ["regret"]}, "curves must be one of play, front"),
        ({"curves": ["play", "play"]}, "curves must be a list of different series"),
        ({"points": 0}, "points must be an integer from 1"),
        ({"policies": [{"name": "ucb1", "width": float("nan")}]}, "policies, width must be a number; got nan"),
        ({"seed": 3}, "has an entry 'seed' that is not known; it may have policies, environments"),
    ],
)  # fmt: skip
def test_a_wrong_entry_is_named(change, says):
    with pytest.raises(ValueError, match=re.escape(says)):
        read_plan(STUDY | change)


def test_a_missing_entry_is_named(tmp_path):
    with pytest.raises(ValueError, match="needs an entry 'seeds'"):
        read_plan({name: value for name, value in STUDY.items() if name != "seeds"})
    with pytest.raises(ValueError, match="cannot be read: No such file"):
        read_plan(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("policies = [")
    with pytest.raises(ValueError, match=r"bad.toml is not a file in TOML"):
        read_plan(tmp_path / "bad.toml")
    (tmp_path / "wrong.toml").write_text("horizon = 3")
    with pytest.raises(ValueError, match=r"wrong.toml: the study needs an entry 'policies'"):
        read_plan(tmp_path / "wrong.toml")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"policies": ["nobody"]}, "policy nobody cannot be made: there is no 'nobody'; choose from oracle, default"),
        ({"policies": ["no_module_here:x"]}, "policy no_module_here:x cannot be made: .*there is no module"),
        ({"policies": [{"name": "ConeTree", "presett": "x"}]}, r"ConeTree\(presett=x\) cannot be made: .*presett"),
        ({"policies": [{"name": "ParetoUCB1", "width": -1}]}, "cannot be made: width must be"),
        ({"policies": ["conebandit:Cone.wedge"]}, "policy conebandit:Cone.wedge cannot be made: TypeError"),
        ({"environments": ["nowhere"]}, "there is no environment 'nowhere'; choose from .*paper, .*suite/smooth-2"),
        ({"environments": ["suite/nowhere"]}, "there is no 'nowhere'; choose from paper"),
        ({"environments": [{"name": "paper", "cone": 60}]}, "cone must be a table with one of orthant, wedge"),
        ({"environments": [{"name": "suite/paper", "nu": 1}]}, "suite/paper.* cannot be made: TypeError"),
        ({"environments": ["conebandit:Cone.orthant"]}, "cannot be made"),
        ({"environments": ["conebandit:Cone"], "policies": ["random"]}, "cannot be made"),
        ({"horizon": 2000}, "horizon must be beyond round 2000, the last change of environment paper; got 2000"),
        ({"environments": [TABLE | {"path": "no.csv"}]}, "no.csv is not a file"),
        ({"environments": ["from_table"]}, "environment from_table cannot be made: it needs an entry 'path'"),
        ({"horizon": date(2020, 1, 2)}, "horizon is 2020-01-02, a date or time"),
        ({"environments": [{"name": "paper", "grid": {"nu": [1, time(12)]}}]}, r"environments\[0\].grid.nu\[1\] is 12"),
    ],
)  # fmt: skip
def test_what_cannot_be_made_is_named_before_anything_runs(change, says):
    with pytest.raises(ValueError, match=says):
        read_plan(STUDY | change).try_all()


def test_labels_stay_in_one_line():
    plan = read_plan(STUDY | {"policies": [{"name": "ConeTree", "preset": "a\nb"}]})
    assert plan.policies[0].label == 'ConeTree(preset="a\\nb")'


def test_cones_can_be_declared():
    plan = read_plan(STUDY | {"environments": [{"name": "paper", "grid": {"cone": [{"wedge": 60}, {"orthant": 2}]}}]})
    narrow, orthant = (plan.recipe.environment(scene, 0) for scene in plan.scenes)
    assert narrow.cone.weakly_dominates([1, 1], [0, 0])
    assert not narrow.cone.weakly_dominates([1, 0], [0, 0])
    assert orthant.cone.weakly_dominates([1, 0], [0, 0])


def test_random_environments_are_drawn_by_the_seed_unless_one_is_given():
    plan = read_plan(STUDY | {"environments": ["smooth", {"name": "smooth", "seed": 5}]})
    x = np.full((1, 2), 0.3)
    drawn, fixed = (
        [plan.recipe.environment(scene, seed).means(x).tolist() for seed in (0, 1)] for scene in plan.scenes
    )
    assert drawn[0] != drawn[1]
    assert fixed[0] == fixed[1]


def test_differences_are_said_in_words():
    before = read_plan(STUDY).declaration
    now = read_plan(STUDY | {"policies": ["ucb1"], "horizon": 4000}).declaration
    assert differences(before, before) == []
    assert differences(before, now) == [
        "policies: 'random' is not in it any more",
        "policies: 'ucb1' is new",
        "horizon: [4000], and before [3000]",
    ]
    two, turned = (read_plan(STUDY | {"policies": names}).declaration for names in (["a", "b"], ["b", "a"]))
    assert differences(two, turned) == ["policies: they are in another order"]
    other = read_plan(STUDY | {"policies": [{"name": "ucb1", "label": "random"}]}).declaration
    assert differences(before, other) == ["policies: 'random' is another one than before"]


VISITS = "age,site,arm,relief\n" + "\n".join(f"{20 + i},{'pq'[i % 3 == 0]},{'ab'[i % 2]},{i % 7}" for i in range(60))


def test_a_table_is_an_environment(tmp_path):
    (tmp_path / "visits.csv").write_text(VISITS)
    (tmp_path / "s.toml").write_text(
        'policies = ["random"]\nhorizon = 500\nseeds = 2\nenvironments = [{ name = "from_table", path = "visits.csv", '
        'contexts = ["age"], arms = "arm", outcomes = ["relief"], group = "site", at = [100], phases = ["q", "p"] }]'
    )
    plan = read_plan(tmp_path / "s.toml")
    plan.try_all()
    world = plan.recipe.environment(plan.scenes[0], 0)
    assert plan.recipe.environment(plan.scenes[0], 1) is world, "read and fitted once"
    assert world.change_points == (100,)
    assert world.n_arms == 2
    first = plan.data()
    assert list(first) == ["visits.csv"]
    (tmp_path / "visits.csv").write_text(VISITS.replace("20,", "21,", 1))
    assert plan.data() != first
    settings = {key: value for key, value in TABLE.items() if key not in ("name", "path")}
    for change, says in [
        ({"contexts": ["height"]}, "contexts: there is no column 'height'; the table has age, site, arm, relief"),
        ({"contexts": ["site"]}, "contexts: column 'site' must hold numbers in every row"),
        ({"contexts": "age"}, "contexts must be a list of names of columns; got 'age'"),
        ({"sorted_by": "relief", "at": [9]}, "sorted_by must be one of the contexts, age; got 'relief'"),
        ({"group": "site", "sorted_by": "age", "at": [9]}, "got group 'site' and sorted_by 'age'. Leave one out"),
    ]:
        with pytest.raises(ValueError, match=says):
            from_file(tmp_path / "visits.csv", **settings | change)
