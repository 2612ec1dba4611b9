"""The quick way past the desk takes nothing that the desk would not, and leads to the same log, to the letter."""

import asyncio
import contextlib
import copy
import json
import random
import time

import httpx
import pytest

from conebandit.experiment.declaration import Experiment
from conebandit.service.engine.clock import SteadyClock
from conebandit.service.engine.edge_desk import EdgeDesk
from conebandit.service.engine.published_states import PublishedStates
from conebandit.service.engine.quick_desk import RawUpload, ready_at
from conebandit.service.engine.ready import Ready
from conebandit.service.engine.uploads import Uploads
from conebandit.service.engine.writer import Writer
from conebandit.service.http.app import create_app
from conebandit.service.http.quick import ShortWays
from conebandit.service.http.routes.edges import _form
from conebandit.service.log.entries import By
from conebandit.service.log.verify import verify
from conebandit.service.stores.base import open_store
from conebandit.service.stores.seals import Seals
from tests.service.conftest import DECLARATION
from tests.service.driver import PHONE, Driver

WHO = [None, By(None, None), By("página", None), By("key", "dr. who"), By(None, "\x7fß"), By("100 %", "%s%%")]
RULES = [{"metric": "latency", "above": 9, "error": 0.05, "then": "stop"}]
POLICIES = [{"name": "LinearParetoUCB"}, {"name": "ConeTree", "explore": 0.1}, {"name": "ConeKernel"}]
HOSTILE = {  # what a decision is changed to, and is not what an honest edge sends
    "another arm": {"arm": "new"},
    "another mode": {"mode": "shadow"},
    "another propensity": {"propensity": 0.25},
    "true for one": {"propensity": True},
    "an arm more": {"active": ["old", "new", "bold", "more"]},
    "no choice": {"choice": None},
    "an entry more": {"more": 1},
    "null for stale": {"stale": None},
    "stale": {"stale": True},
    "a unit": {"unit": "u"},
    "an alias": {"alias": "d_0123456789abcdef"},
    "a number as id": {"id": 3},
    "a space in the id": {"id": "a b"},
    "a long id": {"id": "a" * 129},
    "a line break in the id": {"id": "a\n"},
    "a tab in the id": {"id": "a\tb"},
    "an id that is there twice": {"id": "d1"},
    "before 1970": {"at": -1},
    "after the end of time": {"at": 2**62},
    "half a millisecond": {"at": 1_000_000.5},
    "true for a time": {"at": True},
    "no context": {"context": None},
    "a list of contexts": {"context": [PHONE]},
    "a table in a context": {"context": {**PHONE, "age": {}}},
    "true for a number": {"context": {**PHONE, "age": True}},
    "an unknown column": {"context": {**PHONE, "size": 3}},
    "a number for a level": {"context": {**PHONE, "device": 3}},
}


def body_of(published, made, edge="web-1"):
    """What an edge sends."""
    head = {"edge": edge, "state": published.seq, "check": published.check}
    return json.dumps({**head, "decisions": made}).encode()


def honest(published, contexts, prefix="d", at=1_000_000):
    """Decisions as an edge makes them."""
    ids, experiment = [f"{prefix}{i}" for i in range(len(contexts))], published.state.experiment
    made = published.decide([experiment.coordinates(context) for context in contexts], ids)
    return [
        {
            "id": id_,
            "at": at + i,
            **{name: value for name, value in selection._asdict().items() if name not in ("choice", "version")},
            "choice": None if selection.choice is None else selection.choice._asdict(),
            "context": context,
        }
        for i, (id_, context, selection) in enumerate(zip(ids, contexts, made, strict=True))
    ]


def context_at_random(rng):
    """Some leave things to rules, some have numbers that are written with an exponent, some are out of order."""
    context = {
        "age": rng.choice([rng.uniform(0, 120), rng.randint(0, 120), 18 + 1e-7, 1e-9, 2.5e14, -0.0, None]),
        "device": rng.choice(["phone", "désk\x7f", ']},{"active":[', '"at":null', "a\tb\nc\\"]),
        "at": rng.choice([None, 0.5]),
    }
    if context["age"] is None and rng.random() < 0.5:
        del context["age"]
    return dict(rng.sample(sorted(context.items()), len(context)))


def declared(declaration, policy, mode="live"):
    columns = [
        declaration["context"][0],
        {"name": "device", "levels": ["phone", "desk"], "unknown": "zeros"},
        {"name": "at", "low": 0, "high": 1, "missing": 0},
    ]
    return {**declaration, "arms": ["old", "neü", "e-5"], "context": columns, "policy": policy, "mode": mode}


