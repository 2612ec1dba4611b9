"""What an edge writes and answers, quickly, is what a plain program writes and answers, to the byte."""

import contextlib
import itertools
import json
import math
import random
import struct
import subprocess
import sys
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import conebandit as cb
from conebandit.service.edge import lines
from conebandit.service.edge.lines import Asked, decision_texts
from conebandit.service.log import texts
from conebandit.service.log.choosing import choose
from conebandit.service.log.selection import Choice, Selection, Version
from conebandit.service.log.texts import number_texts
from conebandit.service.stores.base import open_store
from tests.service.driver import Driver

NOWHERE = "http://127.0.0.1:9"  # nobody is there
AT = 1_794_858_979_229
ODD_NUMBERS = (0.0, -0.0, 5e-324, 1e-300, 9.99e-06, 1e-05, 9.999e-05, 1e-04, 10.00001, 1e15, 1e16, -1e22, 1.7e308)
ODD_NAMES = ("100 %s", "%%", 'say "so"', "back\\slash", "été", "\u2028", "\ud800", "\x7f", "", "{0}")


@pytest.fixture(params=["pydantic", "alone"])
def writer(request, monkeypatch):
    """With what writes numbers quickly, and where that is not installed."""
    if request.param == "alone":
        monkeypatch.setattr(texts, "_quick_json", lambda: None)


def plain_text(id_, context, unit, key, made, *, at=AT, stale=False):
    """A decision as JSON."""
    choice = made.choice and {
        "arm": made.choice.arm,
        "propensity": made.choice.propensity,
        "probabilities": made.choice.probabilities,
    }
    table = {
        "id": id_,
        **({} if unit is None else {"unit": unit, "alias": key}),
        "at": at,
        "mode": made.mode,
        "arm": made.arm,
        "propensity": made.propensity,
        "active": list(made.active),
        "choice": choice,
        "context": dict(context),
        **({"stale": True} if stale else {}),
    }
    return json.dumps(table, separators=(",", ":"), allow_nan=False)


# ---- texts ----------------------------------------------------------------------------------------------------------

FLOATS = st.floats(allow_nan=False, allow_infinity=False) | st.floats(0, 1) | st.sampled_from(ODD_NUMBERS)
NAMES = st.sampled_from(ODD_NAMES) | st.text(max_size=5)
VALUES = FLOATS | NAMES | st.integers() | st.booleans() | st.none() | FLOATS.map(np.float64)
TABLES = st.dictionaries(NAMES, FLOATS, max_size=4)
CHOICES = st.none() | st.builds(Choice, NAMES, FLOATS, st.none() | TABLES)
SELECTIONS = st.builds(
    Selection,
    st.sampled_from(["live", "shadow", "off"]),
    NAMES,
    FLOATS,
    st.lists(NAMES, max_size=3).map(tuple),
    CHOICES,
    st.none() | st.just(Version("ConeTree", "1.0", 7)),
)
CONTEXTS = st.dictionaries(NAMES, FLOATS, max_size=3) | st.dictionaries(NAMES, VALUES, max_size=3)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(NAMES, CONTEXTS, st.none() | NAMES, SELECTIONS), max_size=6), st.booleans())
def test_decisions_are_written_as_plain_json(made, stale):
    ids, contexts, units, selections = ([row[i] for row in made] for i in range(4))
    keys = [id_ if unit is None else f"d_{i:016x}" for i, (id_, unit) in enumerate(zip(ids, units, strict=True))]
    found = decision_texts(Asked(ids, contexts, units, keys), AT, selections, stale=stale)
    rows = zip(ids, contexts, units, keys, selections, strict=True)
    assert found == [plain_text(*row, stale=stale) for row in rows]
    assert "".join(found).isascii()


@pytest.mark.usefixtures("writer")
@pytest.mark.parametrize("mode", ["live", "shadow"])
@pytest.mark.parametrize("choice", [None, Choice("b", 0.25), Choice("b", 0.25, {"a": 0.75, "b": 0.25})])
def test_what_a_caller_is_told_is_what_its_constructor_makes(mode, choice):
    selection = Selection(mode, "a", 0.75, ("a", "b"), choice, Version("ConeTree", "1.0", 3))
    told, version = lines.assignment("visit-1", selection, "v"), None if choice is None else "v"
    plain = cb.Assignment("visit-1", "a", 0.75, ("a", "b"), mode, version, selection.probabilities)
    assert (told, vars(told), repr(told)) == (plain, vars(plain), repr(plain))
    with pytest.raises(AttributeError):
        told.arm = "b"


