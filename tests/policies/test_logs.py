"""Learning from whole logs: the same as row by row, from whatever a log is kept in, or nothing at all."""

import copy
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import conebandit as cb
from conebandit.formats import files, rows
from conebandit.kernels import pareto_ucb
from conebandit.kernels.cone_kernel.constants import LAST_FIT
from conebandit.kernels.cone_kernel.state import NEVER, NEXT_WORK
from conebandit.policies import one_by_one
from tests.policies.rows import BOUNDS, CONE, KINDS, assert_same_state, make, make_rows, observe_one_by_one

NAMES = {"contexts": ["age", "dose"], "arm": "given", "rewards": ["cured", "well"]}


def table(log):
    return {
        "well": log.rewards[:, 1],
        "age": log.contexts[:, 0],
        "note": ["text"] * len(log.arms),
        "dose": log.contexts[:, 1],
        "given": log.arms,
        "cured": log.rewards[:, 0],
    }


@pytest.fixture
def small_parts(monkeypatch):
    """Files and tables are read a few rows at a time."""
    monkeypatch.setattr(rows, "ROWS_AT_ONCE", 77)
    monkeypatch.setattr(files.parquet_parts, "__kwdefaults__", {"values": 5 * 101})


# ---- the same as row by row ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("log", "says"),
    [
        ([], r"files must be at least one Parquet file; got \[\]"),
        (([], [], []), "log must not be empty: at least one row is needed"),
        ((np.empty((0, 2)), np.empty(0, dtype=int), np.empty((0, 2))), "log must not be empty"),
    ],
)
def test_nothing_to_learn_is_told(log, says):
    policy = cb.ParetoUCB1(n_arms=3, cone=cb.Cone.orthant(2), context_dim=2)
    with pytest.raises(ValueError, match=says):
        policy.learn(log)
    assert policy.n_observations == 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_log_is_learned_as_row_by_row(kind, small_parts):
    log = make_rows(2500)
    learned = make(kind)
    assert learned.learn(log.part(0, 901)) is learned
    learned.learn(log.part(901, 2500))
    assert_same_state(learned, observe_one_by_one(make(kind), log))


@pytest.mark.parametrize("kind", ["ConeTree-sound", "ConeTree-adaptive", "ConeKernel"])
@pytest.mark.parametrize("options", [{"n_arms": 1}, {"n_arms": 40}, {"cone": cb.Cone.wedge(60), "explore": 0.2}])
def test_a_log_is_learned_as_row_by_row_whatever_the_size(kind, options):
    log = make_rows(1500, n_arms=options.get("n_arms", 3))
    assert_same_state(make(kind, **options).learn(log), observe_one_by_one(make(kind, **options), log))


@pytest.mark.parametrize("preset", ["paper", "sound"])
def test_leaves_that_split_again_and_again_are_learned_as_row_by_row(preset):
    """Many contexts in one place, and bins that are due at once: what is reported is found only where it is needed."""
    log = make_rows(1200)
    log.contexts[300:900] = [0.3, -0.7]
    options = {"preset": preset, "beta": 0.3, "delta": 0.9} | ({"holder": 50.0} if preset == "sound" else {})
    learned, plain = (cb.ConeTree(3, CONE, 2, bounds=BOUNDS, **options) for _ in range(2))
    observe_one_by_one(plain, log)
    assert_same_state(learned.learn(log), plain)
    assert plain.n_leaves > 10
    for x in log.contexts[::50]:
        assert learned.front(x).arms == plain.front(x).arms


def test_the_kernel_learns_the_same_across_its_last_fit(monkeypatch):
    """Fits are done at once here, and a few observations at a time there."""
    monkeypatch.setattr("conebandit.policies.cone_kernel.fit.LAST_FIT", 400)
    log = make_rows(1500)
    plain = observe_one_by_one(make("ConeKernel"), log)
    assert plain._state.size[NEXT_WORK] == NEVER
    learned = make("ConeKernel")
    for first in range(0, 1500, 171):  # also while a fit is under way
        learned.learn(log.part(first, first + 171))
    assert_same_state(learned, plain)
    assert_same_state(make("ConeKernel").learn(log), plain)
    assert len(plain._state.data) == 1  # memory is bounded
    assert LAST_FIT == 100_000  # which docs say


