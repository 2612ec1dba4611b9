"""The cone of a declaration: comparisons of outcomes, directions, warnings, and the command that shows it."""

import json
import time

import numpy as np
import pytest
from typer.testing import CliRunner

from conebandit import Cone
from conebandit.cli import app
from conebandit.experiment.cones import MAX_CONE_NUMBERS, MAX_CONE_ROWS, most_facets
from conebandit.experiment.declaration import Experiment
from conebandit.experiment.errors import InvalidError

TOXICITY = {"name": "toxicity", "direction": "min", "worst": 1}
BETTER, WORSE = {"efficacy": 0.6, "toxicity": 0.1}, {"efficacy": 0.8, "toxicity": 0.2}
MAX_SECONDS = 5.0  # about one, where nothing else runs


def declared(cone, metrics=({"name": "efficacy"}, TOXICITY)):
    return Experiment.from_dict({"id": "e", "arms": ["a", "b"], "metrics": list(metrics), "cone": cone})


def test_comparisons_are_read_with_directions():
    experiment = declared({"comparisons": [{"better": BETTER, "worse": WORSE}]})
    assert experiment.cone == Cone.from_rays(
        [[1, 0], [0, 1], [-2, 1]]
    )  # of rewards: 0.1 less toxicity for 0.2 efficacy
    assert experiment.cone.minimise == ()
    rewards = [[m.reward(outcome[m.name]) for m in experiment.metrics] for outcome in (BETTER, WORSE)]
    assert experiment.cone.dominates(*rewards)
    assert experiment.warnings == ()


def test_what_is_not_mentioned_is_the_same_in_both():
    metrics = [{"name": "efficacy"}, TOXICITY, {"name": "comfort"}]
    cone = declared({"comparisons": [{"better": BETTER, "worse": WORSE}]}, metrics).cone
    assert cone == Cone.from_rays([[1, 0, 0], [0, 1, 0], [0, 0, 1], [-2, 1, 0]])


@pytest.mark.parametrize(
    ("comparison", "says"),
    [
        ("efficacy", r"cone.comparisons\[0\] must be a table"),
        ({"better": BETTER}, r"cone.comparisons\[0\].worse must be a table"),
        ({"better": BETTER, "worse": WORSE, "sure": 1}, "'sure' that is not known"),
        ({"better": {"safety": 1}, "worse": {"safety": 0}}, r"better has an entry 'safety' that is not known"),
        ({"better": {"efficacy": "high"}, "worse": {"efficacy": 0}}, "must be a number"),
        ({"better": {"efficacy": True}, "worse": {"efficacy": 0}}, "must be a number"),
        ({"better": {"efficacy": 1e300}, "worse": {"efficacy": 0}}, "must be a number"),
        ({"better": {"efficacy": 1}, "worse": {"toxicity": 1}}, "same objectives"),
        ({"better": {}, "worse": {}}, "cone.comparisons"),
        ({"better": BETTER, "worse": BETTER}, "the same outcome"),
        ({"better": WORSE | {"toxicity": 0.05}, "worse": {"efficacy": 1, "toxicity": 2}}, "at most 1, the worst value"),
        (
            {"better": {"efficacy": 0.6, "toxicity": 0.2}, "worse": {"efficacy": 0.8, "toxicity": 0.1}},
            r"contradict.*\[0\] efficacy 0.6, toxicity 0.2 rather",
        ),
    ],
)
def test_comparisons_that_cannot_be_are_refused(comparison, says):
    with pytest.raises(InvalidError, match=says):
        declared({"comparisons": [comparison]})


@pytest.mark.parametrize("dim", [3, 6, 9, 16])
@pytest.mark.parametrize("agree", [True, False])
def test_the_most_comparisons_are_read_within_seconds(dim, agree):
    allowed = range(1, MAX_CONE_ROWS + 1)
    n = max(n for n in allowed if most_facets(n + dim, dim) * dim <= MAX_CONE_NUMBERS["comparisons"])
    rng = np.random.default_rng(dim)
    better, worse = (rng.random((n, dim)).round(12) for _ in range(2))
    if agree:
        turn = (better - worse).sum(axis=1) < 0
        better[turn], worse[turn] = worse[turn], better[turn]
    names = [f"m{i}" for i in range(dim)]
    rows = [
        {side: dict(zip(names, x, strict=True)) for side, x in (("better", b), ("worse", w))}
        for b, w in zip(better.tolist(), worse.tolist(), strict=True)
    ]
    start = time.perf_counter()
    try:
        cone = declared({"comparisons": rows}, [{"name": n} for n in names]).cone
        assert cone.contains(better - worse).all()
    except InvalidError as error:
        assert not agree
        assert "contradict" in str(error)  # noqa: PT017
    assert time.perf_counter() - start < MAX_SECONDS


