"""A simulated experiment over HTTP, with all that goes wrong, ends where the plain fold of its log ends."""

import math
import random
from concurrent.futures import ThreadPoolExecutor

import pytest

import conebandit as cb
from conebandit.service.client import ClientError
from conebandit.service.http.server import serving
from conebandit.service.log.replay import rebuild
from conebandit.service.log.verify import verify
from conebandit.service.replies import StateDigest
from conebandit.service.stores.base import open_store
from conebandit.service.stores.records import Record
from tests.service.driver import assert_same
from tests.service.load import wait_for_revisions
from tests.service.plain_fold import plain_fold


def simulate(client, name, seed, rounds):
    """Decide, and report in parts, late, twice, out of order, sometimes wrong first; and take some of it back."""
    rng = random.Random(seed)
    outbox = []
    for i in range(rounds):
        context = {"age": rng.uniform(10, 110), "device": rng.choice(["phone", "desk"])}
        id_ = f"{seed}-{i}"
        assignment = client.decide(name, context, id=id_)
        if rng.random() < 0.1:
            assert client.decide(name, context, id=id_) == assignment
        lift = {"old": 0.0, "new": 1.0, "bold": 2.0}[assignment.arm]
        values = {"revenue": lift + rng.gauss(0, 1), "latency": lift * math.log1p(context["age"]) + rng.random()}
        parts = [{k: v} for k, v in values.items()] if rng.random() < 0.5 else [values]
        parts += [p for p in parts if rng.random() < 0.2]
        if rng.random() < 0.05:
            parts.insert(0, {"revenue": 99.0})
        outbox += [(i + rng.expovariate(0.1), id_, p) for p in parts]
        outbox.sort(key=lambda entry: entry[0])
        while outbox and outbox[0][0] <= i:
            _, id_, part = outbox.pop(0)
            client.report(name, id_, part)
            if rng.random() < 0.03:
                client.retract(name, id_, list(part), reason="of another visitor")
        if rng.random() < 0.05:
            client.void(name, f"{seed}-{rng.randint(0, i)}", reason="a robot")
        if rng.random() < 0.05:
            client.correct_context(name, f"{seed}-{rng.randint(0, i)}", context, reason="a typing error")
    for _, id_, part in outbox[: len(outbox) // 2]:  # the rest never arrives
        client.report(name, id_, part)
    client.close()


def folded_anew(address, served):
    """The log of a service that has ended, its fold by the library, and what ``verify`` says of what was served."""
    store = open_store(address)
    with store.read() as session:
        events = session.events("checkout", limit=10**6)
        state = rebuild(session, "checkout", session.head("checkout"), snapshots=False)
        report = verify(session, "checkout", StateDigest.from_dict(served), every=True)
    store.close()
    return events, state, report


def test_http_and_library_agree(address, declaration):
    with serving(address) as url:
        client = cb.Client(url)
        client.create(declaration)
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda seed: simulate(cb.Client(url), "checkout", seed, 60), range(4)))
        wait_for_revisions(client)
        served = client.state("checkout")
        client.close()
    events, state, report = folded_anew(address, served)
    assert (report.agrees, report.recomputed) == (True, report.decisions)
    kinds = [e.kind for e in events]
    assert kinds.count("decided") == 240
    assert served == {"events": len(events), "check": events[-1].check, "state": state.digest()}
    assert_same(state.policy, plain_fold(events))
    as_if_all_counted = Record(0, "revised", None, '{"at":0,"upto":1000000}', "")
    assert_same(state.policy, plain_fold([*events, as_if_all_counted]))
    assert {"revised", "voided", "retracted", "context_corrected"} <= set(kinds)


def test_the_client_says_what_is_wrong(tmp_path, declaration):
    with serving(str(tmp_path / "log.db")) as url, cb.Client(url, retries=1) as client:
        client.create(declaration)
        with pytest.raises(ClientError, match="'device' is missing") as refused:
            client.decide("checkout", {})
        assert refused.value.status == 422
        with pytest.raises(ClientError, match="no experiment 'nothing'"):
            client.show("nothing")
        assert client.experiments() == ["checkout"]
        phone = {"device": "phone"}
        made = client.decide_many("checkout", [phone, phone], ids=["a", "b"])
        assert [m.id for m in made] == ["a", "b"]
        receipts = client.report_many("checkout", {"a": {"revenue": 1}, "b": {"latency": 2}})
        assert [r.recorded for r in receipts] == [("revenue",), ("latency",)]
        assert client.report("checkout", "a", {"revenue": 2}).corrected == ("revenue",)
        assert client.front("checkout", phone)["arms"]
        assert client.explain("checkout", phone)["policy"] == "LinearParetoUCB"
        assert client.events("checkout", after=1)["events"][0]["kind"] == "decided"
        assert client.shift("checkout")["alarm"] is None
        assert client.export("checkout").startswith(b"id,at,mode,arm")
        assert client.add_arm("checkout", "x")["arms"][-1]["name"] == "x"
        assert client.retire_arm("checkout", "x")["arms"][-1]["active"] is False
        assert client.change("checkout", {"rules": [{"name": "few", "at_most": 9}]}, "so many")["stage"] == "running"
        assert client.rules("checkout")["rules"][0]["status"] == "open"
        assert client.lift("checkout", "few", "any number will do", "disable")["stopped"] == []
        assert client.set_stage("checkout", "paused", "a pause")["stage"] == "paused"
        assert client.set_mode("checkout", "off")["mode"] == "off"
        assert client.show("checkout")["mode"] == "off"
    with pytest.raises(ClientError, match="cannot be reached"):
        client.show("checkout")
    with pytest.raises(ValueError, match="address must look like"):
        cb.Client("127.0.0.1:8000")