def test_what_was_learned_from_a_log_is_gone_on_with(tmp_path):
    log = make_rows(800)
    learned, plain = make("ConeKernel").learn(log.part(0, 500)), make("ConeKernel")
    learned.save(tmp_path / "policy.npz")
    for policy in (learned, cb.load_policy(tmp_path / "policy.npz"), learned.copy(), copy.deepcopy(learned)):
        observe_one_by_one(policy, log.part(500, 800))
        assert_same_state(policy, observe_one_by_one(plain.clone(), log))


def test_a_policy_without_a_loop_of_its_own_learns_row_by_row():
    class Mine(cb.ParetoUCB1):
        _kernels = pareto_ucb

    log = make_rows(50)
    mine = Mine(3, CONE, 2, bounds=BOUNDS)
    assert mine._observe_rows.__func__ is one_by_one.observe_rows
    assert_same_state(mine.learn(log), observe_one_by_one(make("ParetoUCB1"), log))


# ---- what a log is kept in -------------------------------------------------------------------------------------------


def kept_in(form, log, folder):
    columns = table(log)
    if form == "files":
        for i, first in enumerate(range(0, len(log.arms), 130)):
            pl.DataFrame(table(log.part(first, first + 130))).write_parquet(folder / f"part-{i}.parquet")
        (folder / "readme.txt").write_text("no log")
        return folder
    if form == "file":
        pl.DataFrame(columns).write_parquet(folder / "log.parquet", row_group_size=90)
        return str(folder / "log.parquet")
    nulls = pl.DataFrame(columns).with_columns(pl.col("cured", "well").fill_nan(None))
    return {
        "dict": lambda: columns,
        "lists": lambda: {name: list(column) for name, column in columns.items()},
        "polars": lambda: nulls,
        "pandas": lambda: pd.DataFrame(columns),
        "pandas of Arrow": lambda: nulls.to_pandas(use_pyarrow_extension_array=True),
        "pandas, nullable": lambda: pd.DataFrame(columns).convert_dtypes(),
        "Arrow": nulls.to_arrow,
        "small types": lambda: nulls.cast({"given": pl.UInt8}),
        "structured": lambda: pd.DataFrame({k: v for k, v in columns.items() if k != "note"}).to_records(index=False),
    }[form]()


FORMS = ["dict", "lists", "polars", "pandas", "pandas of Arrow", "pandas, nullable", "Arrow", "small types"]


@pytest.mark.parametrize("form", [*FORMS, "structured", "file", "files"])
def test_every_form_of_a_log_leads_to_the_same(form, tmp_path, small_parts):
    log = make_rows(390)
    policy = make("ConeTree-sound").learn(kept_in(form, log, tmp_path), **NAMES)
    assert_same_state(policy, make("ConeTree-sound").learn(log))


def test_files_are_read_in_their_order(tmp_path):
    log = make_rows(390)
    kept_in("files", log, tmp_path)
    paths = [tmp_path / f"part-{i}.parquet" for i in range(3)]
    plain = make("ConeKernel").learn(log)
    for given in (str(tmp_path / "*.parquet"), paths, tuple(map(str, paths)), [str(tmp_path / "part-[01]*"), paths[2]]):
        assert_same_state(make("ConeKernel").learn(given, **NAMES), plain)
    backwards = make("ConeKernel").learn(paths[::-1], **NAMES)
    other = make("ConeKernel")
    for first in (260, 130, 0):
        other.learn(log.part(first, first + 130))
    assert_same_state(backwards, other)


