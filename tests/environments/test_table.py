"""Environments from tables: the models, the residuals, the schedules, and the trials that are made of them."""

import numpy as np
import pytest

import conebandit as cb
from conebandit.environments import from_table, noise, shift, table, trials, warfarin
from conebandit.environments.warfarin import stable_dose


def data(n=900, seed=0):
    """Contexts, labels of three arms, two correlated outcomes."""
    rng = np.random.default_rng(seed)
    x = rng.random((n, 2))
    arms = rng.integers(3, size=n)
    shared = rng.exponential(size=n) - 1.0
    y = np.column_stack([arms * x[:, 0] + shared, 3.0 - arms - 2.0 * shared + 0.1 * rng.standard_normal(n)])
    return x, arms, y


# ---- the model ------------------------------------------------------------------------------------------------------


def plain_ridge(x, y, penalty):
    """Coefficients by the normal equations, one outcome at a time."""
    z = (x - x.mean(axis=0)) / x.std(axis=0)
    columns = [z[:, i] for i in range(z.shape[1])]
    columns += [z[:, i] * z[:, j] for i in range(z.shape[1]) for j in range(i, z.shape[1])]
    f = np.array(columns).T
    f = f - f.mean(axis=0)
    weights = np.linalg.solve(f.T @ f + len(x) * penalty * np.eye(f.shape[1]), f.T @ (y - y.mean()))
    hat = f @ np.linalg.solve(f.T @ f + len(x) * penalty * np.eye(f.shape[1]), f.T)
    fitted = y.mean() + f @ weights
    return fitted, ((y - fitted) ** 2).sum() / (1.0 - (1.0 + np.trace(hat)) / len(x)) ** 2


@pytest.mark.parametrize(("n", "d"), [(300, 1), (60, 3), (40, 2)])
def test_response_surface_is_ridge_regression_with_the_penalty_of_the_smallest_validation_error(n, d):
    rng = np.random.default_rng(n)
    x = rng.normal(5, 3, (n, d))
    y = np.column_stack([x[:, 0] ** 2 + rng.normal(size=n), rng.normal(size=n), np.sin(x[:, -1])])
    fitted = table.response_surface(x, y)(x)
    for m in range(3):
        candidates = [plain_ridge(x, y[:, m], penalty) for penalty in table.PENALTIES]
        best = min(candidates, key=lambda candidate: candidate[1])
        np.testing.assert_allclose(fitted[:, m], best[0], rtol=1e-6, atol=1e-7)


def test_response_surface_of_few_rows_of_a_constant_column_and_of_a_constant_outcome():
    x = np.column_stack([np.arange(10.0), np.ones(10)])
    y = np.column_stack([np.full(10, 7.0), np.arange(10.0)])
    fitted = table.response_surface(x, y)(x)
    np.testing.assert_allclose(fitted[:, 0], 7.0)
    np.testing.assert_allclose(fitted[:, 1], y[:, 1], atol=0.01)


# ---- residuals ------------------------------------------------------------------------------------------------------


def test_residuals_are_drawn_whole_and_from_the_rows_of_their_arm():
    rows = [np.array([[1.0, 10.0], [3.0, 30.0]]), np.array([[5.0, -5.0], [6.0, -6.0], [7.0, -7.0]])]
    law = noise.Residuals(rows)
    draws = law.draw(np.random.default_rng(0), np.zeros((500, 2, 2)))
    assert {tuple(row) for row in draws[:, 0]} == {(-1.0, -10.0), (1.0, 10.0)}
    assert {tuple(row) for row in draws[:, 1]} == {(-1.0, 1.0), (0.0, 0.0), (1.0, -1.0)}
    anyone = law.draw(np.random.default_rng(0), np.zeros((500, 2)))
    assert len({tuple(row) for row in anyone}) == 5


@pytest.mark.parametrize("rows", [[], [[1.0, 2.0]], [np.ones((2, 2)), np.ones((2, 3))], [np.full((2, 2), np.nan)]])
def test_residuals_refuse(rows):
    with pytest.raises(ValueError, match="by_arm"):
        noise.Residuals(rows)
    with pytest.raises(ValueError, match="residuals are for 2 objectives"):
        noise.Residuals([np.ones((2, 2))]).draw(np.random.default_rng(0), np.zeros((3, 3)))


