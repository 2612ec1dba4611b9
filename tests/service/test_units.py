"""Units: they keep their arms, are told apart from each other, and count once where it matters."""

import csv
import io
import json
import random

import pytest

import conebandit as cb
from conebandit.experiment.declaration import Experiment
from conebandit.experiment.errors import InvalidError
from conebandit.service.engine.repair import repair_clock
from conebandit.service.errors import ConflictError, CorruptionError
from conebandit.service.export import export
from conebandit.service.http.server import serving
from conebandit.service.log.restore import restore
from conebandit.service.log.verify import verify
from conebandit.service.shift import ShiftWatch
from conebandit.service.stores.base import open_store
from conebandit.service.stores.personal import UNIT, Alias
from conebandit.service.stores.records import from_lines, seal
from tests.service.driver import HOUR, PHONE, Driver, assert_same
from tests.service.plain_fold import plain_fold

DAY = 24 * HOUR


def begin(store, declaration, sticky=False):
    run = Driver(store)
    run.create({**declaration, "unit": {"sticky": sticky}})
    return run


def visit(run, id_, unit, context=PHONE):
    return run.decide([{"id": id_, "context": context, "unit": unit}])[0]


def verified(store):
    with store.read() as session:
        return verify(session, "checkout", every=True)


# ---- declarations ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("unit", "words"),
    [
        (True, "unit must be a table"),
        ({"stick": True}, "unit has an entry 'stick'"),
        ({"sticky": "soon"}, r"unit\.sticky must be a time .* may also be true"),
        ({"sticky": 0}, r"unit\.sticky must be a time"),
    ],
)
def test_declarations_that_are_refused(declaration, unit, words):
    with pytest.raises(InvalidError, match=words):
        Experiment.from_dict({**declaration, "unit": unit})


def test_a_unit_is_given_if_and_only_if_it_is_declared(tmp_path, declaration):
    store = open_store(str(tmp_path / "log.db"))
    plain = Driver(store)
    plain.create(declaration)
    with pytest.raises(InvalidError, match="declares no units"):
        visit(plain, "d1", "ann")
    run = Driver(store, "other")
    run.create({**declaration, "id": "other", "unit": {}})
    for unit, words in [(None, "must be given"), ("", "1 to 128"), ("x" * 129, "1 to 128"), (7, "1 to 128")]:
        with pytest.raises(InvalidError, match=words):
            visit(run, "d1", unit)
    assert len(run.events) == 1, "nothing was written"
    visit(run, "d1", "Zoë Ångström 7")
    store.close()


# ---- keeping an arm -------------------------------------------------------------------------------------------------


def test_a_unit_keeps_its_arm_for_good(store, declaration):
    run = begin(store, declaration, sticky=True)
    first = {f"p{i}": visit(run, f"first{i}", f"p{i}") for i in range(12)}
    assert len({made["arm"] for made in first.values()}) == 3
    assert not any(made["repeated"] for made in first.values())
    run.now += 5000 * DAY
    for i, (unit, made) in enumerate(first.items()):
        again = visit(run, f"again{i}", unit, {"age": 60, "device": "desk"})
        assert (again["arm"], again["propensity"], again["repeated"]) == (made["arm"], 1.0, True)
        assert again["probabilities"] == {made["arm"]: 1.0}
    decided = [e for e in run.events if e.kind == "decided"]
    assert [e.body["visit"] for e in decided] == [1] * 12 + [2] * 12
    for drawn, kept in zip(decided[:12], decided[12:], strict=True):
        assert "repeats" not in drawn.body
        assert (kept.body["repeats"], kept.body["unit"]) == (drawn.decision, drawn.body["unit"])
        assert (kept.body["choice"], kept.body["version"]) == (None, None), "the policy was not asked"
    report = verified(store)
    assert (report.agrees, report.recomputed) == (True, 24)


