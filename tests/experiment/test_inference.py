"""Declarations from tables: what is inferred is right and shown, what cannot be used is named with what to do."""

import datetime
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import conebandit as cb
from conebandit.experiment.errors import InvalidError

NAMES = st.text(st.sampled_from("abcxyz 0189äß-"), min_size=1, max_size=6).map(lambda s: f"n{s}n")


def table(**changes):
    columns = {
        "page": ["old", "new"] * 20,
        "age": [20 + i % 7 for i in range(40)],
        "device": ["phone", "desk", "tv", "desk"] * 10,
        "revenue": [float(i % 5) for i in range(40)],
        **changes,
    }
    return {name: column for name, column in columns.items() if column is not None}


def inferred(log, metrics=("revenue",), context=("age", "device"), **declared):
    return cb.Experiment.from_frame(log, arm="page", metrics=list(metrics), context=list(context), **declared)


def test_arms_bounds_and_levels_are_found():
    experiment = inferred(table(), id="web", seed=3)
    assert (experiment.id, experiment.seed, experiment.arms) == ("web", 3, ("new", "old"))
    assert experiment.columns == (
        cb.Numeric("age", 20.0, 26.0, out_of_range="clip"),
        cb.Categorical("device", ("desk", "phone", "tv")),
    )
    assert experiment.arm_column == "page"
    assert experiment.propensity_column is None
    assert experiment.notes == ("40 rows: 20 of new, 20 of old.",)


def test_missing_values_get_a_rule_and_a_note():
    log = table(age=[None, 20, 30, 40] * 10, device=[None, "missing", "desk", "desk"] * 10)
    age, device = inferred(log).columns
    assert age.missing == 30.0
    assert device.levels == ("desk", "missing", "missing_")
    assert device.missing == "missing_"
    assert "10 of 40 values of 'age' are missing: the median, 30, stands for them." in str(inferred(log))


def test_that_a_value_is_missing_may_be_all_that_is_said():
    assert inferred(table(device=["gold", None] * 20)).columns[1].levels == ("gold", "missing")


def test_names_that_look_the_same_are_the_same():
    log = table(page=["\ufb01rst", "second"] * 20)  # with a ligature
    experiment = inferred(log, policy="ParetoUCB1")
    assert experiment.arms == ("first", "second")
    assert experiment.learn(log).policy.n_observations == 40


def test_what_is_given_is_not_inferred():
    age = {"name": "age", "low": 0, "high": 100, "missing": 50}
    device = {"name": "device", "levels": ["phone", "desk", "tv", "watch"], "unknown": "zeros"}
    experiment = inferred(table(), context=[age, device])
    assert experiment.columns == (
        cb.Numeric("age", 0.0, 100.0, missing=50.0),
        cb.Categorical("device", ("phone", "desk", "tv", "watch"), unknown="zeros"),
    )


@pytest.mark.parametrize(
    ("largest", "worst"), [(1873.0, 1900.0), (1900.0, 1900.0), (0.0123, 0.013), (0.0, 0.0), (-1873.0, -1800.0)]
)
def test_the_worst_of_a_cost_is_the_largest_value_rounded_up(largest, worst):
    log = table(latency=[largest - i for i in range(40)])
    experiment = inferred(log, metrics=["revenue", {"name": "latency", "direction": "min", "units": "ms"}])
    assert experiment.metrics[1].worst == worst
    assert "Metric 'latency': worst is" in str(experiment)
    ranged = {"name": "latency", "direction": "min", "range": [-1e4, 1e4]}
    assert inferred(log, metrics=[ranged]).metrics[0].worst == 1e4


def test_booleans_and_whole_numbers():
    log = table(page=[2, 10] * 20, device=[True, False] * 20, revenue=[True, None] * 20)
    experiment = inferred(log)
    assert experiment.arms == ("2", "10")
    assert experiment.columns[1].levels == ("false", "true")
    assert experiment.encode({"age": 20, "device": True}).tolist() == [0.0, 0.0, 1.0]