def test_numbers_are_written_as_python_writes_them():
    rng = random.Random(4)
    bits = [struct.unpack("<d", rng.randbytes(8))[0] for _ in range(20_000)]
    sizes = [rng.random() * 10.0 ** rng.randint(-8, 20) for _ in range(20_000)]
    shares = [rng.randint(0, 40) / rng.randint(1, 40) for _ in range(2000)]
    numbers = [number for number in bits if math.isfinite(number)] + sizes + shares + list(ODD_NUMBERS)
    assert number_texts(numbers) == list(map(repr, numbers))
    plain = [rng.uniform(0.01, 1.0) for _ in range(1000)]  # so that none of them is odd
    assert number_texts(plain) == list(map(repr, plain))
    assert number_texts([]) == []
    for number in (math.nan, math.inf, -math.inf):
        with pytest.raises(ValueError, match="not JSON compliant"):
            number_texts([0.5, number])


# ---- an edge --------------------------------------------------------------------------------------------------------


def taught(tmp_path, declaration, what):
    """What the service publishes of an experiment that has learned something."""
    declaration["policy"] = {"name": "ConeKernel" if what == "kernel" else "LinearParetoUCB"}
    if what == "explore":
        declaration["policy"]["explore"] = 0.2
    if what == "units":
        declaration["unit"] = {}
    if what == "rules":
        declaration["metrics"][1]["range"] = [0, 10]
        declaration["rules"] = [{"metric": "latency", "above": 6, "error": 0.05, "then": "suspend"}]
    rng = random.Random(1)
    with contextlib.closing(open_store(str(tmp_path / "log.db"))) as store:
        run = Driver(store)
        run.create(declaration)
        for i, context in enumerate(asked_by(rng, 150)):
            about = {"unit": f"u{i}"} if what == "units" else {}
            [made] = run.decide([{"id": f"t{i}", "context": context, **about}])
            run.tell(f"t{i}", revenue=rng.random(), latency=9.5 if made["arm"] == "bold" else rng.uniform(0, 9))
        if what in ("shadow", "off"):
            run.set_mode(what)
        if what == "retired":
            run.ledger.max_replayed = 0  # so that the policy still has the arm
            run.retire_arm("bold")
        run.now += 60_000
        published = run.publish()
        assert bool(published.state.rules.stopped) == (what == "rules")
        return published