# ---- the environment ------------------------------------------------------------------------------------------------


def test_an_environment_from_a_table_keeps_the_contract_and_the_correlation():
    x, arms, y = data()
    env = from_table(x, arms, y)
    cb.check_environment(env)
    assert (env.n_arms, env.n_objectives, env.context_dim) == (3, 2, 2)
    draws = env.rewards(
        np.random.default_rng(1), np.ascontiguousarray(np.broadcast_to(env.means(x[:1])[0], (5000, 3, 2)))
    )
    # Shared luck enters the outcomes as 1 and -2; a correlation of 5000 draws is within 0.02 of about -1.
    assert np.corrcoef(draws[:, 1].T)[0, 1] < -0.9


def test_means_are_outcomes_scaled_to_the_declared_range_and_a_cost_turns_around():
    x = np.random.default_rng(0).random((300, 1))
    arms = np.arange(300) % 2
    y = np.column_stack([np.full(300, 25.0), 1000.0 + 3000.0 * arms])
    env = from_table(x, arms, y, ranges=[(0, 100), (5000, 0)], low=0.1)
    expected = [[0.1 + 0.9 * 0.25, 0.1 + 0.9 * 0.8], [0.1 + 0.9 * 0.25, 0.1 + 0.9 * 0.2]]
    np.testing.assert_allclose(env.means(x[:5]), np.broadcast_to(expected, (5, 2, 2)), rtol=1e-9)


@pytest.mark.parametrize("scale", [1e-200, 1e-9, 1e9, 1e200])
def test_units_do_not_matter(scale):
    x, arms, y = data()
    plain, other = from_table(x, arms, y), from_table(x * scale, arms, y * scale)
    np.testing.assert_allclose(other.means(x * scale), plain.means(x), rtol=1e-9)


def test_predictions_beyond_the_range_are_clipped():
    x, arms, y = data()
    far = from_table(x, arms, y, model=lambda contexts, outcomes: lambda rows: np.full((len(rows), 2), 1e9))
    np.testing.assert_array_equal(far.means(x), np.ones((len(x), 3, 2)))
    assert abs(far.noise.rows.mean()) < 1e-12


def test_labels_and_frames():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    x, arms, y = data()
    named = np.array(["c", "a", "b"])[arms]
    env = from_table(x, named, y)
    plain = from_table(x, arms, y)
    np.testing.assert_array_equal(env.means(x[:9])[:, [2, 0, 1]], plain.means(x[:9]))
    for frames in (pandas, polars):
        contexts, outcomes = (
            frames.DataFrame({"u": x[:, 0], "v": x[:, 1]}),
            frames.DataFrame({"p": y[:, 0], "q": y[:, 1]}),
        )
        framed = from_table(contexts, frames.Series(named.tolist()), outcomes)
        np.testing.assert_array_equal(framed.means(x[:9]), env.means(x[:9]))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": np.full((900, 2), np.nan)}, "contexts must be finite; row 0, column 0"),
        ({"x": np.ones((900, 2))}, "contexts must vary in every column; column 0 is 1.0"),
        ({"x": np.ones(900)}, "contexts must be a table"),
        ({"y": np.ones((5, 2))}, "outcomes must have a row for each of the 900"),
        ({"y": np.ones((900, 2))}, "ranges must be two different numbers"),
        ({"arms": np.arange(900)}, "arms must have at least 10 rows each; 0 has 1"),
        ({"arms": np.zeros(5)}, "arms must have shape"),
        ({"arms": np.full(900, np.nan)}, "arms must not be nan"),
        ({"ranges": [(0, 1), (0, 1)]}, r"ranges must contain all outcomes; ranges\[0\]"),
        ({"ranges": [(0, 1)]}, "ranges must be two different numbers"),
        ({"low": 0.0}, "low must lie between 0 and 1"),
        ({"model": lambda x, y: lambda rows: rows[:, 0]}, "model must give a function that predicts"),
        ({"model": lambda x, y: lambda rows: np.full((len(rows), 2), np.nan)}, "model must give a function"),
        ({"cone": cb.Cone.orthant(3)}, "mean_function gives shape"),
        ({"schedule": shift.stationary(shift.uniform(3))}, "schedule has dimension 3, but contexts have 2 columns"),
    ],
)
def test_refusals(change, message):
    x, arms, y = data()
    given = {"x": x, "arms": arms, "y": y} | {name: change[name] for name in change if name in ("x", "arms", "y")}
    options = {name: value for name, value in change.items() if name not in given}
    with pytest.raises(ValueError, match=message):
        from_table(given["x"], given["arms"], given["y"], **options)
    with pytest.raises(TypeError, match="arms must be labels of one type"):
        from_table(x, np.array([None, "a"] * 450, dtype=object), y)


