"""The step of a fit that learns which leads of arms over each other are probably ties."""

from __future__ import annotations

import math

from conebandit.kernels.cone_kernel.constants import (
    DECIDED_LEAD,
    ENOUGH_DECIDED,
    FAR_LEAD,
    LEAD_SMOOTHING,
    MAX_PLAY_TIE,
    MAX_TIE,
    MIN_EXPECTED_SHARE,
    MIN_LEAD_DENSITY,
    NEAR_LEAD,
    NEAR_SHARE_OF_TIES,
    PLAY_TIE_OFFSET,
    PLAY_TIE_WAIT,
    PLAY_TIE_WEIGHT,
    RECENT_CONTEXTS,
    REPORT_SHARE_OF_PLAY_TIE,
    REPORT_TIE_OFFSET,
    REPORT_TIE_WEIGHT,
    TIE_STEP,
    TIES_PLAYED,
    TIES_REPORTED,
)
from conebandit.kernels.cone_kernel.state import LEAD_SHARES, OBSERVATIONS, PLAY_TIE, REPORT_TIE, State
from conebandit.kernels.cone_kernel.ties import count_leads


def learn_ties(state: State) -> State:
    """How many posterior deviations an arm must be above another to be believed not to be tied with it.

    What is reported and what is played use different answers: a tie that is believed in wrongly hides an arm from the
    report until more is known, but from play for long. So for play leads are counted over several fits, and more of
    them must be near 0.
    """
    n, n_arms = int(state.size[OBSERVATIONS]), state.weights.shape[0]
    first = max(0, n - RECENT_CONTEXTS)
    shares = count_leads(state, first) / ((n - first) * n_arms)
    near, expected, far, decided = shares
    trust = _ramp(decided, ENOUGH_DECIDED)  # a model that knows little sees ties everywhere
    excess = _ramp(near / max(expected, MIN_EXPECTED_SHARE), TIES_REPORTED)
    report = REPORT_TIE_WEIGHT * trust * excess * _largest_tie(near, far) - REPORT_TIE_OFFSET
    levels = state.levels.copy()
    smooth = levels[LEAD_SHARES:]
    smooth += LEAD_SMOOTHING * (shares[:3] - smooth)
    trust *= _ramp(smooth[0] / max(smooth[1], MIN_EXPECTED_SHARE), TIES_PLAYED)
    play = 0.0
    if n >= PLAY_TIE_WAIT * n_arms:  # earlier, arms believed tied would not be seen enough to prove it wrong
        play = PLAY_TIE_WEIGHT * trust * _largest_tie(smooth[0], smooth[2]) - PLAY_TIE_OFFSET
        play = min(max(play, 0.0), MAX_PLAY_TIE)
    levels[REPORT_TIE] = max(report, REPORT_SHARE_OF_PLAY_TIE * play) if play > 0.0 else report
    levels[PLAY_TIE] = play
    return state._replace(levels=levels)


def _largest_tie(near: float, far: float) -> float:
    """The lead, in deviations, below which a tie is the likelier explanation.

    If means vary freely, leads near 0 are no more frequent than others; an excess of them, with a normal law, is ties
    (a two-groups model, Efron 2008). ``near`` and ``far`` are the shares of leads near zero, and between DECIDED_LEAD
    and FAR_LEAD, of either sign.
    """
    density = far / (2.0 * (FAR_LEAD - DECIDED_LEAD)) + MIN_LEAD_DENSITY  # of leads that are no ties
    ties = max(0.0, (near - 2.0 * NEAR_LEAD * density) / NEAR_SHARE_OF_TIES)
    lead = 0.0
    while lead < MAX_TIE and density * math.erf(lead / math.sqrt(2.0)) < ties * _normal_density(lead):
        lead += TIE_STEP
    return lead


def _ramp(value: float, ends: tuple[float, float]) -> float:
    """0 below the first of ``ends``, 1 above the second, linear between them."""
    return min(1.0, max(0.0, (value - ends[0]) / (ends[1] - ends[0])))


def _normal_density(x: float) -> float:
    return math.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi)