def test_for_a_period_that_begins_with_the_draw(store, declaration):
    run = begin(store, declaration, sticky="30d")
    drawn = [visit(run, "a0", "ann")]
    for day in range(1, 100):
        run.now += DAY
        made = visit(run, f"a{day}", "ann")
        if not made["repeated"]:
            drawn.append(made)
    repeated = [e.body.get("repeats") is not None for e in run.events if e.kind == "decided"]
    assert [day for day, kept in enumerate(repeated) if not kept] == [0, 31, 62, 93]
    assert verified(store).whole


def test_a_period_that_began_while_the_clock_was_wrong(store, declaration):
    """It begins anew where the clock was repaired, for all who look at the log."""
    run = begin(store, declaration, sticky="1d")
    made = {"before": visit(run, "before", "ann")}
    run.now += 400 * DAY
    made |= {id_: visit(run, id_, "ann") for id_ in ("wrong", "wrong-2")}
    run.now -= 400 * DAY - HOUR
    repair_clock(store, "checkout", "the battery was empty", "ada", now=run.now)
    run.now += 23 * HOUR
    made["after"] = visit(run, "after", "ann")
    run.now += 2 * HOUR
    made["later"] = visit(run, "later", "ann")
    repeated = {"before": False, "wrong": False, "wrong-2": True, "after": True, "later": False}
    assert {id_: one["repeated"] for id_, one in made.items()} == repeated
    assert Driver(store).digest() == run.digest()
    assert (verified(store).problems, verified(store).whole) == ((), True)


def test_without_it_every_decision_is_drawn(store, declaration):
    run = begin(store, declaration)
    made = [visit(run, f"a{i}", "ann") for i in range(20)]
    assert len({m["arm"] for m in made}) > 1
    assert all(m["propensity"] < 1 and not m["repeated"] for m in made)
    assert [e.body["visit"] for e in run.events if e.kind == "decided"] == list(range(1, 21))


def test_within_one_request(store, declaration):
    run = begin(store, declaration, sticky=True)
    made = run.decide([{"id": f"d{i}", "context": PHONE, "unit": "ann" if i % 2 else "bob"} for i in range(6)])
    assert [m["repeated"] for m in made] == [False, False, True, True, True, True]
    assert len({m["arm"] for m in made[::2]}) == len({m["arm"] for m in made[1::2]}) == 1
    assert verified(store).whole


def test_a_retired_arm_is_not_kept(store, declaration):
    run = begin(store, declaration, sticky=True)
    units = [f"p{i}" for i in range(12)]
    first = {unit: visit(run, f"first-{unit}", unit)["arm"] for unit in units}
    run.retire_arm("new")
    for unit, arm in first.items():
        made = visit(run, f"then-{unit}", unit)
        assert made["repeated"] == (arm != "new")
        assert made["arm"] != "new"
        assert visit(run, f"last-{unit}", unit)["arm"] == made["arm"], "what was drawn then is kept from then on"
    assert verified(store).whole


@pytest.mark.parametrize("mode", ["off", "shadow"])
def test_a_change_of_the_mode_ends_it(store, declaration, mode):
    run = begin(store, declaration, sticky=True)
    units = [f"p{i}" for i in range(8)]
    for unit in units:
        visit(run, f"first-{unit}", unit)
    run.set_mode(mode)
    made = [visit(run, f"then-{unit}", unit) for unit in units[:4]]
    assert {(m["arm"], m["propensity"], m["repeated"]) for m in made} == {("old", 1.0, False)}
    run.set_mode("live")
    made = [visit(run, f"last-{unit}", unit) for unit in units]
    assert not any(m["repeated"] for m in made), "also for those that did not come meanwhile"
    assert all(visit(run, f"kept-{unit}", unit)["repeated"] for unit in units)
    assert verified(store).whole


# ---- names ----------------------------------------------------------------------------------------------------------