class Service:
    """A service whose policy has learned something, and has published it."""

    def __init__(self, store, declaration):
        self.store, self.run, rng = store, Driver(store), random.Random(3)
        self.run.create(declaration)
        for i in range(30):
            self.run.ask(f"t{i}", context_at_random(rng))
            self.run.tell(f"t{i}", revenue=rng.random(), latency=rng.uniform(0, 12))
        self.run.now += 5000
        self.published = self.run.publish()
        self.desk = EdgeDesk(store, self.run.ledger.published)

    def quickly(self, body, by=None):
        """What the quick way makes of a request; None if it leaves it to the other."""
        sent = RawUpload.read(body)
        return None if sent is None else ready_at(self.desk, "checkout", sent, by)

    def slowly(self, body):
        sent = _form.validate_json(body)
        return self.desk.check("checkout", (sent.state, sent.check), sent.edge, sent.decisions)

    def verified(self):
        with self.store.read() as session:
            return verify(session, "checkout")


@pytest.fixture
def pair(tmp_path, declaration):
    """Two services that are the same, but for their files."""

    def made(policy, mode="live", seals=None):
        for name in "ab":
            store = stack.enter_context(contextlib.closing(open_store(str(tmp_path / f"{name}.db"), seals=seals)))
            yield Service(store, declared(declaration, policy, mode))

    with contextlib.ExitStack() as stack:
        yield made


@pytest.mark.parametrize("mode", ["live", "shadow", "off"])
@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy["name"])
def test_both_ways_lead_to_the_same_log(pair, policy, mode):
    rng, seals = random.Random(5), Seals({"k": "a-secret-of-more-than-32-characters"}) if mode == "shadow" else None
    quick, slow = pair(policy, mode, seals)
    for i, who in enumerate(WHO):
        contexts = [context_at_random(rng) for _ in range(rng.choice([1, 2, 40]))]
        body = body_of(quick.published, honest(quick.published, contexts, f"d{i}-", quick.run.now - 10_000 * (i == 2)))
        quick.run.now = slow.run.now = quick.run.now + (i != 3) * 1000  # once, the clock of the edge is ahead
        written = quick.quickly(body, who)
        assert written is not None
        assert quick.run.take_ready(Ready.from_text(written.to_text())) == slow.run.take(slow.slowly(body), who)
    assert [record for record in quick.run.events if record.decision is not None][30:]
    assert quick.run.events == slow.run.events
    assert quick.run.state.digest() == slow.run.state.digest()
    assert quick.verified().agrees


def test_what_is_there_is_not_taken_twice(pair):
    quick, slow = pair(POLICIES[0])
    made = honest(quick.published, [{"age": 20 + i, "device": "phone"} for i in range(9)])
    quick.run.now = slow.run.now = quick.run.now + 1000
    elsewhere = {"id": "d5", "context": {"device": "phone"}}
    for run in (quick.run, slow.run):
        run.decide([elsewhere])
    for some in (made[:3], made[:3], made[1:7], made):
        body = body_of(quick.published, some)
        assert quick.run.take_ready(quick.quickly(body)) == slow.run.take(slow.slowly(body), None)
        assert quick.run.events == slow.run.events
    assert quick.run.take_ready(quick.quickly(body_of(quick.published, made)))["repeated"] == 8


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with contextlib.closing(open_store(str(tmp_path_factory.mktemp("quick") / "log.db"))) as store:
        yield Service(store, {**declared(copy.deepcopy(DECLARATION), POLICIES[0]), "arms": ["old", "new", "bold"]})


@pytest.mark.parametrize("change", HOSTILE.values(), ids=HOSTILE)
def test_what_is_not_as_it_comes_out_here_is_left_to_the_desk(service, change):
    made = honest(service.published, [PHONE] * 3)
    assert made[0]["arm"] == "bold"
    assert service.quickly(body_of(service.published, made)) is not None
    assert service.quickly(body_of(service.published, [{**made[0], **change}, *made[1:]])) is None


def test_true_is_not_taken_for_one_and_nothing_may_be_missing(service):
    [made] = honest(service.published, [PHONE])
    choice, published = made["choice"], service.published
    for name, value in (("propensity", True), ("probabilities", {"bold": True}), ("probabilities", None), ("more", 1)):
        assert service.quickly(body_of(published, [{**made, "choice": {**choice, name: value}}])) is None
    sure = made | {"mode": "live", "propensity": 1.0, "choice": {**choice, "propensity": 1.0}}
    assert service.quickly(body_of(published, [sure])) is None
    for name in made:
        assert service.quickly(body_of(published, [{key: made[key] for key in made if key != name}])) is None


def test_only_an_upload_is_read_as_one(service):
    made = honest(service.published, [PHONE])
    table = json.loads(body_of(service.published, made))
    assert RawUpload.read(json.dumps(table).encode()) is not None
    others = [
        *({key: table[key] for key in table if key != name} for name in table),
        *({**table, name: value} for name in table for value in (None, True, 2.5, [], {}, 0)),
        {**table, "decisions": made * 1001},
        {**table, "state": 2**53},
        {**table, "more": 1},
        [table],
        "text",
    ]
    bodies = [b"", b"{", b"[" * 10_000, b'{"edge":NaN}', *(json.dumps(other).encode() for other in others)]
    assert [RawUpload.read(body) for body in bodies] == [None] * len(bodies)


