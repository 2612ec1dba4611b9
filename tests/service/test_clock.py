"""Events are dated by the system's clock, unless that jumps."""

from contextlib import closing

import httpx
import pytest

from conebandit.experiment.declaration import Experiment
from conebandit.service.engine import clock as clocks_of_service
from conebandit.service.engine.clock import MAX_STEP, ClockComparison, SteadyClock, plausible_now, since_boot
from conebandit.service.engine.writer import Writer
from conebandit.service.errors import UnavailableError
from conebandit.service.http.metrics import RequestCounts, metrics_text
from conebandit.service.http.server import serving
from conebandit.service.log.verify import verify
from conebandit.service.past import begin
from conebandit.service.stores.base import open_store
from conebandit.service.stores.postgres import PostgresStore
from tests.service.driver import HOUR, PHONE

MINUTE, DAY = HOUR // 60, 24 * HOUR


class Clocks:
    """The time that it is, and a system's clock that may be wrong."""

    def __init__(self):
        self.now, self.wrong = 1_700_000_000_000, 0
        self.steady = SteadyClock(lambda: self.now + self.wrong, lambda: self.now - 5)


def play(path, declaration, jumps):
    """A log of some hours, in which the clock jumps, or not; its records and the last metrics."""
    clocks = Clocks()
    writer = Writer(open_store(path), clocks.steady)
    declared = Experiment.from_dict(declaration)
    writer.submit("checkout", lambda turn: turn.create(declared)).result()

    def ask(name, **request):
        return writer.submit("checkout", lambda turn: getattr(turn, name)("checkout", [request])).result()

    late = []
    for step in range(40):
        clocks.now += 10 * MINUTE
        clocks.wrong = jumps.get(step, clocks.wrong)
        ask("decide", id=f"d{step}", context=PHONE)
        if step >= 3 and step % 3:  # of the others the window closes
            late += ask("report", id=f"d{step - 3}", values={"latency": 1.0, "revenue": 2.0})[0].late
        if clocks.wrong:
            assert f"conebandit_clock_jumped_seconds {clocks.wrong / 1000}" in metrics_text(writer, RequestCounts())
    with writer.store.read() as session:
        events, report = session.events("checkout", limit=1000), verify(session, "checkout")
    text = metrics_text(writer, RequestCounts())
    writer.close()
    assert (report.agrees, report.whole, late) == (True, True, [])
    return events, report.state, text


@pytest.mark.parametrize("jump", [400 * DAY, -400 * DAY, MAX_STEP + 1])
def test_nothing_changes_when_the_clock_jumps_and_comes_back(tmp_path, declaration, jump):
    """Nothing is late that was not, and windows close as they did: all events and the state are the same."""
    events, state, _ = play(str(tmp_path / "steady.db"), declaration, {})
    same, same_state, text = play(str(tmp_path / "jumps.db"), declaration, {10: jump, 20: 0})
    assert same == events
    assert same_state == state
    assert "conebandit_clock_jumped_seconds 0.0" in text
    assert "conebandit_log_ahead_seconds{" not in text


def test_the_clock_may_be_set_by_a_minute(caplog):
    clocks = Clocks()
    for wrong in (MAX_STEP, 0, -MAX_STEP, -2 * MAX_STEP):
        clocks.wrong = wrong
        assert clocks.steady() == clocks.now + wrong
    assert not caplog.records
    clocks.wrong += MAX_STEP + 1
    for _ in range(3):
        clocks.now += 10
        assert clocks.steady() == clocks.now - 2 * MAX_STEP
        assert clocks.steady.jumped == MAX_STEP + 1
    assert [record.levelname for record in caplog.records] == ["ERROR"], "once"
    clocks.wrong = 0
    assert clocks.steady() != clocks.now
    clocks.wrong = -3 * MAX_STEP
    assert clocks.steady() == clocks.now - 3 * MAX_STEP
    assert clocks.steady.jumped == 0
    assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING"]


def test_a_log_that_is_ahead_of_the_clock_is_shown(tmp_path, declaration):
    declared = Experiment.from_dict(declaration)
    for days in (400, 0):  # the second process has a clock that is right
        clocks = Clocks()
        clocks.now += days * DAY
        writer = Writer(open_store(str(tmp_path / "log.db")), clocks.steady)
        writer.submit("checkout", lambda turn: turn.create(declared)).result()
        text = metrics_text(writer, RequestCounts())
        writer.close()
        assert ("conebandit_log_ahead_seconds{" in text) == (days == 0)
    assert f'conebandit_log_ahead_seconds{{experiment="checkout"}} {400.0 * DAY / 1000}' in text