def test_a_cone_may_be_an_object():
    cone = cb.Cone.from_tradeoffs("one unit of revenue is worth at most 2 of visits", names=["revenue", "visits"])
    log = table(visits=list(range(40)), latency=[float(i) for i in range(40)])
    experiment = inferred(log, metrics=["revenue", "visits"], cone=cone)
    np.testing.assert_allclose(experiment.cone.facets, cone.facets)
    with pytest.raises(InvalidError, match="the cone must have the names of the metrics"):
        inferred(log, metrics=["visits", "revenue"], cone=cone)


def test_directions_of_a_cone_are_those_of_the_metrics():
    said = "one unit of revenue is worth at most 50 of latency"
    cone = cb.Cone.from_tradeoffs(said, names=["revenue", "latency"], minimise=["latency"])
    log = table(latency=[float(i) for i in range(40)])
    cost = {"name": "latency", "direction": "min"}
    by_object = inferred(log, metrics=["revenue", cost], cone=cone)
    by_words = inferred(log, metrics=["revenue", cost], cone={"tradeoffs": [said]})
    np.testing.assert_allclose(by_object.cone.facets, by_words.cone.facets)
    with pytest.raises(InvalidError, match=r"the cone minimises latency, .* are none. Give both the same directions"):
        inferred(log, metrics=["revenue", {"name": "latency", "direction": "max"}], cone=cone)


def test_costs_without_a_direction_get_a_warning():
    log = table(latency=[float(i) for i in range(40)])
    with pytest.warns(cb.CostWarning, match="more 'latency' counts as better, though the name sounds like a cost"):
        experiment = inferred(log, metrics=["latency"])
    assert "- Warning: metrics: more 'latency'" in str(experiment)


def test_doubtful_columns_get_a_note():
    log = table(age=[*range(39), 1e6], revenue=[1.0] * 40)
    notes = " ".join(inferred(log).notes)
    assert "Half of the values of 'age' lie within 1% of its range" in notes
    assert "Metric 'revenue' is 1 in every row" in notes
    few = table(page=["new"] * 35 + ["old"] * 5)
    assert "Fewer than 10 rows of old" in " ".join(inferred(few).notes)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"age": [datetime.date(2026, 1, 1)] * 40}, "'age' cannot be part .* Make numbers of it that say what matters"),
        ({"age": [1, "x"] * 20}, r"holds int \(1 in row 0\) and str \('x' in row 1\). Make all of it numbers"),
        ({"age": [7] * 40}, "'age' is 7 in every row, so it says nothing. Leave it out"),
        ({"age": [None] * 40}, "'age' cannot .*: it holds nothing but missing values. Leave it out"),
        ({"age": list(range(7, 47))}, "'age' numbers the rows"),
        ({"age": [1e300, 2.0] * 20}, "column 'age' must be a number, at most 1e.15 in size"),
        ({"device": [f"u{i}" for i in range(40)]}, "40 different texts, .* It seems to be an id: leave it out"),
        ({"device": ["phone"] * 40}, "'device' is 'phone' in every row"),
        ({"device": ["<18", "18+"] * 20}, "column 'device': a name has 1 to 64 letters"),
        ({"device": None}, "the table has no column 'device'; it has page, age, revenue"),
        ({"page": ["old", None] * 20}, "'page' is missing in 20 of 40 rows, first in row 1. Leave these rows out"),
        ({"page": [-0.5, 1.5] * 20}, "column 'page': a name"),
        ({"revenue": [float("inf"), 2.0] * 20}, "metric 'revenue' must be a number, at most 1e.15 in size; got inf"),
        ({"revenue": ["1.0", "2.0"] * 20}, r"metric 'revenue' must hold numbers or booleans; it holds str \('1.0'"),
    ],
)
def test_columns_that_cannot_be_used_are_refused_with_advice(changes, says):
    with pytest.raises(InvalidError, match=says):
        inferred(table(**changes))


def test_everything_that_is_wrong_is_said_at_once():
    with pytest.raises(InvalidError) as refused:
        inferred(table(age=[7] * 40, revenue=["x"] * 40))
    assert len(str(refused.value).splitlines()) == 2