@pytest.mark.parametrize(
    "cone",
    [
        "orthant",
        {"wedge": 60},
        {"weights": [[1, 2], [2, 1]]},
        {"weight_ranges": {"efficacy": [0.2, 0.4], "latency": [0.6, 0.8]}},
        {"tradeoffs": ["efficacy is worth at most 3 latency"]},
        {"facets": [[1, 0], [0, 1]]},
        {"facets": [[1, 0], [0, -1]]},  # as it was: rewards, whatever one thinks of them
        {"rays": [[1, -1], [0, 1]]},
        {"comparisons": [{"better": {"efficacy": 2, "latency": 1}, "worse": {"efficacy": 1, "latency": 2}}]},
    ],
)
def test_costs_without_a_direction_are_noticed_and_change_nothing(cone):
    experiment = declared(cone, [{"name": "efficacy"}, {"name": "latency"}])
    assert experiment.cone.names == ("efficacy", "latency")
    assert experiment.cone.minimise == ()
    (warning,) = experiment.warnings
    for words in ("'latency'", "direction = 'min'", "direction = 'max'"):
        assert words in warning
    said = declared(cone, [{"name": "efficacy"}, {"name": "latency", "direction": "max"}])
    assert said.warnings == ()
    np.testing.assert_array_equal(said.cone.facets, experiment.cone.facets)


# ---- the command ----------------------------------------------------------------------------------------------------

TRIAL = """
cone = { comparisons = [{ better = { efficacy = 0.6, toxicity = 0.1 }, worse = { efficacy = 0.8, toxicity = 0.2 } }] }

[[metrics]]
name = "efficacy"

[[metrics]]
name = "toxicity"
direction = "min"
worst = 1
"""
ARMS = "arm,efficacy,toxicity\nlow,0.5,0.1\nmiddle,0.6,0.12\nhigh,0.62,0.3\nnothing,0.1,0.1\n"


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "trial.toml").write_text(TRIAL)
    (tmp_path / "arms.csv").write_text(ARMS)
    return lambda *arguments: CliRunner().invoke(app, ["cone", *arguments])


@pytest.mark.parametrize("kind", ["facets", "rays"])
def test_a_cone_that_prefers_less_reward_is_noticed(kind):
    """Of a cost, too, more reward is better: a minus sign counts it twice."""
    metrics = [{"name": "revenue"}, {"name": "latency", "direction": "min", "worst": 10}]
    declared = {"id": "e", "arms": ["a", "b"], "metrics": metrics}
    [warning] = Experiment.from_dict({**declared, "cone": {kind: [[1, 0], [0, -1]]}}).warnings
    assert warning.startswith("cone: less reward in 'latency' counts as better")
    assert not Experiment.from_dict({**declared, "cone": {kind: [[1, 0], [1, 3]]}}).warnings


def test_the_command_asks_about_values_that_can_be_declared(run, tmp_path):
    """Beyond its worst value more of a cost counts the same, and the declaration refuses to compare such values."""
    declaration = tmp_path / "cost.toml"
    metrics = '[{ name = "gain" }, { name = "latency", direction = "min", worst = 10 }]'
    declaration.write_text(f"metrics = {metrics}\n")
    (tmp_path / "arms.csv").write_text("arm,gain,latency\na,1,5\nb,2,14\nc,0.5,30\n")
    output = CliRunner().invoke(app, ["cone", str(declaration), "--outcomes", str(tmp_path / "arms.csv")]).output
    assert "Front: a, b." in output
    entry = output.split("first: ")[1].strip()
    assert "14" not in entry
    declaration.write_text(f"metrics = {metrics}\ncone = {{ comparisons = [{entry}] }}\n")
    assert CliRunner().invoke(app, ["cone", str(declaration)]).exit_code == 0


@pytest.mark.parametrize("suffix", ["toml", "json"])
def test_a_declaration_without_bottom_is_refused(tmp_path, suffix):
    path = tmp_path / f"deep.{suffix}"
    path.write_text(("a = " if suffix == "toml" else "") + "[" * 100_000 + "]" * 100_000 + "\n")
    with pytest.raises(InvalidError, match="nested more deeply"):
        Experiment.from_file(path)
    refused = CliRunner().invoke(app, ["cone", str(path)])
    assert refused.exit_code == 1
    assert "nested more deeply" in refused.output
    with pytest.raises(InvalidError, match="nested more deeply"):
        Experiment.from_toml("a = " + "[" * 100_000 + "\n")


