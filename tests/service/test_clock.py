"""Events are dated by the system's clock, unless that jumps."""

import pytest

from conebandit.experiment.declaration import Experiment
from conebandit.service.engine.clock import MAX_STEP, SteadyClock, _since_boot
from conebandit.service.engine.writer import Writer
from conebandit.service.http.metrics import RequestCounts, metrics_text
from conebandit.service.log.verify import verify
from conebandit.service.stores.base import open_store
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
    first = _since_boot()
    assert isinstance(first, int)
    assert _since_boot() >= first
