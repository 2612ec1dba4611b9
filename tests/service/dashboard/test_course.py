"""Past policies of an experiment: each is what the log up to there says, and there are never too many."""

import random
import time

import pytest

from conebandit.service.dashboard.past import course as module
from conebandit.service.dashboard.past.course import MAX_POINTS, Course, Courses
from conebandit.service.errors import UnavailableError
from conebandit.service.log.replay import follow, start, view_at
from conebandit.service.stores.base import open_store
from tests.service.driver import HOUR, Driver, assert_same
from tests.service.test_erasure import ANN
from tests.service.test_erasure import fill as fill_units
from tests.service.test_units import begin as begin_units


def fill(run, decisions, seed=0):
    rng, ids = random.Random(seed), []
    for step in range(1000 * seed, 1000 * seed + decisions):
        run.ask_at_random(rng, ids, step)
        run.tell_at_random(rng, ids)
        run.now += HOUR // 5


def read_all(course):
    while course.advance():
        pass
    return course.past()


def assert_true(past, run):
    """Each point is the state at its position, folded by itself with the view that holds now."""
    assert past.share() == 1.0
    assert past.problem == ""
    with run.store.read() as session:
        head = session.head(run.id)
        view = view_at(session, run.id, head.seq)
        for point in (*past.points[:2], *past.points[-2:]):
            state = start(session, run.id, view, before=0)
            follow(session, state, next(e.head for e in run.events if e.seq == point.seq))
            assert_same(point.policy, state.policy)
            assert point.at == state.at


@pytest.fixture
def run(store, declaration):
    run = Driver(store)
    run.create(declaration)
    return run


@pytest.fixture
def one(tmp_path, declaration):
    """On SQLite alone."""
    store = open_store(str(tmp_path / "log.db"))
    run = Driver(store)
    run.create(declaration)
    yield run
    store.close()


@pytest.mark.untraced
@pytest.mark.parametrize("decisions", [0, 1, 40, 150])
def test_points_are_what_the_log_says_and_are_spread_over_it(run, decisions):
    fill(run, decisions)
    past = read_all(Course(run.store, "checkout"))
    assert_true(past, run)
    known = [point.observations for point in past.points]
    assert known == sorted(set(known))
    assert len(known) <= MAX_POINTS
    if decisions == 150:
        assert len(known) >= MAX_POINTS // 2 - 1
        gaps = [b - a for a, b in zip([0, *known], [*known, run.state.observations], strict=True)]
        assert max(gaps) <= 3 * (sum(gaps) / len(gaps)), "no long part of the log is left out"


def test_as_the_log_grows_points_are_those_that_a_new_reader_finds(one):
    course = Course(one.store, "checkout")
    for step in range(4):
        fill(one, 40, seed=step)
        past, anew = read_all(course), read_all(Course(one.store, "checkout"))
        assert [point.seq for point in past.points] == [point.seq for point in anew.points]
        for a, b in zip(past.points, anew.points, strict=True):
            assert_same(a.policy, b.policy)
    with one.store.read() as session:
        assert past.points[-1].seq <= session.head("checkout").seq
    assert_true(past, one)


def test_a_correction_counts_from_the_first_point_on(run):
    fill(run, 60)
    course = Course(run.store, "checkout")
    before = read_all(course)
    run.correct_context([{"id": "d0", "context": {"age": 90, "device": "desk"}, "reason": "mixed up"}])
    run.void([{"id": "d3", "reason": "a test"}])
    past = read_all(course)
    assert_true(past, run)
    with pytest.raises(AssertionError):
        assert_same(past.points[-1].policy, before.points[-1].policy)


def test_another_arm_begins_the_course_anew(run):
    fill(run, 30)
    course = Course(run.store, "checkout")
    assert read_all(course).experiment.arms == ("old", "new", "bold")
    run.add_arm("newest")
    past = read_all(course)
    assert past.experiment.arms == ("old", "new", "bold", "newest")
    assert_true(past, run)