def test_the_steady_clock_goes_on():
    first = since_boot()
    assert isinstance(first, int)
    assert since_boot() >= first


def test_a_log_that_is_ahead_is_said_at_the_start(tmp_path, declaration, caplog):
    declared = Experiment.from_dict(declaration)
    for days in (400, 0):
        clocks = Clocks()
        clocks.now += days * DAY
        writer = Writer(open_store(str(tmp_path / "log.db")), clocks.steady)
        writer.submit("checkout", lambda turn: turn.create(declared)).result()
        assert not caplog.records
        writer.warm_up()
        writer.close()
    assert f"checkout: the log is {400 * DAY // 1000} s ahead of the clock" in caplog.text


@pytest.mark.parametrize(
    ("asked", "theirs", "answered", "ahead"),
    [
        (0, 0, 0, 0),
        (MAX_STEP, 0, MAX_STEP + 5, MAX_STEP),
        (-MAX_STEP, 0, -MAX_STEP, -MAX_STEP),
        (-10 * MAX_STEP, 0, 10, 0),  # it took long to ask
        (MAX_STEP + 1, 0, MAX_STEP + 2, MAX_STEP + 1),
        (-3 * MAX_STEP, 0, -2 * MAX_STEP, -2 * MAX_STEP),
    ],
)
def test_a_clock_may_differ_from_the_database_s_by_a_minute(asked, theirs, answered, ahead):
    times = iter([asked, answered])
    comparison = ClockComparison(lambda: next(times), lambda: theirs)
    for _ in range(3):  # asked once
        if abs(ahead) <= MAX_STEP:
            comparison.check()
        else:
            with pytest.raises(UnavailableError, match="ahead of" if ahead > 0 else "behind"):
                comparison.check()
    assert comparison.ahead == ahead


def test_nothing_is_written_while_the_database_has_another_time(address, declaration, monkeypatch):
    """On PostgreSQL, which has a clock of its own."""
    monkeypatch.setattr(clocks_of_service, "DISAGREED", 0.0)
    declared, clocks = Experiment.from_dict(declaration), Clocks()
    store = open_store(address)
    has_clock = store.now() is not None
    wrong = Writer(store, clocks.steady)  # its time is years ago, as on a machine without a battery
    answer = wrong.submit("checkout", lambda turn: turn.create(declared))
    assert (answer.exception() is not None) == has_clock
    assert (seconds_ahead(metrics_text(wrong, RequestCounts())) < -DAY / 1000) == has_clock
    with store.read() as session:
        assert session.experiments() == ([] if has_clock else ["checkout"])
    if has_clock:
        with pytest.raises(UnavailableError, match="behind the database's: set the one that is wrong"):
            answer.result()
        clocks.now = store.now()  # somebody has set it
        assert wrong.submit("checkout", lambda turn: turn.create(declared)).result().events == 1
    wrong.close()


def seconds_ahead(metrics: str) -> float:
    return float(metrics.partition("\nconebandit_clock_ahead_of_database_seconds ")[2].partition("\n")[0])


def test_commands_do_not_write_by_a_wrong_clock(address, monkeypatch):
    store = open_store(address)
    has_clock = store.now() is not None
    assert abs(plausible_now(store) - clocks_of_service.system_clock()) < MINUTE
    right = clocks_of_service.system_clock
    monkeypatch.setattr(clocks_of_service, "system_clock", lambda: right() + DAY)
    if has_clock:
        with pytest.raises(UnavailableError, match="86400 s ahead of the database's"):
            plausible_now(store)
    else:
        assert plausible_now(store) > right() + MINUTE
    store.close()


def test_a_service_does_not_start_or_go_on_beside_a_database_with_another_time(postgres, declaration, monkeypatch):
    monkeypatch.setattr(clocks_of_service, "AGREED", 0.0)  # asked before every turn
    address = postgres.fresh_database("another_time")
    wrong = [0]
    monkeypatch.setattr(PostgresStore, "now", lambda _: clocks_of_service.system_clock() + wrong[0])
    with closing(open_store(address)) as store:
        begin(store, Experiment.from_dict(declaration), None)
    with serving(address) as url, httpx.Client(base_url=url) as client:
        assert client.get("/readyz").status_code == 200
        wrong[0] = DAY
        decided = client.post("/experiments/checkout/decisions", json={"context": PHONE})
        assert (decided.status_code, client.get("/healthz").status_code) == (503, 200)
        # The database is asked between two looks at the clock: the difference is a day, give or take that moment.
        assert seconds_ahead(client.get("/metrics").text) == pytest.approx(-DAY / 1000, abs=60)
    with pytest.raises(UnavailableError, match="behind the database's"), serving(address):
        pass