def test_columns_of_an_export_need_no_names():
    log = make_rows(60)
    columns = {"context.b": log.contexts[:, 0], "metric.z": log.rewards[:, 0], "arm": log.arms}
    columns |= {"metric.y": log.rewards[:, 1], "context.a": log.contexts[:, 1]}
    assert_same_state(make("ParetoUCB1").learn(columns), make("ParetoUCB1").learn(log))


def test_files_with_columns_in_another_order_are_read_by_name(tmp_path):
    log = make_rows(60)
    columns = {"context.b": log.contexts[:, 0], "context.a": log.contexts[:, 1], "arm": log.arms}
    frame = pl.DataFrame(columns | {"metric.z": log.rewards[:, 0], "metric.y": log.rewards[:, 1]})
    frame.head(20).write_parquet(tmp_path / "1.parquet")
    frame[20:].select(reversed(frame.columns)).write_parquet(tmp_path / "2.parquet")
    plain = make("LinearParetoUCB").learn(log)
    assert_same_state(make("LinearParetoUCB").learn(tmp_path), plain)
    shards = cb.learn_shards(make("LinearParetoUCB"), tmp_path, backend="sequential")
    assert all(np.allclose(mine, plain.state()[name]) for name, mine in shards.state().items())
    frame.rename({"context.a": "context.c"}).write_parquet(tmp_path / "3.parquet")
    with pytest.raises(ValueError, match=r"3.parquet has the columns \['context.b', 'context.c'\], but 1.parquet has"):
        make("LinearParetoUCB").learn(tmp_path)


def test_logs_and_runs_are_logs():
    env = cb.environments.paper(n_arms=3, change_point=0)
    run = cb.simulate(cb.RandomArm(3, env.cone, 1), env, 200)
    plain = cb.ParetoUCB1(3, env.cone, 1).learn((run.contexts, run.arms, run.rewards))
    for log in (run, cb.Log.from_run(run)):
        assert_same_state(cb.ParetoUCB1(3, env.cone, 1).learn(log), plain)


def test_yes_and_no_are_rewards_and_a_column_of_nothing_is_not_known():
    log = {"context.x": [0.1, 0.2], "arm": [0, 1], "metric.a": [True, False], "metric.b": [None, None]}
    policy = cb.ParetoUCB1(2, CONE, 1).learn(pl.DataFrame(log))
    assert policy.state()["counts"].tolist() == [[1, 0], [1, 0]]
    assert policy.state()["totals"].tolist() == [[1.0, 0.0], [0.0, 0.0]]


def test_arrays_of_others_are_not_written_to():
    log = make_rows(300)
    for array in log:
        array.flags.writeable = False
    assert make("ConeTree-sound").learn(log).n_observations == 300


# ---- what does not fit -----------------------------------------------------------------------------------------------

