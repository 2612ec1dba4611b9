"""Fits that are spread over observations: the same model, wherever a policy is saved or copied meanwhile."""

import pickle
from functools import partial

import numpy as np
import pytest

import conebandit as cb
from conebandit.kernels.cone_kernel.state import FIT_BEGAN, FITTED, NEVER, NEXT_WORK, ROWS
from conebandit.policies.cone_kernel import fit as fits
from conebandit.policies.cone_kernel.work import Job, in_one_go
from conebandit.simulate import step_by_step

from ...plain_cone_kernel import CONES, rounds, trained


@pytest.fixture
def small_budget(monkeypatch):
    """Installments as small as they may be: some dozens of observations for a fit."""
    monkeypatch.setattr(fits, "BUDGET", 1)


def small(**options):
    return cb.ConeKernel(3, CONES["orthant"], 2, n_features=16, **options)


def fresh_fitter():
    return fits.Fitter(2, 128, 0, np.ones((3, 1)))


def assert_same(one, other):
    states = one.state(), other.state()
    for name, array in states[0].items():
        np.testing.assert_array_equal(array, states[1][name], err_msg=name)


def stage(policy):
    """Name of the function in which the fit under way has stopped; None if there is no fit."""
    job = policy._fitter._job
    if job and job.result is not None:
        return "catching up"
    work, name = job and job._work, None
    while work is not None:
        name, work = work.gi_code.co_name, work.gi_yieldfrom
    return name


@pytest.mark.parametrize("budget", [1_000, 30_000, 1_000_000])
def test_installments_lead_to_the_fit_in_one_go(budget):
    """What is known from former fits changes neither the result nor how many installments it takes."""
    policy = trained(n=300)
    state, taken, models = policy._state, [], []
    for fitter in (policy._fitter, fresh_fitter()):
        job, count, model = Job(fitter.fit(state)), 0, None
        while model is None:
            count += 1
            model = job.advance(count * budget)
        taken.append(count)
        models.append(model)
    assert taken[0] == taken[1]
    models.append(in_one_go(fresh_fitter().fit(state)))
    for name, array in models[0]._asdict().items():
        for other in models[1:]:
            np.testing.assert_array_equal(array, getattr(other, name), err_msg=name)


def test_the_new_model_has_learned_from_samples_since_the_fit_began(monkeypatch):
    x, outcomes, _ = rounds(3, 2, 2, 1000)
    monkeypatch.setattr(fits, "REFIT_GROWTH", 1e9)
    slow, fast = small(), small()
    for t in range(1000):
        for policy, budget in ((slow, 1), (fast, 10**12)):
            monkeypatch.setattr(fits, "BUDGET", budget)
            policy.observe(x[t], t % 3, outcomes[t, t % 3])
        if slow._state.size[FITTED]:
            break
    assert 20 < t < 999, "the fit took a while"
    assert_same(slow, fast)


def test_copied_saved_or_pickled_at_any_stage_it_goes_on_alike(small_budget, tmp_path):
    x, outcomes, keys = rounds(3, 2, 2, 700)
    policy, stages = small(), set()
    policy.run_chunk(x[:100], outcomes[:100], keys[:100])
    others = []
    for t in range(100, 400):
        arm = policy.decide(x[t], keys[t]).arm
        policy.observe(x[t], arm, outcomes[t, arm])
        if stage(policy) and (t % 5 == 0 or stage(policy) not in stages):
            stages.add(stage(policy))
            policy.save(tmp_path / "kernel.npz")
            again = (policy.copy, lambda: cb.load_policy(tmp_path / "kernel.npz"))[t % 2]()
            others.append((t + 1, again if t % 3 else pickle.loads(pickle.dumps(policy))))
    assert {"over_all", "posterior", "_learn_kernel", "catching up"} <= stages, stages
    policy.run_chunk(x[400:], outcomes[400:], keys[400:])
    for first, other in others:
        other.run_chunk(x[first:], outcomes[first:], keys[first:])
        assert_same(policy, other)