def test_the_log_has_aliases_and_callers_their_own_names(store, declaration):
    run = begin(store, declaration, sticky=True)
    made = visit(run, "visit of Ann".replace(" ", "-"), "Ann Smith", {"age": 34, "device": "desk"})
    assert run.tell("visit-of-Ann", revenue=12.25)["id"] == made["id"] == "visit-of-Ann"
    assert visit(run, "visit-of-Ann", "Ann Smith", {"age": 34, "device": "desk"}) == made, "sent twice"
    for context, unit, words in [({"age": 35, "device": "desk"}, "Ann Smith", "context"), (None, "Bob", "unit")]:
        with pytest.raises(ConflictError, match=f"with another {words} before"):
            visit(run, "visit-of-Ann", unit, context or {"age": 34, "device": "desk"})
    sealed = "".join(str(event[:5]) for event in run.events[1:])
    for personal in ("Ann", "age", "desk", "12.25"):
        assert personal not in sealed
    elsewhere = Driver(store)
    assert visit(elsewhere, "visit-of-Ann", "Ann Smith", {"age": 34, "device": "desk"}) == made


def test_two_processes_know_the_same_units(address, declaration):
    one, two = (Driver(open_store(address)) for _ in range(2))
    one.create({**declaration, "unit": {"sticky": True}})
    for i in range(12):
        arms = {visit(run, f"d{i}-{k}", f"p{i % 5}")["arm"] for k, run in enumerate((one, two, one))}
        assert len(arms) == 1
    assert one.digest() == two.digest()
    assert verified(one.store).whole
    for run in (one, two):
        run.store.close()


def test_a_changed_personal_part_is_found(store, declaration):
    run = begin(store, declaration)
    visit(run, "d1", "ann")
    run.tell("d1", revenue=1.0)
    with store.write() as session:
        session._run("UPDATE personal SET content = replace(content, '30', '31') WHERE seq = 2")
    with pytest.raises(CorruptionError, match=r"the personal part of event 2 \(decided\) is not what was written"):
        verified(store)
    with store.write() as session:
        session._run("DELETE FROM personal WHERE seq = 2")
    with pytest.raises(CorruptionError, match="are missing, and no event says why"):
        verified(store)


def test_names_that_lead_elsewhere_are_found(store, declaration):
    run = begin(store, declaration)
    for i in range(3):
        visit(run, f"d{i}", f"p{i}")
    with store.write() as session:
        session._run("UPDATE aliases SET name = 'd7' WHERE name = 'd1'")
    assert verified(store).problems == ("decision at event 3: its name does not lead to it.",)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("SET name = 'p7' WHERE name = 'p1'", "decision at event 3: the name of its unit does not lead to it."),
        ("SET unit = 'u_other' WHERE name = 'd1'", "decision at event 3: its name does not lead to it."),
        ("SET seq = 4 WHERE name = 'd1'", "decision at event 3: its name does not lead to it."),
        ("SET kind = 'erasing' WHERE name = 'd1'", "decision at event 3: its name does not lead to it."),
    ],
)
def test_rows_of_names_that_would_have_an_erasure_miss_something_are_found(store, declaration, change, problem):
    run = begin(store, declaration)
    for i in range(3):
        visit(run, f"d{i}", f"p{i}")
    with store.write() as session:
        session._run(f"UPDATE aliases {change}")
    assert verified(store).problems == (problem,)


def test_rows_of_names_that_are_said_to_be_erased_and_are_not_are_found(store, declaration):
    """Whoever can write could hide a living unit from erasures and outcomes."""
    run = begin(store, declaration)
    for i in range(3):
        visit(run, f"d{i}", f"p{i}")
    hide = (
        "UPDATE aliases SET kind = 'erasing', name = alias WHERE unit IN (SELECT unit FROM aliases WHERE name = 'p1')"
    )
    with store.write() as session:
        session._run(hide)
    assert verified(store).problems == (
        "decision at event 3: its name does not lead to it.",
        "decision at event 3: the name of its unit does not lead to it.",
    )