def test_the_command_says_what_the_cone_means(run):
    result = run("trial.toml")
    assert result.exit_code == 0
    said = "More efficacy and less toxicity are better. One unit of efficacy is worth at most 0.5 of toxicity."
    assert result.output.strip() == said


def test_the_command_asks_until_nothing_is_left(run, tmp_path):
    result = run("trial.toml", "--outcomes", "arms.csv")
    assert result.exit_code == 0
    assert "Front: low, middle." in result.output
    assert (
        "Would you rather have efficacy 0.5, toxicity 0.1 or efficacy 0.6, toxicity 0.12? (low or middle.)"
        in result.output
    )
    assert "Open pairs of arms: 1 now, 0 or 0 after the answer." in result.output
    answer = result.output.split("if it is the first: ")[1].strip()
    assert (
        answer == '{ better = { "efficacy" = 0.5, "toxicity" = 0.1 }, worse = { "efficacy" = 0.6, "toxicity" = 0.12 } }'
    )
    (tmp_path / "trial.toml").write_text(TRIAL.replace("comparisons = [", f"comparisons = [{answer}, "))
    result = run("trial.toml", "--outcomes", "arms.csv")
    assert "Front: low." in result.output
    assert result.output.strip().endswith("Nothing is left to ask.")


def test_the_command_calls_arms_as_they_are_written(run, tmp_path):
    """Whatever they look like: a number that is written in two ways, or what is missing elsewhere."""
    for names, said in (
        (("1", "2", "01"), "Front: 1, 2, 01."),
        (("NA", "placebo", "null"), "Front: NA, placebo, null."),
        (("a", "", "c"), "Front: a, 1, c."),
    ):
        lines = (f"{name},{0.5 + 0.1 * k},{0.1 + 0.04 * k}" for k, name in enumerate(names))
        (tmp_path / "odd.csv").write_text("\n".join(["arm,efficacy,toxicity", *lines]) + "\n")
        assert said in run("trial.toml", "--outcomes", "odd.csv").output


def test_the_command_warns_of_costs_and_takes_json(run, tmp_path):
    (tmp_path / "trial.json").write_text(json.dumps({"metrics": [{"name": "latency"}, {"name": "sales"}]}))
    result = run("trial.json")
    assert result.exit_code == 0
    assert "Warning: metrics: more 'latency' counts as better" in result.output
    assert "More latency and more sales are better." in result.output


@pytest.mark.parametrize(
    ("file", "text", "says"),
    [
        ("trial.toml", "metrics = 3", "metrics must be a list"),
        ("trial.toml", "metrics = ", "trial.toml is not TOML: Invalid value"),
        ("trial.toml", TRIAL.replace("comparisons", "opinions"), "cone must be 'orthant' or a table"),
        ("trial.toml", TRIAL.replace("0.6", "0.9").replace("0.1 }", "0.3 }").replace("0.8", "0.95"), "contradict"),
        ("arms.csv", "efficacy\n1\n", "lacks ['toxicity']"),
        ("arms.csv", "efficacy,toxicity\n", "is empty: a header and at least one row"),
        ("arms.csv", "efficacy,toxicity\n1,much\n", "row 1: every metric needs a number"),
        ("arms.csv", "efficacy,toxicity\n1\n", "row 2: 1 entries, but the header has 2"),
        ("arms.csv", "efficacy,toxicity\n1,nan\n", "row 1: every metric needs a number"),
        ("arms.csv", "1" * 200_000, "is not a CSV file in UTF-8: field larger"),
    ],
)
def test_the_command_refuses_in_words(run, tmp_path, file, text, says):
    (tmp_path / file).write_text(text)
    result = run("trial.toml", "--outcomes", "arms.csv")
    assert result.exit_code == 1
    assert says in " ".join(result.output.split())
    assert "Traceback" not in result.output


def test_files_that_are_not_there(run):
    for arguments, says in (
        (["nowhere.toml"], "cannot be read"),
        (["trial.toml", "--outcomes", "nowhere.toml"], "is not"),
    ):
        result = run(*arguments)
        assert result.exit_code == 1
        assert f"nowhere.toml {says}" in result.output