def test_a_state_that_is_not_known_here_is_left_to_the_desk(service):
    body = body_of(service.published, honest(service.published, [PHONE]))
    stranger = EdgeDesk(service.store, PublishedStates())
    assert ready_at(stranger, "checkout", RawUpload.read(body), None) is None
    known = RawUpload.read(body)
    for wrong in ({"check": "0" * 32}, {"state": 1}, {"state": 2**40}, {"edge": "a b"}):
        assert ready_at(service.desk, "checkout", known._replace(**wrong), None) is None
    assert ready_at(service.desk, "nothing", known, None) is None


@pytest.mark.parametrize("entry", [{"unit": {}}, {"rules": RULES}], ids=["units", "rules"])
def test_units_and_rules_are_left_to_the_desk(tmp_path, declaration, entry):
    with contextlib.closing(open_store(str(tmp_path / "log.db"))) as store:
        run = Driver(store)
        declaration["metrics"][1]["range"] = [0, 10]
        run.create({**declaration, **entry})
        published = run.publish()
        desk = EdgeDesk(store, run.ledger.published)
        body = body_of(published, honest(published, [PHONE]))
        assert ready_at(desk, "checkout", RawUpload.read(body), None) is None


def test_partitions_keep_what_is_written_and_lead_to_the_same_log(postgres, declaration):
    logs = []
    for way in ("quick", "slow"):
        address = postgres.fresh_database(f"quick{time.monotonic_ns()}")
        with contextlib.closing(open_store(address)) as store:
            service = Service(store, declared(declaration, POLICIES[1]))
            uploads = Uploads(store, submit=lambda *_: pytest.fail("nobody was to be asked"))
            made, rng = {}, random.Random(9)
            for i in range(6):
                edge = f"web-{i % 2}"
                made[i] = honest(service.published, [context_at_random(rng) for _ in range(30)], f"d{i}-")
                body = body_of(service.published, [*made[i], *made.get(i - 4, [])], edge)
                if way == "quick":
                    told = uploads.add_ready("checkout", edge, service.quickly(body, WHO[i % 5]), WHO[i % 5])
                else:
                    told = uploads.add("checkout", edge, service.slowly(body), WHO[i % 5])
                assert (told.taken, told.repeated, told.refused) == (60 - 30 * (i < 4), 0, ())
            service.run.ask("d1-7", PHONE)  # somebody else has the same id
            service.run.now += 1000
            while service.run.take_uploads():
                pass
            again = service.quickly(body_of(service.published, made[0], "web-0"))
            told = uploads.add_ready("checkout", "web-0", again, None)
            assert (told.taken, told.repeated) == (0, 30)
            assert service.verified().agrees
            logs.append(service.run.events)
    assert logs[0] == logs[1]


def test_over_http_both_ways_give_the_same_answers(tmp_path):
    found, logs = {}, {}
    for way in ("short", "long"):
        writer = Writer(open_store(str(tmp_path / f"{way}.db")), SteadyClock(lambda: 1_000_000, lambda: 0))
        writer.submit("checkout", lambda turn: turn.create(Experiment.from_dict(DECLARATION))).result()
        published = writer.submit("checkout", lambda turn: turn.publish("checkout")).result()
        app = create_app(writer, reachable=False)
        if way == "long":
            app.user_middleware = [one for one in app.user_middleware if one.cls is not ShortWays]
        made = honest(published, [PHONE] * 8)
        bodies = [body_of(published, made[:4]), body_of(published, made[:4]), body_of(published, made[2:])]
        bodies += [
            body_of(published, [{**made[7], "id": f"h{i}", **change}]) for i, change in enumerate(HOSTILE.values())
        ]
        for wrong in ({"check": "0" * 32}, {"state": 1}, {"edge": "a b"}):  # with a right form, and with a wrong one
            bodies += [json.dumps({**json.loads(body), **wrong}).encode() for body in (bodies[0], bodies[6])]
        bodies += [b"", b"{", b"[]", body_of(published, []), body_of(published, made, "a b"), b'{"edge":NaN}']
        found[way] = asyncio.run(post_all(app, bodies))
        with writer.store.read() as session:
            logs[way] = session.events("checkout")
        writer.close()
    assert found["short"] == found["long"]
    assert logs["short"] == logs["long"]
    assert {status for status, _ in found["short"]} == {200, 409, 422}
    assert len(logs["short"]) == 10


async def post_all(app, bodies):
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        headers = {"content-type": "application/json"}
        path = "/experiments/checkout/edge/decisions"
        answers = [await client.post(path, content=body, headers=headers) for body in bodies]
    return [(answer.status_code, answer.content) for answer in answers]