def test_names_that_are_kept_of_a_unit_that_is_to_be_erased_are_found(store, declaration):
    run = begin(store, declaration)
    for i in range(3):
        visit(run, f"d{i}", f"p{i}")
    with store.read() as session:
        [alias] = session.aliases("checkout", UNIT, ["p1"]).values()
    run.ledger.max_replayed = 0  # its data are there until the next revision, which is somebody else's business
    run.erase("p1", "they asked")
    assert verified(store).agrees
    with store.write() as session:
        session._run("UPDATE aliases SET kind = 'unit', name = 'p1' WHERE alias = ?", (alias,))
    assert verified(store).problems == ("decision at event 3: the name of its unit does not lead to it.",)


@pytest.mark.parametrize(
    ("kind", "alias", "seq"), [("decision", "d_unheard", 3), ("decision", "d_unheard", 99), ("unit", "u_unheard", 3)]
)
def test_names_that_lead_nowhere_are_found(store, declaration, kind, alias, seq):
    """Outcomes and visits would be put to what was erased, or to nothing."""
    run = begin(store, declaration)
    for i in range(3):
        visit(run, f"d{i}", f"p{i}")
    with store.write() as session:
        session.add_aliases("checkout", [Alias(kind, "more", alias, "u_unheard", seq)])
    [problem] = verified(store).problems
    assert problem.startswith("the table of names has 1 row too many")


def test_stores_from_before_there_were_units_are_verified(tmp_path, declaration):
    """Without the table of names, which a store that may not be written does not get."""
    store = open_store(str(tmp_path / "log.db"))
    run = Driver(store)
    run.create(declaration)
    run.ask("d1")
    with store.write() as session:
        session._run("DROP TABLE aliases")
    assert verified(store).whole
    store.close()


def test_a_unit_without_its_row_is_found(store, declaration):
    run = begin(store, declaration)
    visit(run, "d1", "ann")
    with store.write() as session:
        session._run("DELETE FROM aliases WHERE name = 'ann'")
    assert verified(store).problems == ("decision at event 2: the name of its unit does not lead to it.",)


def test_a_unit_that_should_have_kept_its_arm_is_found(tmp_path, declaration):
    store = open_store(str(tmp_path / "log.db"))
    run = begin(store, declaration, sticky=True)
    for i in range(4):
        visit(run, f"d{i}", "ann")
    # Somebody says that the third one was drawn, and seals the log again.
    log, before = [], "0" * 32
    for event in run.events:
        body = event.body
        if event.seq == 4:
            del body["repeats"]
        log.append(seal(before, event.seq, event.kind, event.decision, body)._replace(personal=event.personal))
        before = log[-1].check
    copy = open_store(str(tmp_path / "copy.db"))
    restore(copy, iter(log))
    problems = verified(copy).problems
    assert "decision at event 4: repeats is None in the log" in problems[0]
    store.close()
    copy.close()


def test_experiments_without_units_write_what_they_always_wrote(tmp_path, declaration):
    store = open_store(str(tmp_path / "log.db"))
    run = Driver(store)
    run.create(declaration)
    run.ask("d1")
    run.tell("d1", revenue=1.0)
    assert all(event.personal is None and not event.has_commitment for event in run.events)
    lines = b"".join(export(store, "checkout", "jsonl")).decode().splitlines()
    assert [len(json.loads(line)) for line in lines[1:-1]] == [5, 5, 5]
    with store.read() as session:
        assert list(session._run("SELECT * FROM personal")) == list(session._run("SELECT * FROM aliases")) == []
    assert '"units"' not in str(run.state.plain())
    store.close()


# ---- what becomes of them -------------------------------------------------------------------------------------------


def test_random_logs_of_units_are_what_a_plain_fold_says(tmp_path, declaration):
    store = open_store(str(tmp_path / "log.db"))
    run, rng, ids = begin(store, declaration, sticky="2d"), random.Random(4), []
    for step in range(150):
        run.now += rng.randrange(HOUR)
        if step % 3 == 0 or not ids:
            ids.append(f"d{step}")
            visit(run, ids[-1], f"p{rng.randrange(9)}", {"age": rng.uniform(0, 120), "device": "phone"})
        else:
            run.tell_at_random(rng, ids)
    assert_same(run.policy(), plain_fold(run.events))
    assert run.explain(PHONE)["units"] == run.front(PHONE)["units"] == 9
    report = verified(store)
    assert (report.agrees, report.whole) == (True, True)
    store.close()


