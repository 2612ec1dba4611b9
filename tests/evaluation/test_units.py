"""Logs in which units come again: errors are those between units, and an arm that was kept was drawn once."""

import numpy as np
import pytest

import conebandit as cb

ORTHANT = cb.Cone.orthant(1)


def log_of_units(rng, n_units=200, visits=5, spread=1.0):
    """Each unit has a level of its own; an arm is drawn at every visit."""
    n = n_units * visits
    units, arms = np.repeat(np.arange(n_units), visits), rng.integers(2, size=n)
    rewards = arms + np.repeat(rng.normal(0, spread, n_units), visits) + rng.normal(0, 0.5, n)
    return {
        "contexts": rng.random((n, 1)),
        "arms": arms,
        "rewards": rewards[:, None],
        "propensities": np.full(n, 0.5),
        "cone": ORTHANT,
        "units": units,
    }


def plain_error(scores, units):
    """The standard error of a mean over units, written out."""
    mean, n = scores.mean(), len(scores)
    sums = [sum(scores[i] - mean for i in range(n) if units[i] == u) for u in sorted(set(units))]
    return np.sqrt(sum(s**2 for s in sums)) / n


def test_the_error_is_that_between_units():
    given = log_of_units(np.random.default_rng(0), n_units=30)
    log = cb.Log(**given)
    found = cb.evaluate(log, {"new": 1}, estimator="ips")
    scores = 2.0 * (given["arms"] == 1) * given["rewards"][:, 0]
    factor = np.sqrt(150 / 149 * 30 / 29)
    np.testing.assert_allclose(found.errors[0, 0], factor * plain_error(scores, given["units"].tolist()), rtol=1e-12)
    assert found.n_units == 30
    assert "150 rows about 30 units of" in str(found)
    assert found.to_dict()["units"] == 30


@pytest.mark.parametrize("estimator", ["ips", "snips", "dr"])
def test_intervals_hold_as_often_as_they_say(estimator):
    """In 400 logs a 95 % interval misses 20 times on average, and more than 45 times with probability below 1e-6."""
    misses = {"units": 0, "rows": 0}
    for seed in range(400):
        given = log_of_units(np.random.default_rng(seed), n_units=60)
        for by in misses:
            log = cb.Log(**{**given, "units": given["units"] if by == "units" else None})
            found = cb.evaluate(log, {"new": 1}, estimator=estimator)
            misses[by] += bool(abs(found.values[0, 0] - 1.0) > found.radii()[0, 0])
    assert misses["units"] <= 45, misses
    assert misses["rows"] > 60, "rows that are not independent would promise too much"


def test_each_row_for_itself_changes_little():
    given = log_of_units(np.random.default_rng(1), visits=1)
    with_units, without = (cb.evaluate(cb.Log(**{**given, "units": u}), [1]) for u in (given["units"], None))
    np.testing.assert_allclose(with_units.values, without.values)
    np.testing.assert_allclose(with_units.errors, without.errors * np.sqrt(200 / 199))


def test_all_rows_of_a_unit_are_predicted_by_models_of_others():
    given, seen = log_of_units(np.random.default_rng(2), n_units=7), []
    contexts = np.arange(35.0)[:, None]

    def model(past, arms, rewards, n_arms):
        def predict(x):
            seen.append(({int(v) // 5 for v in past[:, 0]}, {int(v) // 5 for v in x[:, 0]}))
            return np.zeros((len(x), n_arms, 1))

        return predict

    cb.evaluate(cb.Log(**{**given, "contexts": contexts}), [1], estimator="dr", model=model)
    assert set.union(*(rows for _, rows in seen)) == set(range(7))
    assert all(not past & rows for past, rows in seen)


def test_some_of_a_log(tmp_path):
    given = log_of_units(np.random.default_rng(3), n_units=4)
    log = cb.Log(**{**given, "units": [f"u{u}" for u in given["units"]]})
    assert log.take(slice(10, None)).units.tolist() == [0] * 5 + [1] * 5


@pytest.mark.parametrize(
    ("units", "words"), [([1, 2], "one for each decision"), ([[1], [2], [1], [1]], "one for each"), ([3] * 4, "two")]
)
def test_units_that_are_refused(units, words):
    with pytest.raises(ValueError, match=words):
        cb.Log([[0.1]] * 4, [0, 1, 0, 1], [[1.0]] * 4, [0.5] * 4, ORTHANT, units=units)


DECLARATION = {
    "id": "e",
    "arms": ["old", "new"],
    "metrics": [{"name": "m"}],
    "context": [{"name": "age", "low": 0, "high": 100}, {"name": "device", "levels": ["phone", "desk"]}],
    "unit": {"sticky": True},
}
TABLE = {
    "id": ["1", "02", "x", "erased", "y"],
    "unit": ["u_a", "u_b", "u_a", "u_c", "u_b"],
    "repeats": [None, None, "1", None, "02"],
    "mode": ["live"] * 5,
    "arm": ["old", "new", "old", "new", "new"],
    "propensity": [0.25, 0.75, 1.0, 0.5, 1.0],
    "context.age": [10.0, 20.0, 90.0, None, 30.0],
    "context.device": ["phone", "desk", "desk", "erased", "phone"],
    "metric.m": [1.0, 2.0, 3.0, None, 4.0],
    "choice_probabilities": ['{"old":0.25,"new":0.75}', '{"old":0.25,"new":0.75}', None, '{"old":0.5,"new":0.5}', None],
}


@pytest.mark.parametrize("as_file", [False, True])
def test_what_was_kept_counts_with_its_draw(tmp_path, as_file):
    """In the context and with the probabilities of the draw; rows that were erased are left out."""
    table = TABLE
    if as_file:
        polars = pytest.importorskip("polars")
        table = tmp_path / "log.csv"
        polars.DataFrame(TABLE).write_csv(table)
    log = cb.Log.from_table(table, cb.Experiment.from_dict(DECLARATION))
    assert log.contexts.tolist() == [[0.1, 1, 0], [0.2, 0, 1], [0.1, 1, 0], [0.2, 0, 1]]
    assert log.propensities.tolist() == [0.25, 0.75, 0.25, 0.75]
    assert log.probabilities.tolist() == [[0.25, 0.75]] * 4
    assert log.rewards[:, 0].tolist() == [1, 2, 3, 4]
    assert log.units.tolist() == [0, 1, 0, 1]


def test_a_draw_that_is_not_there_is_missed():
    table = {name: column[1:] for name, column in TABLE.items()}
    with pytest.raises(ValueError, match="row 1: there is no row with id '1', in which the arm was drawn"):
        cb.Log.from_table(table, cb.Experiment.from_dict(DECLARATION))
