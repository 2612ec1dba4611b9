"""Experiments that begin with past rows: learned as a learner does, in the log for good, and for every fold."""

import hashlib
import sqlite3
import time

import numpy as np
import pytest
from typer.testing import CliRunner

import conebandit as cb
from conebandit.cli import app
from conebandit.experiment.errors import InvalidError
from conebandit.experiment.rows import Rows
from conebandit.service.client import Client
from conebandit.service.engine.ledger import Ledger
from conebandit.service.engine.turn import Turn
from conebandit.service.errors import ConflictError, CorruptionError
from conebandit.service.http.server import serving
from conebandit.service.log.entries import read, seal_event
from conebandit.service.log.events import Created, Learned
from conebandit.service.log.past import pack, unpack
from conebandit.service.log.replay import rebuild
from conebandit.service.log.state import State
from conebandit.service.log.verify import verify
from conebandit.service.stores.base import open_store
from conebandit.service.stores.records import BEGINNING
from tests.service.driver import assert_same
from tests.service.plain_fold import plain_fold

TOML = """
id = "trial"
arms = ["old", "new", "bold"]
policy = "LinearParetoUCB"
metrics = [{ name = "revenue" }, { name = "latency", direction = "min", worst = 2000 }, { name = "bought" }]
context = [
  { name = "age", low = 18, high = 98, missing = 40 },
  { name = "device", levels = ["phone", "desk"] },
  { name = "member", levels = ["true", "false"] },
]
table = { arm = "page" }
"""


def table(n=60, seed=0):
    rng = np.random.default_rng(seed)
    return {
        "page": rng.choice(["old", "new", "bold"], n).tolist(),
        "age": [None if i % 10 == 0 else int(age) for i, age in enumerate(rng.integers(18, 98, n))],
        "device": rng.choice(["phone", "desk"], n).tolist(),
        "member": (rng.random(n) < 0.5).tolist(),
        "revenue": [None if i % 7 == 0 else float(v) for i, v in enumerate(rng.random(n))],
        "latency": [None if i % 21 == 0 else float(v) for i, v in enumerate(rng.random(n) * 3000)],
        "bought": [None if i % 21 == 0 else bool(v) for i, v in enumerate(rng.random(n) < 0.5)],
    }


def as_csv(columns):
    cells = [
        [str(v).lower() if isinstance(v, bool) else "" if v is None else str(v) for v in c] for c in columns.values()
    ]
    return "\n".join(",".join(row) for row in [list(columns), *zip(*cells, strict=True)])


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setenv("CONEBANDIT_STORE", str(tmp_path / "log.db"))
    (tmp_path / "trial.toml").write_text(TOML)
    (tmp_path / "log.csv").write_text(as_csv(table()))
    return lambda *args: CliRunner().invoke(app, [str(a) for a in args])


def log_of(path, experiment_id):
    store = open_store(str(path))
    with store.read() as session:
        found = (
            session.events(experiment_id),
            rebuild(session, experiment_id, session.head(experiment_id), snapshots=False),
        )
        report = verify(session, experiment_id, every=True)
    store.close()
    return *found, report


def test_past_rows_are_learned_as_a_learner_does(run, tmp_path):
    made = run("experiment", "create", tmp_path / "trial.toml", "--past", tmp_path / "log.csv")
    assert made.output.splitlines()[1] == "trial: learned from 57 rows of log.csv", "three rows have no outcome"
    events, state, report = log_of(tmp_path / "log.db", "trial")
    assert_same(state.policy, cb.Experiment.from_toml(TOML).learn(table()).policy)
    assert_same(state.policy, plain_fold(events))
    assert report.agrees
    learned = read(events[1]).event
    assert (learned.file, learned.rows) == ("log.csv", 57)
    assert learned.sha256 == hashlib.sha256((tmp_path / "log.csv").read_bytes()).hexdigest()


def test_the_log_needs_no_file_and_goes_elsewhere(run, tmp_path):
    run("experiment", "create", tmp_path / "trial.toml", "--past", tmp_path / "log.csv")
    (tmp_path / "log.csv").unlink()
    with serving(str(tmp_path / "log.db")) as url, Client(url) as client:
        for i in range(5):
            client.decide("trial", {"age": 30, "device": "phone", "member": True}, id=f"d{i}")
            client.report("trial", f"d{i}", {"revenue": 1.0, "bought": 1})
        client.retire_arm("trial", "bold")
        while client.show("trial")["revising"]:
            time.sleep(0.01)
        client.decide("trial", {"age": 30, "device": "phone", "member": False})
    events, state, report = log_of(tmp_path / "log.db", "trial")
    assert state.policy.n_arms == 2, "the rows of an arm that was retired are left out"
    assert_same(state.policy, plain_fold(events))
    assert report.agrees
    for kind in ("jsonl", "csv", "parquet"):
        assert run("experiment", "export", "trial", "--to", tmp_path / f"trial.{kind}").exit_code == 0
    assert ",true," in (tmp_path / "trial.csv").read_text()
    other = ("--store", tmp_path / "other.db")
    assert run("experiment", "import", tmp_path / "trial.jsonl", *other).exit_code == 0
    assert "agrees" in run("verify", *other).output