def test_snapshots_know_how_many_units_there_are(store, declaration):
    run = begin(store, declaration)
    for i in range(6):
        visit(run, f"d{i}", f"p{i % 4}")
    run.write_snapshot()
    later = Driver(store)
    assert later.explain(PHONE)["units"] == 4
    assert later.digest() == run.digest()
    report = verified(store)
    assert (report.agrees, report.snapshots) == (True, 1)


def test_a_log_with_units_is_exported_and_imported(address, tmp_path, declaration):
    store = open_store(address)
    run = begin(store, declaration, sticky=True)
    for i in range(8):
        visit(run, f"d{i}", f"p{i % 3}")
        run.tell(f"d{i}", revenue=float(i))
    lines = b"".join(export(store, "checkout", "jsonl")).decode()
    copy = open_store(str(tmp_path / "copy.db"))
    restore(copy, from_lines(io.StringIO(lines, newline="\n")))
    there = Driver(copy)
    assert there.events == run.events
    assert verified(copy) == verified(store)
    assert visit(there, "d3", "p0") == visit(run, "d3", "p0"), "the same id gets the same answer"
    assert visit(there, "new", "p1")["arm"] == visit(run, "d1", "p1")["arm"], "and the same unit its arm"
    store.close()
    copy.close()


def test_tables_have_the_unit_and_what_is_repeated(tmp_path, declaration):
    store = open_store(str(tmp_path / "log.db"))
    run = begin(store, declaration, sticky=True)
    for i in range(6):
        visit(run, f"d{i}", f"p{i % 2}")
    rows = list(csv.DictReader(io.StringIO(b"".join(export(store, "checkout", "csv")).decode(), newline="")))
    assert [row["id"] for row in rows] == [f"d{i}" for i in range(6)]
    assert [row["repeats"] for row in rows] == ["", "", "d0", "d1", "d0", "d1"]
    assert len({row["unit"] for row in rows}) == 2
    assert all(row["unit"].startswith("u_") for row in rows)
    assert {row["context.age"] for row in rows} == {"30.0"}
    store.close()


def test_the_shift_monitor_counts_a_unit_once(tmp_path, declaration):
    store = open_store(str(tmp_path / "log.db"))
    run = begin(store, declaration, sticky=True)
    for i in range(30):
        visit(run, f"d{i}", f"p{i % 7}")
    watch = ShiftWatch(store)
    assert watch.report("checkout").contexts == 7
    run.erase("p3", "asked")
    assert watch.report("checkout").contexts == 6
    visit(run, "more", "p8")
    assert watch.report("checkout").contexts == 7
    store.close()


def test_over_http(address, declaration):
    with serving(address) as url, cb.Client(url) as client:
        client.create({**declaration, "unit": {"sticky": True}})
        made = client.decide("checkout", PHONE, id="d1", unit="ann")
        many = client.decide_many("checkout", [PHONE] * 3, units=["ann", "bob", "ann"])
        assert [m.repeated for m in many] == [True, False, True]
        assert many[0].arm == made.arm
        client.report("checkout", "d1", {"revenue": 1.0})
        shown = client.events("checkout")["events"]
        assert shown[1]["body"]["context"] == PHONE
        assert shown[1]["body"]["names"] == {"id": "d1", "unit": "ann"}
        assert shown[-1]["body"]["values"] == {"revenue": 1.0}
        assert "salt" not in shown[1]["body"]
        assert client.explain("checkout", PHONE)["units"] == 2
        with pytest.raises(cb.ClientError, match="unit must be given") as refused:
            client.decide("checkout", PHONE)
        assert refused.value.status == 422