def test_who_is_erased_is_forgotten(store, declaration):
    run = begin_units(store, declaration)
    fill_units(run)
    course = Course(store, "checkout")
    before = read_all(course)
    run.erase(ANN, "asked")
    past = read_all(course)
    assert_true(past, run)
    assert past.points[-1].policy.n_observations <= run.policy().n_observations
    assert not set(map(id, past.points)) & set(map(id, before.points))


def test_another_log_of_the_same_name_is_read_from_its_beginning(one, tmp_path, declaration):
    fill(one, 50)
    course = Course(one.store, "checkout")
    read_all(course)
    other = Driver(open_store(str(tmp_path / "other.db")))
    other.create(declaration)
    fill(other, 70, seed=9)
    course._store = other.store
    assert_true(read_all(course), other)
    other.store.close()


def test_large_policies_leave_fewer_points_and_less_room_leaves_fewer_still(one):
    fill(one, 100)
    size = read_all(Course(one.store, "checkout")).points[0].size
    course = Course(one.store, "checkout", max_bytes=5 * size)
    past = read_all(course)
    assert 2 <= len(past.points) <= 5
    assert_true(past, one)
    course.allow(2 * size)
    assert 1 <= len(course.past().points) <= 2
    course.allow(size - 1)
    assert course.past().points == ()
    assert read_all(Course(one.store, "checkout", max_bytes=0)).points == ()


def test_what_was_folded_in_part_is_folded_anew(one, monkeypatch):
    fill(one, 60)
    course = Course(one.store, "checkout")
    course.advance(limit=50)
    windows = type(course._state._windows)
    with monkeypatch.context() as patched:
        patched.setattr(windows, "close", lambda *_: (_ for _ in ()).throw(UnavailableError("gone")))
        with pytest.raises(UnavailableError):
            course.advance(limit=50)
    assert course.past().points == ()
    assert_true(read_all(course), one)


def wait_for(condition):
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_courses_are_read_on_demand_and_share_the_room(one, declaration, monkeypatch):
    monkeypatch.setattr(module, "MAX_COURSES", 2)
    for name in ("a", "b"):
        other = Driver(one.store, name)
        other.create({**declaration, "id": name})
        fill(other, 20)
    fill(one, 20)
    courses = Courses(one.store)
    first = courses.ask("checkout")
    wait_for(lambda: first.past().share() == 1.0)
    assert_true(first.past(), one)
    assert courses.ask("checkout") is first
    fill(one, 20, seed=1)
    courses.ask("checkout")
    wait_for(lambda: any(point.seq > 50 for point in first.past().points))  # none while it begins anew
    courses.ask("a")
    assert first._max_bytes == module.MAX_BYTES // 2
    courses.ask("b")
    assert courses.ask("checkout") is not first, "the one that nobody has asked for longest is forgotten"
    courses.close()
    assert courses.ask("checkout").past().share() < 1.0, "nothing is read any more"


def test_all_is_forgotten_when_nobody_asks(one):
    fill(one, 20)
    courses = Courses(one.store, idle=0.05)
    first = courses.ask("checkout")
    wait_for(lambda: courses._thread is None)
    again = courses.ask("checkout")
    assert again is not first
    wait_for(lambda: again.past().share() == 1.0)
    courses.close()


def test_a_damaged_log_is_said_to_be_so(one):
    fill(one, 30)
    with one.store.write() as session:
        session._run("UPDATE events SET body = replace(body, 'phone', 'desk') WHERE seq > 20")
    courses = Courses(one.store)
    course = courses.ask("checkout")
    wait_for(lambda: course.past().problem)
    assert "event" in course.past().problem
    missing = courses.ask("nothing")
    wait_for(lambda: missing.past().problem)
    assert "no experiment" in missing.past().problem
    courses.close()