NOT_A_LOG = {
    "a number": (3, TypeError, "log must be a data frame, .* got int"),
    "a lazy frame": (pl.LazyFrame({"arm": [1]}), TypeError, "got LazyFrame. Call its method 'collect' first"),
    "no rows": (make_rows(0), ValueError, "must not be empty"),
    "no rows in a frame": (pl.DataFrame(table(make_rows(5))).head(0), ValueError, "must not be empty"),
    "a missing column": (
        {"age": [1.0], "dose": [0.0], "cured": [1.0], "well": [1.0]},
        ValueError,
        "no column 'given'; ",
    ),
    "columns of two lengths": (
        {"age": [1.0], "dose": [0.0], "cured": [1.0], "well": [1.0, 2.0], "given": [0]},
        ValueError,
        "same length",
    ),
    "text": (
        pl.DataFrame({"age": ["old"], "dose": [0.0], "cured": [1.0], "well": [1.0], "given": [0]}),
        TypeError,
        "column 'age' must hold numbers; it is String. Text columns need a declaration",
    ),
    "names of arms": (
        pd.DataFrame({"age": [1.0], "dose": [0.0], "cured": [1.0], "well": [1.0], "given": ["old"]}),
        TypeError,
        "column 'given' must hold the arms as integers .* Names of arms need a declaration",
    ),
    "arms with a comma": (
        {"age": [1.0], "dose": [0.0], "cured": [1.0], "well": [1.0], "given": [0.0]},
        TypeError,
        "arms must be integers",
    ),
    "a missing arm": (
        pa.table({"age": [1.0, 1.0], "dose": [0.0, 0.0], "cured": [1.0, 1.0], "well": [1.0, 1.0], "given": [0, None]}),
        ValueError,
        "row 1: the arm, column 'given', is missing",
    ),
    "two columns of one name": (
        pd.DataFrame([[1.0, 0.0, 1.0, 1.0, 0, 0]], columns=["age", "dose", "cured", "well", "given", "given"]),
        ValueError,
        "the log cannot be read: Expected unique column names",
    ),
    "arrays of other sizes": ((np.zeros((3, 2)), [0, 1, 2], np.zeros((3, 1))), ValueError, r"rewards .* \(3, 2\)"),
    "contexts of another width": ((np.zeros((3, 1)), [0, 1, 2], np.zeros((3, 2))), ValueError, r"contexts .* \(3, 2\)"),
}


@pytest.mark.parametrize("what", NOT_A_LOG)
def test_what_is_no_log_is_refused(what):
    log, error, words = NOT_A_LOG[what]
    policy, before = make("ParetoUCB1"), make("ParetoUCB1")
    with pytest.raises(error, match=words):
        policy.learn(log, **NAMES)
    assert_same_state(policy, before)


BAD_ROWS = {
    "a context that is not known": (("contexts", np.nan), r"context\[1\] must lie in \[-1, 1\]; got nan"),
    "a context out of bounds": (("contexts", 1.5), r"context\[1\] must lie in \[-1, 1\]; got 1.5"),
    "an arm that is not there": (("arms", 3), "arm must be an integer from 0 to 2; got 3"),
    "a negative arm": (("arms", -1), "got -1"),
    "an infinite reward": (("rewards", -np.inf), "reward must not be infinite"),
    "a huge reward": (("rewards", 1e200), "reward must be at most 1e"),
}


@pytest.mark.parametrize("what", BAD_ROWS)
@pytest.mark.parametrize("form", ["arrays", "file", "files"])
def test_a_bad_row_is_named_and_nothing_is_learned(what, form, tmp_path, small_parts):
    (field, value), words = BAD_ROWS[what]
    log = make_rows(390)
    array = getattr(log, field)
    array[(333, -1) if array.ndim == 2 else 333] = value
    row = {"arrays": "row 333", "file": "log.parquet, row 333", "files": "part-2.parquet, row 73"}[form]
    policy = make("ConeTree-adaptive").learn(make_rows(100, seed=1))
    before = policy.copy()
    with pytest.raises(ValueError, match=rf"^{row}: .*{words}"):
        policy.learn(log if form == "arrays" else kept_in(form, log, tmp_path), **NAMES)
    assert_same_state(policy, before)


def test_all_files_are_looked_at_before_anything_is_learned(tmp_path, monkeypatch):
    kept_in("files", make_rows(390), tmp_path)
    pl.read_parquet(tmp_path / "part-2.parquet").drop("dose").write_parquet(tmp_path / "part-2.parquet")
    policy = make("ParetoUCB1")
    monkeypatch.setattr(cb.ParetoUCB1, "_learn_rows", lambda *_: pytest.fail("it has begun to learn"))
    with pytest.raises(ValueError, match=r"part-2.parquet: there is no column 'dose'; there are 'well', 'age', 'note'"):
        policy.learn(tmp_path, **NAMES)
    pl.DataFrame(table(make_rows(9)) | {"dose": ["much"] * 9}).write_parquet(tmp_path / "part-2.parquet")
    with pytest.raises(TypeError, match=r"part-2.parquet: column 'dose' must hold numbers; it is String"):
        policy.learn(tmp_path, **NAMES)