def asked_by(rng, n):
    """Contexts as callers send them, most of them plain."""
    contexts = [{"age": rng.uniform(18, 98), "device": rng.choice(["phone", "desk"])} for _ in range(n)]
    for i in rng.sample(range(n), n // 5):
        contexts[i] = rng.choice(
            [{"device": "desk", "age": 30}, {"age": 18.00001, "device": "phone"}, {"device": "desk"}]
        )
    return contexts


@contextlib.contextmanager
def edge_with(published, folder, **options):
    """An edge that has a state and no service."""
    folder.mkdir()
    (folder / "state").write_bytes(published.content)
    edge = cb.Edge(NOWHERE, "checkout", spool=folder, timeout=1, **options)
    try:
        yield edge
    finally:
        edge.close()


def plain_selection(published, context, key, *, stale):
    """What is served: what the policy says, by names; what others say about that is for other tests to check."""
    state = published.state
    experiment, baseline = state.experiment, state.experiment.baseline
    if stale or state.mode == "off":
        return Selection("off", baseline, 1.0, (baseline,), None, None)
    x = np.array(experiment.coordinates(context))
    if state.rules.stopped or not all(state.arms.values()):
        return choose(state, x, key, published.at)
    made, names = state.policy.decide(x, key), state.known
    chances = {name: p for name, p in sorted(zip(names, made.probabilities.tolist(), strict=True)) if p > 0.0}
    active = tuple(name for name, plays in zip(names, made.mask, strict=True) if plays)
    choice = Choice(names[made.arm], float(made.propensity), chances)
    arm, propensity = choice[:2] if state.mode == "live" else (baseline, 1.0)
    return Selection(state.mode, arm, propensity, active, choice, None)


def possible(made):
    """The arms that could have been served, with their probabilities."""
    return made.choice.probabilities if made.mode == "live" else {made.arm: made.propensity}


def spooled(folder):
    """Lines of decisions, whole or not at all."""
    [path] = folder.glob("*.spool")
    found = []
    for line in path.read_bytes().splitlines():
        kind, check, text = line[:1], line[1:9], line[10:]
        assert int(check, 16) == zlib.crc32(text, kind[0])
        found += [text.decode("ascii")] if kind == b"D" else []
    return found


@pytest.mark.untraced
@pytest.mark.parametrize("n", [1, 40])
@pytest.mark.parametrize(
    "what", ["live", "shadow", "off", "retired", "explore", "rules", "units", "stale", "kernel", "alone"]
)
def test_an_edge_writes_and_answers_what_a_plain_program_would(tmp_path, declaration, monkeypatch, what, n):
    published = taught(tmp_path, declaration, what)
    state, rng, aliases = published.state, random.Random(2), itertools.count()
    monkeypatch.setattr("time.time_ns", lambda: AT * 1_000_000 + 999_999)
    monkeypatch.setattr(lines, "new_id", lambda: f"{next(aliases):016x}")
    if what == "alone":
        monkeypatch.setattr(texts, "_quick_json", lambda: None)
    contexts, ids = asked_by(rng, 40), [f"visit-{i}" for i in range(40)]
    units = [f"p\u00e9 {i}" for i in range(40)] if what == "units" else None
    with edge_with(published, tmp_path / "spool", max_staleness=600) as edge:
        edge._held._confirmed -= 3600 if what == "stale" else 0
        told = []
        for start in range(0, 40, n):
            of = None if units is None else units[start : start + n]
            told += edge.decide_many(contexts[start : start + n], ids=ids[start : start + n], units=of)
    keys = [f"d_{i:016x}" for i in range(40)] if what == "units" else ids
    made = [plain_selection(published, *one, stale=what == "stale") for one in zip(contexts, keys, strict=True)]
    rows = zip(ids, contexts, units or [None] * 40, keys, made, strict=True)
    assert spooled(tmp_path / "spool") == [plain_text(*row, stale=what == "stale") for row in rows]
    version = None if made[0].choice is None else str(Version(state.experiment.policy, cb.__version__, state.version))
    assert told == [
        cb.Assignment(id_, one.arm, one.propensity, one.active, one.mode, version, possible(one))
        for id_, one in zip(ids, made, strict=True)
    ]
    assert [list(one.probabilities) for one in told] == [list(possible(one)) for one in made], "also in their order"


def test_a_batch_is_what_its_decisions_are_one_by_one(tmp_path, declaration, monkeypatch):
    """With ids that come again, in the same batch or a later one, in the same context or in another."""
    monkeypatch.setattr("time.time_ns", lambda: AT * 1_000_000)
    published, rng = taught(tmp_path, declaration, "live"), random.Random(5)
    contexts = [{"age": 30, "device": "desk"}, {"age": 30.0, "device": "desk"}, {"device": "desk"}]
    contexts += [{"age": None, "device": "desk"}, {"age": 31, "device": "desk"}, {"age": 1}, {"age": math.nan}]
    refused = 0
    with (
        edge_with(published, tmp_path / "together") as together,
        edge_with(published, tmp_path / "singly") as singly,
    ):
        for _ in range(150):
            ids = [f"d{rng.randrange(60)}" for _ in range(rng.choice([1, 2, 12]))]
            asked = [contexts[min(int(rng.expovariate(1.2)), 6)] for _ in ids]
            before = spooled(tmp_path / "together")
            try:
                told = together.decide_many(asked, ids=ids)
            except (ValueError, cb.ClientError):  # all or none
                refused += 1
                assert spooled(tmp_path / "together") == before
                continue
            assert told == [singly.decide(one, id=id_) for one, id_ in zip(asked, ids, strict=True)]
            assert spooled(tmp_path / "together") == spooled(tmp_path / "singly")
        assert together.decide_many([]) == []
    assert 20 < refused < 130


def test_ids_that_an_edge_makes_are_new_and_known_afterwards(tmp_path, declaration):
    published = taught(tmp_path, declaration, "live")
    with edge_with(published, tmp_path / "spool") as edge:
        contexts = asked_by(random.Random(3), 30)
        told = edge.decide_many(contexts) + [edge.decide(context) for context in contexts]
        ids = [one.id for one in told]
        assert len(set(ids)) == 60
        assert edge.decide_many(contexts * 2, ids=ids) == told
        told[0].probabilities["old"] = 7.0  # a table of its own
        assert all(7.0 not in one.probabilities.values() for one in told[1:])
    assert [json.loads(text)["id"] for text in spooled(tmp_path / "spool")] == ids


def test_an_edge_needs_nothing_of_what_serves(tmp_path, declaration):
    published = taught(tmp_path, declaration, "live")
    with edge_with(published, tmp_path / "spool") as edge:
        expected = edge.decide_many([{"age": 30.5, "device": "desk"}] * 9, ids=[f"d{i}" for i in range(9)])
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "state").write_bytes(published.content)
    code = """
import sys
for name in ("fastapi", "uvicorn", "starlette", "pydantic", "pydantic_core", "psycopg"):
    sys.modules[name] = None
import conebandit as cb
with cb.Edge(sys.argv[1], "checkout", spool=sys.argv[2], timeout=1) as edge:
    print(edge.decide_many([{"age": 30.5, "device": "desk"}] * 9, ids=[f"d{i}" for i in range(9)]) )
"""
    arguments = [sys.executable, "-c", code, NOWHERE, str(tmp_path / "other")]
    ended = subprocess.run(arguments, capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == str(expected)
