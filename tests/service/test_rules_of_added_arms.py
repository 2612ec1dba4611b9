"""Safety rules that name an arm which was added later, by a change of the declaration."""

import random

import pytest

from conebandit.diagnose import bound_watch
from conebandit.experiment.declaration import Experiment
from conebandit.experiment.errors import InvalidError
from conebandit.service.archive import archive
from conebandit.service.client import Client
from conebandit.service.copying import copied_declaration, describe
from conebandit.service.engine.ledger import Ledger
from conebandit.service.errors import ConflictError
from conebandit.service.export import export
from conebandit.service.http.server import serving
from conebandit.service.log.restore import restore
from conebandit.service.stores.records import from_lines
from tests.service.driver import HOUR, PHONE, Driver, assert_same
from tests.service.plain_fold import plain_fold
from tests.service.test_rules import NEVER, begin, bound, check_against_the_twin, elsewhere, trial, verified

__all__ = ["elsewhere", "trial"]  # fixtures
WHY = "a new dose"
OF_EXTRA = bound(arm="extra", above=2, error=0.2, then="suspend")


def with_extra(run, *rules):
    """An arm is added, and rules are declared that name it."""
    run.add_arm("extra")
    return run.change({"rules": list(rules)}, WHY)


def ask_until(run, arm, name):
    """Decisions until an arm is served; the id of that one."""
    for i in range(200):
        if run.ask(f"{name}{i}")["arm"] == arm:
            return f"{name}{i}"
    raise AssertionError(f"{arm} was never served")


def test_a_change_may_name_an_arm_that_was_added(store, trial):
    run = begin(store, trial)
    with pytest.raises(InvalidError, match="arm must be one of old, new, bold; got 'extra'"):
        run.change({"rules": [OF_EXTRA]}, WHY)
    told = with_extra(run, OF_EXTRA)
    assert told["declaration"]["added_arms"] == ["extra"]
    assert told["declaration"]["arms"] == ["old", "new", "bold"]
    events = len(run.events)
    assert run.change({"rules": [OF_EXTRA]}, WHY)["events"] == told["events"], "the same again does nothing"
    assert run.change(told["declaration"], WHY)["events"] == told["events"]
    assert len(run.events) == events
    [rule] = run.state.rules.rules.values()
    assert (rule.arms, rule.others, rule.needed) == (("extra",), False, 5.0)
    with pytest.raises(InvalidError, match="must be one of old, new, bold, extra; got 'extr'"):
        run.change({"rules": [OF_EXTRA | {"arm": "extr"}]}, WHY)
    run.retire_arm("extra")
    assert "added_arms" in run.change({"rules": [OF_EXTRA, {"burn_in": 3}]}, WHY)["declaration"]
    assert "added_arms" not in run.change({"rules": []}, WHY)["declaration"]
    assert verified(store).agrees


def test_rules_for_each_arm_divide_their_error_as_before(store, trial):
    """The arm that was added is watched with a share as large as those of the others."""
    each = bound(name="each", then="baseline")
    run = begin(store, trial, each)
    before = run.state.rules.rules["each"]
    with_extra(run, each, OF_EXTRA)
    assert run.state.rules.rules["each"] == before
    assert before.needed == 60.0


def test_only_the_service_says_which_arms_were_added(store, trial):
    run = begin(store, trial)
    with pytest.raises(InvalidError, match="added_arms cannot be given"):
        Driver(store, "other").create({**trial, "id": "other", "added_arms": ["extra"]})
    with pytest.raises(InvalidError, match="added_arms: 'new' is one of the 'arms'"):
        Experiment.from_dict({**trial, "added_arms": ["new"]})
    assert "added_arms" not in run.change({"added_arms": ["extra"]}, WHY)["declaration"]
    declared = with_extra(run, OF_EXTRA)["declaration"]
    Driver(store).create(declared)  # as somebody does who sends it again
    assert Experiment.from_toml(Experiment.from_dict(declared).to_toml()).rules == Experiment.from_dict(declared).rules


def test_it_begins_with_nothing_at_the_change(store, trial):
    """What the arm did before does not count, and neither do values of that which come later."""
    run = begin(store, trial)
    run.add_arm("extra")
    known, late = ask_until(run, "extra", "a"), ask_until(run, "extra", "b")
    run.tell(known, latency=12.0)
    run.change({"rules": [OF_EXTRA | {"error": 0.05}]}, WHY)
    run.tell(late, latency=12.0)
    [told] = run.rules()["rules"]
    assert (told["status"], told["decisions"]) == ("watching", 0)
    first = ask_until(run, "extra", "c")
    [told] = run.rules()["rules"]
    assert (told["arm"], told["decisions"], told["known"], told["needed"]) == ("extra", 1, 0, 20.0)
    assert told["evidence"] <= 1.0
    run.tell(first, latency=12.0)
    [told] = run.rules()["rules"]
    assert (told["known"], told["mean"]) == (1, 12.0)
    for i in range(60):
        if run.state.rules.stopped:
            break
        run.tell(ask_until(run, "extra", f"d{i}-"), latency=12.0)
    assert run.state.rules.stopped == {("harm", "extra"): "suspend"}
    assert "extra" not in {m["arm"] for m in run.decide([{"id": f"e{i}", "context": PHONE} for i in range(60)])}
    assert verified(store).agrees