def test_again_is_a_no_op_and_other_rows_are_a_conflict(run, tmp_path):
    first = ("experiment", "create", tmp_path / "trial.toml", "--past", tmp_path / "log.csv")
    assert run(*first).exit_code == run(*first).exit_code == run(*first[:3]).exit_code == 0
    (tmp_path / "log.csv").write_text(as_csv(table(seed=1)))
    refused = run(*first)
    assert refused.exit_code == 1
    assert "there is an experiment 'trial' already, which began without these rows" in refused.output
    assert run("experiment", "list").output == "trial: 2 events\n"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda text: text.replace("phone", "tv", 1), "log.csv: row 1, column 'device'"),
        (lambda text: text.replace("page", "shown", 1), "log.csv: the table has no column 'page'"),
        (lambda _: "", "log.csv is empty"),
    ],
)
def test_bad_rows_are_refused_and_nothing_is_made(run, tmp_path, change, says):
    bad = table()
    bad["device"][0] = "desk"
    bad["device"][1] = "phone"
    (tmp_path / "log.csv").write_text(change(as_csv(bad)))
    refused = run("experiment", "create", tmp_path / "trial.toml", "--past", tmp_path / "log.csv")
    assert refused.exit_code == 1
    assert says in refused.output
    assert not (tmp_path / "log.db").exists()


def test_a_learner_goes_into_service(tmp_path):
    learner = cb.Experiment.from_frame(
        table(),
        id="shop",
        arm="page",
        metrics=["revenue", {"name": "latency", "direction": "min"}],
        context=["age", "device", "member"],
    ).learn(table())
    where = str(tmp_path / "log.db")
    assert cb.deploy(learner, where) == cb.deploy(learner, where) == "shop"
    events, state, report = log_of(where, "shop")
    assert len(events) == 2
    assert report.agrees
    assert_same(state.policy, learner.policy)
    with pytest.raises(ConflictError, match="began without these rows"):
        cb.deploy(learner.learn(table(seed=1)), where)
    with pytest.raises(TypeError, match="learner must be a Learner"):
        cb.deploy(learner.experiment, where)


def rows(n=3):
    return Rows(np.full((n, 1), 0.5), np.arange(n) % 2, np.array([[1.5], [np.nan], [1 / 3]])[:n])


EXPERIMENT = cb.Experiment.from_dict(
    {"id": "e", "arms": ["a", "b"], "metrics": [{"name": "m"}], "policy": "ParetoUCB1"}
)


@pytest.mark.parametrize("n", [0, 1, 3])
def test_rows_are_unpacked_bit_for_bit(n):
    for one, other in zip(unpack(pack(rows(n)), EXPERIMENT), rows(n), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("text", ["", "§", "AAAA", pack(rows())[:-8], pack(rows()._replace(arms=np.array([0, 1, 2])))])
def test_what_does_not_hold_rows_is_refused(text):
    with pytest.raises(CorruptionError, match="'data' does not hold rows of this experiment"):
        unpack(text, EXPERIMENT)


def test_past_rows_come_second_or_not_at_all():
    first = seal_event(BEGINNING, Created(0, EXPERIMENT.declaration, "0"))
    second = seal_event(first.head, Learned(0, "f", "c", 3, pack(rows())))
    third = seal_event(second.head, Learned(0, "f", "c", 3, pack(rows())))
    state = State(EXPERIMENT, EXPERIMENT.arms)
    for record in (first, second):
        state.fold(read(record), None)
    assert state.policy.n_observations == 3
    with pytest.raises(CorruptionError, match=r"event 3 .*past rows come right after the declaration"):
        state.fold(read(third), None)


def test_too_many_rows_are_refused(monkeypatch):
    monkeypatch.setattr("conebandit.service.log.past.MAX_PACKED", 10)
    with pytest.raises(InvalidError, match="3 past rows take 0 MiB, 0 compressed; at most 128 and"):
        pack(rows())


def test_a_text_that_unpacks_to_too_much_is_refused(monkeypatch):
    text = pack(rows())
    monkeypatch.setattr("conebandit.service.log.past.MAX_UNPACKED", 10)
    with pytest.raises(CorruptionError, match="it does not end"):
        unpack(text, EXPERIMENT)


def test_nobody_waits_while_past_rows_are_learned(run, tmp_path, monkeypatch):
    """Learning takes seconds for many rows; a service on the same store must be able to write meanwhile."""
    learn, learned = State._learn, []

    def while_others_write(state, *about, new):
        other = sqlite3.connect(tmp_path / "log.db", timeout=0.0)
        other.execute("BEGIN IMMEDIATE")  # fails if the store is locked
        other.execute("ROLLBACK")
        other.close()
        learned.append(about)
        learn(state, *about, new=new)

    monkeypatch.setattr(State, "_learn", while_others_write)
    assert run("experiment", "create", tmp_path / "trial.toml", "--past", tmp_path / "log.csv").exit_code == 0
    assert len(learned) == 57
    learner = cb.Experiment.from_toml(TOML.replace('"trial"', '"shop"')).learn(table())
    cb.deploy(learner, str(tmp_path / "log.db"))
    cb.deploy(learner, str(tmp_path / "log.db"))
    assert len(learned) == 3 * 57, "the second time from the log, to compare"
    monkeypatch.undo()
    events, state, report = log_of(tmp_path / "log.db", "trial")
    assert_same(state.policy, plain_fold(events))
    assert report.agrees


@pytest.mark.parametrize(("most", "at_once"), [(56, False), (100, True)])
def test_past_rows_make_a_log_long(run, tmp_path, most, at_once):
    """A log of three events is folded anew within a turn, but not if 57 rows are in one of them, and 56 is too much."""
    run("experiment", "create", tmp_path / "trial.toml", "--past", tmp_path / "log.csv")
    store, ledger = open_store(str(tmp_path / "log.db")), Ledger(max_replayed=most)
    with ledger.transaction(store, now=2**42) as transaction:
        Turn(transaction).retire_arm("trial", "bold")
    assert (ledger.state("trial").corrected_from is None) == at_once
    store.close()