def test_a_chunk_decides_as_step_by_step_while_fits_are_under_way(small_budget):
    data = rounds(3, 2, 2, 600)
    one, other = small(), small()
    for a, b in zip(one.run_chunk(*data), step_by_step(other, *data), strict=True):
        np.testing.assert_array_equal(a, b)
    assert_same(one, other)


def test_chunks_that_end_during_a_fit_change_nothing(small_budget):
    """A chunk does the work of a fit at once; single steps, or another chunk, take over from there."""
    x, outcomes, keys = rounds(3, 2, 2, 600)
    one, other, under_way = small(), small(), 0
    step_by_step(one, x, outcomes, keys)
    for first in range(0, 600, 20):
        part = slice(first, first + 20)
        run = other.run_chunk if first % 60 else partial(step_by_step, other)
        run(x[part], outcomes[part], keys[part])
        under_way += other._state.size[FIT_BEGAN] > 0
        other = other if first % 100 else other.copy()
    assert under_way > 5
    assert_same(one, other)


@pytest.mark.parametrize("call", [1, 2, 3])
def test_a_fit_that_was_interrupted_begins_again(call, small_budget, monkeypatch):
    """As by control-C in a notebook: later observations go on, and lead to the same state as without it."""
    (policy, other), (contexts, outcomes, _) = (small(), small()), rounds(3, 2, 2, 120)
    observations = [(x, t % 3, y[t % 3]) for t, (x, y) in enumerate(zip(contexts, outcomes, strict=True))]
    for observation in observations:
        other.observe(*observation)
    calls, choose_features = [], fits.choose_features

    def interrupted(*arguments):
        calls.append(arguments)
        if len(calls) == call:
            raise KeyboardInterrupt
        return choose_features(*arguments)

    monkeypatch.setattr(fits, "choose_features", interrupted)
    caught = 0
    for observation in observations:
        try:
            policy.observe(*observation)
        except KeyboardInterrupt:
            caught += 1
    assert caught == 1
    assert_same(policy, other)


def test_deciding_does_not_advance_a_fit(small_budget):
    x, outcomes, _ = rounds(3, 2, 2, 300)
    asked, silent = small(), small()
    for t in range(300):
        for key in range(5):
            asked.decide(x[t], key)
        for policy in (asked, silent):
            policy.observe(x[t], t % 3, outcomes[t, t % 3])
    assert_same(asked, silent)


def test_rows_are_dropped_after_the_last_fit_and_decisions_go_on(monkeypatch, tmp_path):
    monkeypatch.setattr(fits, "LAST_FIT", 200)
    x, outcomes, keys = rounds(3, 2, 2, 600)
    policy = small()
    policy.run_chunk(x[:150], outcomes[:150], keys[:150])
    assert len(policy.state()["data"]) == policy._state.size[ROWS] == 150
    policy.run_chunk(x[150:300], outcomes[150:300], keys[150:300])
    assert policy._state.size[NEXT_WORK] == NEVER
    assert policy.n_observations == 300
    assert len(policy.state()["data"]) == len(policy.state()["chosen"]) == 0
    assert len(policy._state.data) == 1
    policy.save(tmp_path / "kernel.npz")
    others = [policy.copy(), cb.load_policy(tmp_path / "kernel.npz")]
    before = policy.state()["weights"].copy()
    policy.run_chunk(x[300:], outcomes[300:], keys[300:])
    assert not np.array_equal(before, policy.state()["weights"])
    for other in others:
        step_by_step(other, x[300:], outcomes[300:], keys[300:])
        assert_same(policy, other)


@pytest.mark.parametrize(("place", "value"), [(ROWS, 39), (FIT_BEGAN, 41), (FIT_BEGAN, -1), (NEXT_WORK, NEVER)])
def test_counts_that_do_not_fit_each_other_are_refused(place, value):
    arrays = trained(n=40).state()
    arrays["size"][place] = value
    if place == ROWS:
        arrays["data"], arrays["chosen"] = arrays["data"][:value], arrays["chosen"][:value]
    with pytest.raises(ValueError, match="rows of 40 observations"):
        small()._with(arrays)
