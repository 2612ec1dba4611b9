"""The monitor sees every context of a log once, whatever goes wrong."""

import threading

import numpy as np
import pytest

from conebandit.diagnose.monitor import ShiftMonitor
from conebandit.experiment.declaration import Experiment
from conebandit.service.errors import CorruptionError, UnavailableError
from conebandit.service.log.entries import seal_event
from conebandit.service.log.events import Decided
from conebandit.service.log.selection import Selection
from conebandit.service.log.times import as_text
from conebandit.service.shift import MAX_TIMES, ShiftWatch, _describe, _Times, _Watched
from conebandit.service.stores.base import open_store
from conebandit.service.stores.records import BEGINNING
from tests.service.driver import Driver


def decide(run, count, first=0, device="phone"):
    contexts = [{"age": 18 + 7 * i % 80, "device": device} for i in range(first, first + count)]
    for start in range(0, count, 400):
        run.decide([{"id": f"d{first + start + i}", "context": c} for i, c in enumerate(contexts[start : start + 400])])


@pytest.fixture
def make(tmp_path, declaration):
    """Makes logs of the same experiment, each in a store of its own."""
    stores = []

    def make_one(count, **how):
        stores.append(open_store(str(tmp_path / f"log{len(stores)}.db")))
        run = Driver(stores[-1])
        run.create(declaration)
        decide(run, count, **how)
        return run

    yield make_one
    for store in stores:
        store.close()


class Flaky:
    """A store that does not answer once, the n-th time that it is read."""

    def __init__(self, store, n):
        self._store, self._left = store, n

    def read(self):
        self._left -= 1
        if self._left == 0:
            raise UnavailableError("gone for a moment")
        return self._store.read()


def test_no_context_is_seen_twice_after_an_error_of_the_database(make):
    run = make(1200)
    plain = ShiftWatch(run.store).report("checkout")
    assert plain.contexts == 1200
    failures = 0
    for n in range(1, 10):
        watch = ShiftWatch(Flaky(run.store, n))
        try:
            report = watch.report("checkout")
        except UnavailableError:
            failures += 1
            report = watch.report("checkout")
        assert report == plain, n
    assert 4 <= failures < 9, "it was read several times, and some of these stores never failed"


class Gate:
    """A lock before which one thread is held up."""

    def __init__(self, lock):
        self._lock, self.arrived, self.opened = lock, threading.Event(), threading.Event()

    def __enter__(self):
        if threading.current_thread().name == "slow":
            self.arrived.set()
            assert self.opened.wait(30)
        return self._lock.__enter__()

    def __exit__(self, *error):
        return self._lock.__exit__(*error)


def test_a_request_that_had_to_wait_does_not_start_over(make, monkeypatch):
    run, fed, answers = make(300), [], []
    update = ShiftMonitor.update_many
    monkeypatch.setattr(ShiftMonitor, "update_many", lambda self, x: fed.append(len(x)) or update(self, x))
    watch = ShiftWatch(run.store)
    watch.report("checkout")
    gate = watch._locks["checkout"] = Gate(watch._locks["checkout"])
    slow = threading.Thread(target=lambda: answers.append(watch.report("checkout")), name="slow")
    slow.start()
    assert gate.arrived.wait(30)
    decide(run, 300, first=300)
    answers.append(watch.report("checkout"))
    gate.opened.set()
    slow.join()
    assert [a.contexts for a in answers] == [600, 600]
    assert sum(fed) == 600


@pytest.mark.parametrize("count", [200, 300, 700])
def test_another_log_of_the_same_name_is_seen_from_its_beginning(make, count):
    watch = ShiftWatch(make(300).store)
    assert watch.report("checkout").contexts == 300
    other = make(count, device="desk").store
    watch._store = other
    assert watch.report("checkout") == ShiftWatch(other).report("checkout")


def test_what_the_monitor_said_after_an_event_can_be_asked_later(make):
    run = make(300)
    watch = ShiftWatch(run.store)
    with run.store.read() as session:
        head = session.events("checkout", 200, 201)[0].head
    then = watch.report("checkout", head)
    assert then.contexts == 200
    now = watch.report("checkout")
    assert (now.contexts, now) == (300, ShiftWatch(run.store).report("checkout"))
    assert watch.report("checkout", head) == then == ShiftWatch(run.store).report("checkout", head)


def test_a_log_that_lacks_its_end_is_not_described(make):
    run = make(300)
    with run.store.write() as session:
        session._run("DELETE FROM events WHERE seq > 200")
    with pytest.raises(CorruptionError, match="events 201 to 301 are missing"):
        ShiftWatch(run.store).report("checkout")


def test_the_service_chooses_blocks_where_contexts_depend_on_each_other(make):
    assert ShiftWatch(make(300).store).report("checkout").block is None
    report = ShiftWatch(make(1300).store).report("checkout")
    assert report.block > 1
    assert report.alarm is None


@pytest.mark.parametrize("block", [1, 50, "day", "week"])
def test_a_declared_block_is_used(make, declaration, block):
    declaration["shift_block"] = block
    report = ShiftWatch(make(600).store).report("checkout")
    assert (report.contexts, report.block) == (600, block)


def decided(contexts, interval):
    """Records of decisions in these contexts, one after each interval."""
    served = Selection("off", "old", 1.0, ("old",), None, None)
    page = []
    for number, x in enumerate(contexts):
        event = Decided(at=number * interval, id=str(number), context={}, x=x, selection=served)
        page.append(seal_event(page[-1].head if page else BEGINNING, event))
    return page


def test_an_alarm_says_when_it_was_noticed_and_since_when(declaration):
    watched = _Watched.begin(Experiment.from_dict(declaration | {"shift_block": 1}))
    ages = np.random.default_rng(0).uniform(size=1400) ** np.where(np.arange(1400) < 900, 1.0, 6.0)
    page = decided([(float(age), 1.0, 0.0) for age in ages], 5000)
    watched.see(page[:600])
    watched.see(page[600:])
    alarm = _describe(watched).alarm
    assert alarm.coordinate == "age"
    assert 900 < alarm.at < 1000
    assert alarm.noticed_at == as_text(5000 * (alarm.at - 1))
    assert alarm.since == as_text(5000 * alarm.change_point)


@pytest.mark.parametrize("n", [1, 100, MAX_TIMES, MAX_TIMES + 1, 5 * MAX_TIMES + 3])
def test_times_of_long_logs_are_those_of_a_context_shortly_before(n):
    times = _Times()
    assert times.of(0) is None
    for at in range(n):
        times.add(at)
    step = max(1, 2 ** int(np.ceil(np.log2(n / MAX_TIMES))))
    assert all(number - step < times.of(number) <= number for number in range(0, n, 7))
    assert times.of(n + 100) <= n - 1


def test_days_end_by_the_clock_of_the_log(declaration):
    """One decision an hour: the same as blocks of 24, but for the last day, which has not ended."""
    watched = _Watched.begin(Experiment.from_dict(declaration | {"shift_block": "day"}))
    contexts = [(hour % 24 / 24, 1.0, 0.0) for hour in range(24 * 40)]
    page = decided(contexts, 3_600_000)
    watched.see(page[:500])
    watched.see(page[500:])
    plain = ShiftMonitor(3, seed=7, block=24)
    plain.update_many(contexts[:-24])
    assert watched.monitor.evidence == plain.evidence
    assert watched.monitor.n_contexts == 24 * 40
