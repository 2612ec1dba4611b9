"""Bets against a bound: as a plain twin computes them, and wrong no more often than they say."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conebandit.diagnose.betting import LOSSES, SHARES, confidence_sequence, log_evidence, log_gains
from tests import plain_bets

shares = st.floats(0.0, 1.0)
inner = st.floats(0.01, 0.99)


@given(st.lists(shares, max_size=30), inner)
def test_evidence_is_the_money_of_the_twin(values, bound):
    gains = [math.fsum(log_gains(v, bound)[k] for v in values) for k in range(len(SHARES))]
    assert log_evidence(gains) == pytest.approx(math.log(plain_bets.money(values, bound)), abs=1e-9)


@given(inner)
def test_a_value_of_zero_is_what_is_lost(bound):
    assert log_gains(0.0, bound) == list(LOSSES)


@given(st.lists(shares, min_size=1, max_size=40), st.sampled_from([0.01, 0.05, 0.3]))
def test_an_interval_is_what_the_bets_do_not_refute(values, error):
    low, high = confidence_sequence(values, (0.0, 1.0), error)
    assert 0.0 <= low <= np.mean(values) <= high <= 1.0
    for bound in np.linspace(0.02, 0.98, 25):
        if abs(bound - low) > 1e-9:
            assert plain_bets.refuted(values, bound, error / 2) == (bound < low)
        if abs(bound - high) > 1e-9:
            assert plain_bets.refuted([1 - v for v in values], 1 - bound, error / 2) == (bound > high)


@given(st.lists(shares, min_size=1, max_size=30))
def test_ends_in_place_of_values_only_widen_the_interval(values):
    low, high = confidence_sequence(values, (0.0, 1.0), 0.05)
    total = math.fsum(values)
    wider = confidence_sequence((0.0, 1.0), (0.0, 1.0), 0.05, (len(values) - total, total))
    assert wider[0] <= low + 1e-9
    assert high <= wider[1] + 1e-9


def test_units_do_not_matter():
    values = [12.0, 15.0, 11.0, 19.0] * 20
    low, high = confidence_sequence(values, (10.0, 20.0), 0.05)
    unit = confidence_sequence([(v - 10) / 10 for v in values], (0.0, 1.0), 0.05)
    assert (low, high) == pytest.approx((10 + 10 * unit[0], 10 + 10 * unit[1]))
    assert low < 14.25 < high


def test_the_error_is_kept_although_every_value_is_looked_at():
    """At the bound itself: of 2,000 streams at most a twentieth, and 2.8 deviations, refute it."""
    rng = np.random.default_rng(5)
    streams, length, error, bound = 2000, 400, 0.05, 0.3
    values = rng.random((streams, length)) < bound
    gains = np.where(values[..., None], log_gains(1.0, bound), LOSSES).cumsum(axis=1)
    largest = gains.max(axis=2)
    evidence = largest + np.log(np.exp(gains - largest[..., None]).mean(axis=2))
    false = (evidence.max(axis=1) >= -math.log(error)).mean()
    assert false <= error + 2.8 * math.sqrt(error * (1 - error) / streams)
    assert false > 0.005, "and it is not for lack of power"