# ---- which rows come when -------------------------------------------------------------------------------------------


def test_groups_come_one_after_the_other():
    x = np.arange(12.0)[:, None]
    sites = np.array(["r", "s", "t"] * 4)
    schedule = shift.by_group(x, sites, at=[100, 200], phases=["t", ["r", "s"], "t"])
    rng = np.random.default_rng(0)
    for start, kinds in ((0, {"t"}), (100, {"r", "s"}), (200, {"t"})):
        assert set(sites[schedule.sample(rng, 100, start)[:, 0].astype(int)]) == kinds
    assert schedule.change_points == (100, 200)
    np.testing.assert_array_equal(schedule.bounds, [[0, 11]])
    assert len(shift.by_group(x, sites, at=[1, 2]).parts) == 3


def test_parts_by_a_column_are_of_equal_size_with_ties_in_the_order_of_rows():
    x = np.array([[5.0, 0.0], [5.0, 1.0], [1.0, 2.0], [5.0, 3.0]])
    first, second = shift.by_column(x, 0, at=[10]).parts
    np.testing.assert_array_equal(first.rows[:, 1], [2, 0])
    np.testing.assert_array_equal(second.rows[:, 1], [1, 3])


def test_schedules_of_rows_refuse():
    x = np.arange(4.0)[:, None]
    with pytest.raises(ValueError, match="phases must name groups of rows"):
        shift.by_group(x, [1, 1, 2, 2], at=[5], phases=[1, 3])
    with pytest.raises(ValueError, match="at must have one entry less"):
        shift.by_group(x, [1, 1, 2, 2], at=[])
    with pytest.raises(ValueError, match="groups must have shape"):
        shift.by_group(x, [1, 2], at=[5])
    with pytest.raises(ValueError, match="column must be an integer"):
        shift.by_column(x, 1, at=[5])
    with pytest.raises(ValueError, match="at must have one entry less"):
        shift.by_column(x, 0, at=[5, 6, 7, 8, 9])


# ---- trials ---------------------------------------------------------------------------------------------------------


def test_rand_experiment():
    pytest.importorskip("statsmodels", reason="pip install 'conebandit[trials]'")
    trial = trials.read_rand_hie()
    assert trial.contexts.shape == (20190, 6)
    assert np.bincount(trial.arms).tolist() == [6822, 2363, 1702, 1401, 3727, 4175]
    assert abs(np.exp(-trial.outcomes[:, 0]).mean() - 1) > 0.1  # in logarithms
    assert np.expm1(-trial.outcomes[:, 0]).mean() == pytest.approx(171.568, abs=1e-3)  # dollars a year, as in the file
    assert np.expm1(trial.outcomes[:, 1]).mean() == pytest.approx(2.860426, abs=1e-6)  # visits, as statsmodels says
    assert trial.shares.sum() == pytest.approx(1.0)
    site = trial.groups == 1
    assert trial.propensities[site & (trial.arms == 0)][0] == pytest.approx((trial.arms[site] == 0).mean())
    env = cb.environments.rand_hie(change_points=(10, 20, 30))
    cb.check_environment(env)
    # Free care: the dearest, with the most visits, as the trial found.
    means = env.means(trial.contexts).mean(axis=0)
    assert means[:, 0].argmin() == means[:, 1].argmax() == 0


def test_rand_experiment_says_what_is_missing(monkeypatch, tmp_path):
    monkeypatch.setattr(trials, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"statsmodels is not installed; pip install 'conebandit\[trials\]'"):
        trials.read_rand_hie()

    class Old:
        origin = str(tmp_path / "__init__.py")

    monkeypatch.setattr(trials, "find_spec", lambda name: Old)
    with pytest.raises(ImportError, match="the installed statsmodels has no datasets/randhie"):
        cb.environments.rand_hie()