@pytest.mark.parametrize("value", [0.0, 1.5, None, True, "x"])
def test_propensities_are_probabilities(value):
    good = table(p=[0.5] * 40)
    assert inferred(good, propensity="p").propensity_column == "p"
    with pytest.raises(InvalidError, match="'p'"):
        inferred(table(p=[0.5] * 39 + [value]), propensity="p")


def test_a_column_has_one_role():
    with pytest.raises(InvalidError, match="column 'age' is named 2 times"):
        inferred(table(), metrics=["revenue", "age"])
    with pytest.raises(InvalidError, match="metrics must be a list of names"):
        cb.Experiment.from_frame(table(), arm="page", metrics="revenue", context=[])
    with pytest.raises(InvalidError, match="context: a table needs the name of its column"):
        inferred(table(), context=[{"low": 1}])
    with pytest.raises(InvalidError, match="the table has no rows"):
        inferred({name: [] for name in table()})


@settings(max_examples=60, deadline=None)
@given(
    arms=st.lists(NAMES, min_size=1, max_size=4, unique=True),
    levels=st.lists(NAMES, min_size=2, max_size=4, unique=True),
    numbers=st.lists(st.none() | st.floats(-1e9, 1e9), min_size=8, max_size=8),
    names=st.lists(NAMES, min_size=4, max_size=4, unique=True),
    seed=st.integers(0, 99),
)
def test_round_trip_and_the_order_of_columns(arms, levels, numbers, names, seed):
    """What is inferred can be written and read; neither the order of columns nor that of rows matters."""
    if len({number for number in numbers if number is not None}) < 2:
        return
    arm, number, level, metric = names
    rows = [
        {arm: arms[i % len(arms)], number: numbers[i], level: levels[i % len(levels)], metric: float(i)}
        for i in range(8)
    ]
    asked = {
        "arm": arm,
        "metrics": [{"name": metric, **({"direction": "min"} if seed % 2 else {})}],
        "context": [number, level],
    }
    experiment = cb.Experiment.from_frame(rows, **asked)
    assert cb.Experiment.from_toml(experiment.to_toml()) == experiment
    luck = random.Random(seed)
    shuffled = [dict(luck.sample(list(row.items()), len(row))) for row in luck.sample(rows, len(rows))]
    assert cb.Experiment.from_frame(shuffled, **asked) == experiment


def test_toml_from_a_file_and_from_text(tmp_path):
    experiment = inferred(table())
    path = tmp_path / "web.toml"
    path.write_text(experiment.to_toml(), encoding="utf-8")
    assert cb.Experiment.from_toml(path) == cb.Experiment.from_toml(str(path)) == experiment
    with pytest.raises(InvalidError, match="the text is not TOML"):
        cb.Experiment.from_toml("id = \n")
    with pytest.raises(InvalidError, match="cannot be read"):
        cb.Experiment.from_toml("nothing.toml")


@pytest.mark.parametrize("names", [("revenue", "latency"), None])
def test_a_cone_that_counts_a_cost_twice_is_refused(names):
    """In measured values less latency is better; as a cone of rewards the same numbers ask for more of it."""
    log = {"page": ["old", "new"] * 5, "revenue": [1.0, 2.0] * 5, "latency": [3.0, 4.0] * 5}
    asked = {"arm": "page", "metrics": ["revenue", {"name": "latency", "direction": "min"}], "context": []}
    cone = cb.Cone.from_rays([[1, 0], [0, -1]], names=names)
    with pytest.raises(InvalidError, match="the cone counts less of latency as better"):
        cb.Experiment.from_frame(log, **asked, cone=cone)
    labelled = cb.Cone.from_rays([[1, 0], [0, -1]], names=("revenue", "latency"), minimise=["latency"])
    assert cb.Experiment.from_frame(log, **asked, cone=labelled).cone == cb.Cone.orthant(2)


def test_the_smallest_cost_there_is():
    log = {"page": ["old", "new"], "latency": [0.0, 5e-324]}
    made = cb.Experiment.from_frame(log, arm="page", metrics=[{"name": "latency", "direction": "min"}], context=[])
    assert made.metrics[0].worst == 5e-324