def test_a_cap_on_an_arm_that_was_added(store, trial):
    run = begin(store, trial)
    with_extra(run, {"arm": "extra", "at_most": 3})
    made = run.decide([{"id": f"d{i}", "context": PHONE} for i in range(80)])
    assert [m["arm"] for m in made].count("extra") == 3
    assert verified(store).agrees


def test_a_copy_has_the_arm_and_its_rule(store, trial):
    run = begin(store, trial)
    with_extra(run, OF_EXTRA)
    copied = copied_declaration(describe(store, "checkout"), "second", {})
    assert (copied["arms"], "added_arms" in copied) == (["old", "new", "bold", "extra"], False)
    Driver(store, "second").create(copied)


@pytest.mark.untraced
@pytest.mark.parametrize("seed", range(4))
def test_any_traffic_means_what_the_twin_says(store, elsewhere, trial, seed, monkeypatch):
    """Two ledgers that take turns, corrections, snapshots, lifts and changes; then a log that is read elsewhere."""
    monkeypatch.setattr(bound_watch, "RESTART", 4)
    monkeypatch.setattr(bound_watch, "MAX_BETS", 100)
    rng = random.Random(seed)
    trial["metrics"][1]["default"] = 9.0
    cap = {"arm": "extra", "at_most": 4, "per": "6h"}
    declared = [[OF_EXTRA], [OF_EXTRA, cap], [bound(name="each", error=0.1, then="baseline"), OF_EXTRA], [cap]]
    run = begin(store, trial)
    ledgers, ids = [Ledger(NEVER), Ledger(NEVER)], []
    for step in range(150):
        run.ledger = rng.choice(ledgers)
        run.now += rng.choice([0, 0, 1, 60_000, HOUR // 2])
        what = rng.random() if step != 15 else None
        try:
            if what is None:
                with_extra(run, OF_EXTRA)
            elif what < 0.42 or not ids:
                run.ask_at_random(rng, ids, step)
            elif what < 0.80:
                run.tell_at_random(rng, ids)
            elif what < 0.90 and run.awaits_revision:
                run.go_on_from(run.begin_revision())
            elif what < 0.94:
                run.write_snapshot()
            elif what < 0.97 and step > 15:
                run.change({"rules": rng.choice(declared)}, WHY)
            elif step > 15 and "harm" in run.state.rules.rules:
                run.lift("harm", "to go on", "restart")
        except ConflictError:  # a rule that has fired must be lifted before it is changed
            ids[:] = [id_ for id_ in ids if id_ in {e.decision for e in run.events}]
        run.describe()  # at the head
        check_against_the_twin(run, [OF_EXTRA, declared[2][0]])
    plain, digests = plain_fold(run.events), set()
    for ledger in [*ledgers, Ledger(NEVER)]:
        run.ledger = ledger
        assert_same(run.policy(), plain)
        digests.add(run.digest()["state"])
    assert digests == {verified(store).state}
    lines = b"".join(export(store, "checkout", "jsonl")).decode().splitlines(keepends=True)
    restore(elsewhere, from_lines(iter(lines)))
    there = Driver(elsewhere)
    there.ledger, there.now = Ledger(NEVER), run.now
    assert (there.digest(), there.rules()) == (run.digest(), run.rules())


def test_an_archive_has_the_rule_and_what_it_has_seen(store, trial, tmp_path):
    run = begin(store, trial)
    with_extra(run, OF_EXTRA)
    for i in range(3):
        run.tell(ask_until(run, "extra", f"d{i}-"), latency=12.0)
    run.set_stage("ended", "done")
    before = run.digest(), run.rules(), run.describe()
    archive(store, "checkout", tmp_path / "checkout.jsonl")
    with (tmp_path / "checkout.jsonl").open(encoding="utf-8", newline="\n") as file:
        restore(store, from_lines(file))
    there = Driver(store)
    there.now = run.now
    assert (there.digest(), there.rules(), there.describe()) == before
    assert verified(store).agrees


def test_over_http(tmp_path, trial):
    with serving(str(tmp_path / "log.db")) as url, Client(url) as client:
        client.create(trial)
        client.add_arm("checkout", "extra")
        told = client.change("checkout", {"rules": [OF_EXTRA]}, "a new dose")
    assert told["declaration"]["added_arms"] == ["extra"]