SPEFF = "age,wtkg,karnof,cd40,cd80,preanti,str2,cd420,cens,offtrt,arms"


def actg_file(path, header, row_names=False, n=80):
    """A file with the columns of the trial, invented."""
    rng = np.random.default_rng(0)
    lines = [header]
    for i in range(n):
        row = [rng.integers(20, 60), rng.integers(50, 90), 90 + 10 * rng.integers(2), rng.integers(200, 500)]
        row += [
            rng.integers(500, 900),
            rng.integers(900) * (i % 2),
            i % 2,
            rng.integers(200, 500),
            i // 8 % 2,
            i // 4 % 2,
        ]
        lines.append(",".join([f'"{i}"'] * row_names + [str(value) for value in [*row, i % 4]]))
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("row_names", [False, True])
@pytest.mark.parametrize("header", [SPEFF, SPEFF.replace("cens", "cid").replace("arms", "trt")])
def test_hiv_trial_is_read_from_either_copy(tmp_path, header, row_names):
    path = actg_file(tmp_path / "ACTG175.csv", header, row_names)
    trial = trials.read_actg175(path)
    assert np.bincount(trial.arms).tolist() == [20] * 4
    assert trial.outcomes[:, 1].tolist() == [1.0 - i // 8 % 2 for i in range(80)]
    np.testing.assert_allclose(
        trial.outcomes[:, 0] + trial.contexts[:, 3], np.round(trial.outcomes[:, 0] + trial.contexts[:, 3])
    )
    env = cb.environments.actg175(path, change_points=[100])
    cb.check_environment(env)
    assert env.cone.names == ("change in CD4", "no event", "stayed on treatment")


def test_hiv_trial_says_what_is_wrong_with_a_file(tmp_path):
    path = actg_file(tmp_path / "a.csv", SPEFF.replace("offtrt", "other"))
    with pytest.raises(ValueError, match="it lacks offtrt"):
        trials.read_actg175(path)
    path = actg_file(tmp_path / "b.csv", SPEFF)
    path.write_text(path.read_text() + "1,2,NA,4,5,6,7,8,9,10,0\n")
    with pytest.raises(ValueError, match="must have a number in each of"):
        trials.read_actg175(path)
    with pytest.raises(FileNotFoundError):
        trials.read_actg175(tmp_path / "none.csv")


def test_warfarin_equation():
    """By hand: the published coefficients, for three patients."""
    patients = np.array(
        [
            [5.0, 180.0, 90.0, 0, 0, 0, 0],
            [7.0, 160.0, 60.0, 2, 1, 1, 1],
            [8.0, 170.0, 70.0, 1, 0, 2, 0],
        ]
    )
    roots = [
        5.6044 - 0.2614 * 5 + 0.0087 * 180 + 0.0128 * 90,
        5.6044 - 0.2614 * 7 + 0.0087 * 160 + 0.0128 * 60 - 1.6974 - 1.9206 - 0.5503,
        5.6044 - 0.2614 * 8 + 0.0087 * 170 + 0.0128 * 70 - 0.8677 - 2.3312,
    ]
    np.testing.assert_allclose(stable_dose(patients), np.square(roots))


def test_warfarin_patients_and_outcomes():
    env = warfarin()
    rng = np.random.default_rng(0)
    first, second = (stable_dose(env.contexts(rng, 4000, start)) for start in (0, 5000))
    assert np.isfinite(first).all()
    assert np.isfinite(second).all()
    assert second.mean() < 0.8 * first.mean()
    rewards = env.rewards(rng, env.means(env.contexts(rng, 2000, 0)))
    assert set(np.unique(rewards.round(12))) == {0.1, 1.0}
    assert (rewards.max(axis=-1) < 0.5).mean() < 0.002  # never both too little and too much, but for surprises
    inside = np.abs(np.random.default_rng(1).lognormal(0, warfarin.__globals__["UNEXPLAINED"], 10_000) - 1) < 0.2
    assert 0.46 < inside.mean() < 0.54  # every second patient within 20 % of the equation