def visits_csv(path, versions, n=400):
    rows = [f"{versions[i % len(versions)]},{i % 7},{i % 2 * 5}" for i in range(n)]
    path.write_text("\n".join(["version,x,sales", *rows]) + "\n")
    return path


@pytest.mark.parametrize(
    ("versions", "names"),
    [
        (["2", "1"], ["2", "1"]),
        (["1.0", "2.0"], ["1", "2"]),  # as pandas writes a column with missing values
        (["01", "1", "10", "1e1"], ["01", "1", "10", "1e1"]),
        (["1_0", "10"], ["1_0", "10"]),
        (["0.5", "1", "2"], ["0.5", "1", "2"]),
        (["0.50", "1.00"], ["0.5", "1"]),
        (["True", "TRUE", "false"], ["true", "true", "false"]),
    ],
)
def test_arms_of_a_csv_file_that_are_written_differently_are_different(tmp_path, versions, names):
    path = visits_csv(tmp_path / "visits.csv", versions)
    experiment = cb.Experiment.from_frame(path, arm="version", metrics=["sales"], context=["x"])
    assert experiment.arms == tuple(sorted({*names}))
    learned = experiment.learn(path).rows.arms
    assert [experiment.arms[arm] for arm in learned] == [names[i % len(names)] for i in range(len(learned))]


def test_arms_that_are_declared_mean_themselves_in_a_csv_file(tmp_path):
    path = visits_csv(tmp_path / "visits.csv", ["01", "02"])
    roles = {"arm": "version", "metrics": ["sales"], "context": ["x"]}
    experiment = cb.Experiment.from_frame(path, arms=["02", "01", "03"], **roles)
    assert experiment.learn(path).rows.arms[:4].tolist() == [1, 0, 1, 0]
    with pytest.raises(InvalidError, match=r"arms that are not declared: 2\. Add"):
        cb.Experiment.from_frame(path, arms=["01", "03"], **roles)


def test_doses_are_names_of_arms():
    doses = {"dose": [0.5, 1.0, 2.0] * 10, "x": list(range(3)) * 10, "relief": list(range(30))}
    roles = {"arm": "dose", "metrics": ["relief"], "context": ["x"]}
    for same in (doses, {**doses, "dose": ["0.5", "1", "2"] * 10}):
        experiment = cb.Experiment.from_frame(same, **roles)
        assert experiment.arms == ("0.5", "1", "2")
        for each in (doses, same):
            assert experiment.learn(each).rows.arms.tolist() == [0, 1, 2] * 10
    declared = cb.Experiment.from_frame(doses, arms=["2", "1", "0.5", "0.25"], **roles)
    assert declared.learn(doses).rows.arms.tolist() == [2, 1, 0] * 10


@pytest.mark.parametrize("day", ["2026-01-{:02}", "2026-01-{:02}T08:30", "2026-01-{:02} 08:30:00+01:00"])
def test_dates_that_are_texts_are_refused_unless_they_are_declared_to_be_levels(day):
    days = [day.format(1 + i % 4) for i in range(40)]
    with pytest.raises(InvalidError, match=r"column 'age' cannot be part .* the hour, the weekday"):
        inferred(table(age=days))
    levels = sorted(set(days))
    experiment = inferred(table(age=days), context=[{"name": "age", "levels": levels}])
    assert experiment.columns[0].levels == tuple(levels)


def test_numbers_that_no_float_can_hold_are_refused_by_name():
    with pytest.raises(InvalidError, match="column 'age' must be a number"):
        inferred(table(age=[10**400, *range(39)]))
    with pytest.raises(InvalidError, match="metric 'revenue' must be a number"):
        inferred(table(revenue=[10**400, *range(39)]))


def test_a_declaration_is_read_from_a_path_that_is_a_text(tmp_path):
    experiment = inferred(table())
    path = tmp_path / "web.toml"
    path.write_text(experiment.to_toml())
    assert cb.Experiment.from_file(str(path)) == cb.Experiment.from_file(path) == experiment