def test_files_that_are_none_are_refused(tmp_path):
    policy = make("ParetoUCB1")
    (tmp_path / "empty").mkdir()
    (tmp_path / "log.csv").write_text("arm\n0\n")
    (tmp_path / "broken.parquet").write_bytes(b"")
    for given, words in {
        tmp_path / "empty": "there is no Parquet file at",
        tmp_path / "gone.parquet": "there is no Parquet file at",
        tmp_path / "*.pq": "there is no Parquet file at",
        tmp_path / "log.csv": "log.csv must be a Parquet file",
        tmp_path / "broken.parquet": "broken.parquet cannot be read as a Parquet file",
    }.items():
        with pytest.raises(ValueError, match=words):
            policy.learn(given, **NAMES)
    kept_in("file", make_rows(20), tmp_path)
    with pytest.raises(ValueError, match=r"log.parquet is there twice"):
        policy.learn([tmp_path / "log.parquet", tmp_path / "log*.parquet"], **NAMES)


def test_a_file_without_rows_is_no_error_among_others(tmp_path):
    log, none = make_rows(40), pl.DataFrame(table(make_rows(5))).head(0)
    none.write_parquet(tmp_path / "a.parquet")
    with pytest.raises(ValueError, match=r"a.parquet: there are no rows"):
        make("ParetoUCB1").learn(tmp_path, **NAMES)
    pl.DataFrame(table(log)).write_parquet(tmp_path / "b.parquet")
    assert_same_state(make("ParetoUCB1").learn(tmp_path, **NAMES), make("ParetoUCB1").learn(log))


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ({"contexts": ["age"]}, r"contexts must name 2 different columns, as many as the policy has; got \['age'\]"),
        ({"contexts": ["age", "age"]}, "contexts must name 2 different columns"),
        ({"rewards": "cured"}, r"rewards must name 2 different columns, .* got \['cured'\]"),
        ({"arm": "none"}, "there is no column 'none'"),
        ({"rewards": None}, r"got \[\]. By default they are those that begin with 'metric.'"),
    ],
)
def test_columns_are_as_many_as_the_policy_has(names, words):
    with pytest.raises(ValueError, match=words):
        make("ParetoUCB1").learn(table(make_rows(9)), **{**NAMES, **names})


def test_names_of_columns_are_texts():
    with pytest.raises(TypeError, match="names of columns must be texts; got 3"):
        make("ParetoUCB1").learn(table(make_rows(9)), **{**NAMES, "arm": 3})
    with pytest.raises(TypeError, match=r"names of columns must be texts; got \[\['age'\], 'weight'\]"):
        make("ParetoUCB1").learn(table(make_rows(9)), **{**NAMES, "contexts": [["age"], "weight"]})


def test_a_file_may_have_brackets_in_its_name(tmp_path):
    log = make_rows(30)
    pl.DataFrame(table(log)).write_parquet(tmp_path / "log[1].parquet")
    assert make("ParetoUCB1").learn(tmp_path / "log[1].parquet", **NAMES).n_observations == 30


def test_what_is_interrupted_has_learned_nothing(monkeypatch):
    policy = make("ConeKernel").learn(make_rows(60))
    before = policy.copy()
    calls = []

    def interrupt(*given):
        calls.append(given)
        if len(calls) > 1:
            raise KeyboardInterrupt
        return one_by_one.observe_rows(SimpleNamespace(_learn=lambda *_: None), *given)

    monkeypatch.setattr(rows, "ROWS_AT_ONCE", 50)
    monkeypatch.setattr(cb.ConeKernel, "_observe_rows", staticmethod(interrupt))
    with pytest.raises(KeyboardInterrupt):
        policy.learn(make_rows(200, seed=2))
    assert_same_state(policy, before)
