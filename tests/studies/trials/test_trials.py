"""Simulated trials: what designs meet, what is counted, safety rules, and declarations."""

import math
from pathlib import Path

import numpy as np
import pytest

import conebandit as cb
from conebandit.diagnose.bound_watch import BoundWatch
from conebandit.simulate import step_by_step
from conebandit.studies.trials import measures
from conebandit.studies.trials.boin12 import Boin12
from conebandit.studies.trials.by_policy import ByPolicy
from conebandit.studies.trials.conduct import NO_DOSE, Conduct, Limits, Trial, Utility
from conebandit.studies.trials.declaration import trial_plan
from conebandit.studies.trials.efftox import EffTox
from conebandit.studies.trials.guard import Guard, declared_rules
from conebandit.studies.trials.plan import Truth, one_trial
from conebandit.studies.trials.scenarios import SCENARIOS, doses, draw_outcomes, require_chances, together
from conebandit.studies.trials.uniform import Uniform

LIMITS, UTILITY = Limits(toxicity=0.35, efficacy=0.25), Utility(both=60.0, neither=40.0)
STRICT = [
    {"metric": "toxicity", "above": 0.2, "error": 0.4, "then": "suspend"},
    {"metric": "efficacy", "below": 0.4, "error": 0.4, "then": "suspend"},
]
DESIGNS = [
    "uniform", "boin12", "efftox", "ucb1", {"name": "linear", "rules": STRICT, "burn_in": 6, "escalate": 2},
]  # fmt: skip


def plan_of(**entries):
    return trial_plan({"designs": DESIGNS, "sizes": 24, "trials": 5, **entries}, Path())


def rows_of(plan):
    rows = [one_trial(plan.recipe, plan.job(run)) for run in range(len(plan))]
    assert all(isinstance(row, dict) for row in rows), rows
    return rows


def made_trial(seed=0, size=30, scenario="umbrella", fresh=20):
    plan = plan_of(scenarios=[scenario], sizes=size, fresh=fresh)
    world = plan.recipe.environment(plan.scenes[0], seed)
    return world, plan.recipe.trial(world, size, seed)


def constant_trial(outcome, size, n_doses=3):
    """All patients have the same outcome under all doses."""
    outcomes = np.broadcast_to(np.array(outcome, dtype=float), (size, n_doses, 2))
    lots = np.random.default_rng(0).random(size)
    return Trial(0, np.full((size, 2), 0.5), outcomes, lots, np.full((4, 2), 0.5), LIMITS, UTILITY)


def all_designs(n_doses=3, rules=()):
    world = doses(toxicity=[0.1] * n_doses, efficacy=[0.5] * n_doses)
    policy = cb.LinearParetoUCB(n_doses, world.cone, 2, bounds=world.bounds)
    return {
        "uniform": Uniform(rules),
        "boin12": Boin12(n_doses, LIMITS, UTILITY),
        "efftox": EffTox(tuple(range(1, n_doses + 1)), LIMITS),
        "policy": ByPolicy(policy, rules),
    }


# ---- patients -------------------------------------------------------------------------------------------------------


def test_all_designs_meet_the_same_patients():
    (_, first), (_, again) = made_trial(seed=3), made_trial(seed=3)
    assert (first.outcomes == again.outcomes).all()
    assert (first.patients == again.patients).all()
    assert (made_trial(seed=4)[1].outcomes != first.outcomes).any()


def test_patients_have_the_declared_chances_and_association():
    """Over 200,000 patients, within 5 standard errors."""
    chances = np.tile([[0.3, 0.8], [0.6, 0.5]], (200_000, 1, 1))  # efficacy and no toxicity under two doses
    for association in (0.0, 2.0, -3.0):
        outcomes = draw_outcomes(np.random.default_rng(1), chances, association)
        e, t = chances[0, :, 0], 1 - chances[0, :, 1]
        wanted = np.concatenate([e, t, together(e, t, association)])
        both = outcomes[:, :, 0] * outcomes[:, :, 1]
        found = np.concatenate([outcomes.mean(axis=0).T.ravel(), both.mean(axis=0)])
        assert (np.abs(found - wanted) < 5 * np.sqrt(wanted * (1 - wanted) / 200_000)).all()


def test_who_tolerates_a_dose_tolerates_a_less_toxic_one():
    _, trial = made_trial(size=500)
    assert (np.diff(trial.outcomes[:, :, 1], axis=1) >= 0).all()


def test_chances_of_0_and_1_are_kept():
    world = doses(toxicity=[0.0, 1.0], efficacy=[1.0, 0.0])
    outcomes = draw_outcomes(np.random.default_rng(0), world.means(np.full((50, 2), 0.5)), 1.0)
    assert outcomes[:, 0].tolist() == [[1.0, 0.0]] * 50
    assert outcomes[:, 1].tolist() == [[0.0, 1.0]] * 50


def test_utility_by_its_definition():
    e, t, psi = 0.4, 0.3, 1.5
    both = together(e, t, psi)
    plain = 100 * (e - both) + 30 * both + 50 * (1 - e - t + both)
    assert math.isclose(float(Utility(both=30.0, neither=50.0).expected(e, t, both)), plain)
    assert Utility(60.0, 40.0).expected(e, t, both) == pytest.approx(60 * e + 40 * (1 - t))


# ---- what is counted ------------------------------------------------------------------------------------------------


def plain_right(truth, recommended):
    """Best and undominated, patient by patient."""
    best = front = 0
    for i, dose in enumerate(recommended):
        fine = [k for k in range(truth.efficacy.shape[1]) if truth.acceptable[i, k]]
        if dose == NO_DOSE:
            best, front = best + (not fine), front + (not fine)
        elif dose in fine:
            e, t = truth.efficacy[i], truth.toxicity[i]
            best += truth.utility[i, dose] >= max(truth.utility[i, k] for k in fine) - 1e-9
            front += not any(e[k] >= e[dose] and t[k] <= t[dose] and (e[k] > e[dose] or t[k] < t[dose]) for k in fine)
    return best / len(recommended), front / len(recommended)


def test_measures_by_their_definitions():
    rng = np.random.default_rng(0)
    for seed in range(20):
        world, trial = made_trial(seed, scenario="interaction", fresh=30)
        plan = plan_of(scenarios=["interaction"])
        treated, fresh = (plan.recipe.truth(world, x) for x in (trial.patients, trial.fresh))
        average = plan.recipe.on_average(world, 30)
        given, recommended = rng.integers(5, size=17), rng.integers(-1, 5, size=30)
        closed = rng.random(5) < 0.3
        estimates = np.where(recommended[:, None] == NO_DOSE, np.nan, rng.random((30, 2)))
        found = measures.measured(trial, Conduct(given, closed, recommended, estimates), treated, fresh, average)
        assert (found["best"], found["front"]) == pytest.approx(plain_right(fresh, recommended))
        assert found["toxic"] == sum(trial.outcomes[i, dose, 1] for i, dose in enumerate(given))
        assert found["effective"] == sum(trial.outcomes[i, dose, 0] for i, dose in enumerate(given))
        assert found["overdosed"] == pytest.approx(
            np.mean([treated.toxicity[i, d] > 0.35 for i, d in enumerate(given)])
        )
        assert found["given"] == [np.mean(given == k) for k in range(5)]
        assert found["recommended"] == [*(np.mean(recommended == k) for k in range(5)), np.mean(recommended == -1)]
        some = [i for i in range(30) if recommended[i] != NO_DOSE]
        errors = [estimates[i, 1] - fresh.toxicity[i, recommended[i]] for i in some]
        assert found["toxicity_bias"] == pytest.approx(np.mean(errors))
        assert found["toxicity_error"] == pytest.approx(np.mean(np.abs(errors)))
        assert found["false_stop"] == float(closed.all())
        assert math.isnan(found["right_stop"])
        assert found["false_closing"] == float(any(closed & average.acceptable))


def test_no_dose_is_right_where_none_is_acceptable():
    truth = Truth(*(np.array([[0.1, 0.5]]) for _ in range(3)), acceptable=np.zeros((1, 2), dtype=bool))
    conduct = Conduct(np.array([0]), np.ones(2, dtype=bool), np.array([NO_DOSE]), np.full((1, 2), np.nan))
    average = Truth(*(each[0] for each in truth))
    trial = constant_trial([0, 1], 1, n_doses=2)
    found = measures.measured(trial, conduct, truth, truth, average)
    assert (found["best"], found["front"], found["right_stop"]) == (1.0, 1.0, 1.0)
    assert math.isnan(found["false_stop"])
    assert math.isnan(found["toxicity_error"])


def test_truth_of_the_scenarios_is_what_the_file_says():
    for name, declared in SCENARIOS.items():
        plan = plan_of(scenarios=[name])
        truth = plan.recipe.on_average(plan.recipe.environment(plan.scenes[0], 0), 24)
        if name != "interaction":  # where covariates matter
            assert truth.toxicity == pytest.approx(declared["toxicity"])
            assert truth.efficacy == pytest.approx(declared["efficacy"])
        assert truth.acceptable.any() == (name not in {"none", "all-toxic"})


def test_a_chance_at_the_limit_is_acceptable():
    plan = plan_of(scenarios=[{"label": "edge", "toxicity": [0.35], "efficacy": [0.25]}])
    assert plan.recipe.on_average(plan.recipe.environment(plan.scenes[0], 0), 24).acceptable.tolist() == [True]


# ---- designs --------------------------------------------------------------------------------------------------------


def test_uniform_allocation_is_even_in_every_block():
    _, trial = made_trial(size=33)
    given = Uniform().conduct(trial).doses
    for start in range(0, 30, 5):
        assert sorted(given[start : start + 5].tolist()) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("name", ["linear", "ucb1", "default", "random"])
def test_without_rules_a_policy_does_what_simulate_lets_it_do(name):
    plan = plan_of(designs=[name], scenarios=["umbrella"])
    world, trial = made_trial(5)
    design = plan.recipe.design(plan.policies[0], world, 5)
    keys = np.arange(trial.size, dtype=np.uint64) + np.uint64(5 << 32)
    rewards = np.stack([trial.outcomes[:, :, 0], 1 - trial.outcomes[:, :, 1]], axis=2)
    plain = step_by_step(design.policy.copy(), trial.patients, rewards, keys)[0]
    assert design.conduct(trial).doses.tolist() == plain.tolist()


def plain_course(design, trial):
    """A trial step by step: rules are asked before every patient, and nothing is taken back."""
    policy, given = design.policy.copy(), []
    watches, closed = {}, set()
    burn_in = next((rule.decisions for rule in design.rules if hasattr(rule, "decisions")), 0)
    for i, x in enumerate(trial.patients):
        open_ = [k for k in range(trial.n_doses) if k not in closed]
        if design.escalate:
            open_ = [k for k in open_ if all(given.count(j) >= design.escalate for j in range(k))]
        if not open_:
            break
        decision = policy.decide(x, i + (trial.seed << 32))
        chances = np.full(trial.n_doses, 1.0) if i < burn_in else decision.probabilities
        weights = np.array([chances[k] for k in open_])
        weights = weights / weights.sum() if weights.sum() else np.full(len(open_), 1 / len(open_))
        dose = decision.arm
        if i < burn_in or len(open_) < trial.n_doses:
            dose = open_[int((np.cumsum(weights) <= trial.lots[i]).sum())]
        given.append(dose)
        e, t = trial.outcomes[i, dose]
        policy.observe(x, dose, [e, 1 - t])
        for rule in design.rules:
            if hasattr(rule, "bound"):
                watch = watches.setdefault((rule.name, dose), BoundWatch(rule, 0))
                watch.decide(i + 1)
                watch.settle(i + 1, t if rule.metric == "toxicity" else e)
                if watch.fired is not None:
                    closed.add(dose)
    return given, closed


@pytest.mark.parametrize("name", ["linear", "ucb1"])
@pytest.mark.parametrize(
    "settings", [{}, {"burn_in": 7}, {"escalate": 3}, {"burn_in": 5, "escalate": 1, "explore": 0.3}]
)
def test_with_rules_the_compiled_loop_does_what_single_steps_do(name, settings):
    plan = plan_of(designs=[{"name": name, "rules": STRICT, **settings}], scenarios=["plateau"])
    fired = 0
    for seed in range(12):
        world, trial = made_trial(seed, size=60, scenario="plateau")
        design = plan.recipe.design(plan.policies[0], world, seed)
        conduct = design.conduct(trial)
        given, closed = plain_course(design, trial)
        assert conduct.doses.tolist() == given
        assert set(np.flatnonzero(conduct.closed).tolist()) == closed
        fired += bool(closed)
    assert fired  # or nothing was tried


def test_escalation_skips_no_dose():
    plan = plan_of(designs=[{"name": "ucb1", "escalate": 3}], scenarios=["umbrella"])
    for seed in range(10):
        world, trial = made_trial(seed, size=40)
        given = plan.recipe.design(plan.policies[0], world, seed).conduct(trial).doses.tolist()
        for i, dose in enumerate(given):
            assert all(given[:i].count(lower) >= 3 for lower in range(dose))


@pytest.mark.untraced
def test_rules_keep_their_promise_in_trials():
    """All doses have a toxicity of exactly the bound: over 400 trials, fired in at most 0.1 plus 4 standard errors."""
    rules = [{"metric": "toxicity", "above": 0.3, "error": 0.1, "then": "suspend"}]
    scenario = {"label": "at the bound", "toxicity": [0.3] * 3, "efficacy": [0.5] * 3}
    plan = plan_of(designs=["uniform"], scenarios=[scenario], sizes=60, rules=rules, trials=400)
    world, fired = plan.recipe.environment(plan.scenes[0], 0), 0
    design = plan.recipe.design(plan.policies[0], world, 0)
    for seed in range(400):
        guard, trial = Guard(design.rules, 3), plan.recipe.trial(world, 60, seed)
        for dose, outcome in zip(design.conduct(trial).doses, trial.outcomes, strict=False):
            guard.see(int(dose), outcome[dose])
        fired += bool(guard.closed.any())
    assert fired / 400 <= 0.1 + 4 * math.sqrt(0.1 * 0.9 / 400)


def test_doses_above_one_that_is_closed_too_soon_are_out_of_reach():
    rules = declared_rules([{"metric": "toxicity", "above": 0.1, "error": 0.4, "then": "suspend"}], 3)
    guard = Guard(rules, 3, escalate=20)
    while guard.open():
        guard.see(0, np.array([0.0, 1.0]))
    assert sum(guard.given) < 20
    assert guard.closed.all()


def test_caps_and_stops():
    rules = declared_rules([{"arm": "dose 1", "at_most": 2}, {"at_most": 10}], 2)
    guard = Guard(rules, 2)
    for _ in range(2):
        guard.see(0, np.zeros(2))
    assert guard.open() == [1]
    for _ in range(8):
        guard.see(1, np.zeros(2))
    assert guard.open() == []
    assert not guard.closed.any()  # the trial is complete, not stopped
    together_ = declared_rules(
        [{"metric": "toxicity", "above": 0.1, "error": 0.4, "per": "experiment", "then": "stop"}], 2
    )
    guard = Guard(together_, 2)
    for patient in range(10):
        guard.see(patient % 2, np.array([0.0, 1.0]))
    assert guard.closed.all()
    with pytest.raises(ValueError, match="has a period"):
        declared_rules([{"at_most": 2, "per": "1d"}], 2)


# ---- nasty cases ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("design", ["uniform", "boin12", "efftox", "policy"])
def test_everybody_is_harmed(design):
    rules = declared_rules([{"metric": "toxicity", "above": 0.35, "error": 0.05, "then": "suspend"}], 3)
    found = all_designs(rules=rules)[design].conduct(constant_trial([0, 1], 60))
    assert found.stopped
    assert len(found.doses) < 60
    assert (found.recommended == NO_DOSE).all()
    assert np.isnan(found.estimates).all()


@pytest.mark.parametrize("design", ["uniform", "boin12", "efftox", "policy"])
def test_nobody_is_helped(design):
    rules = declared_rules([{"metric": "efficacy", "below": 0.25, "error": 0.1, "then": "suspend"}], 3)
    found = all_designs(rules=rules)[design].conduct(constant_trial([0, 0], 90))
    assert (found.recommended == NO_DOSE).all()


@pytest.mark.parametrize("design", ["uniform", "boin12", "efftox", "policy"])
def test_everybody_is_helped_and_nobody_harmed(design):
    found = all_designs()[design].conduct(constant_trial([1, 0], 30))
    assert not found.closed.any()
    assert (found.recommended != NO_DOSE).all()
    assert found.estimates[:, 0].min() > 0.7
    assert found.estimates[:, 1].max() < 0.3


@pytest.mark.parametrize("design", ["uniform", "boin12", "efftox", "policy"])
@pytest.mark.parametrize("size", [1, 2, 4])
def test_one_dose_and_few_patients(design, size):
    found = all_designs(n_doses=1)[design].conduct(constant_trial([1, 0], size, n_doses=1))
    assert found.doses.tolist() == [0] * size


def test_every_design_in_every_scenario_gives_numbers():
    for row in rows_of(plan_of(trials=1, sizes=[1, 13])):
        assert 0 <= row["best"] <= row["front"] <= 1
        assert sum(row["given"]) == pytest.approx(1)
        assert sum(row["recommended"]) == pytest.approx(1)
        assert row["toxic"] <= row["patients"] >= row["effective"]


def test_the_right_dose_is_found_in_a_large_trial():
    """1,000 patients: dose 3 of the umbrella is better than the others by far."""
    for row in rows_of(plan_of(designs=["uniform", "boin12", "linear"], scenarios=["umbrella"], sizes=1000, trials=2)):
        assert row["best"] > 0.9, row["policy"]


# ---- declarations ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ({"sizes": 0}, "sizes must be an integer from 1 to"),
        ({"trials": 0}, "trials must be an integer from 1"),
        ({"limit": {}}, "limit"),
        ({"limits": {"toxicity": 1.0}}, "limits.toxicity must be between 0 and 1; got 1"),
        ({"utility": {"both": 120}}, "utility.both must be from 0, .* to 100"),
        ({"association": 50}, "association must be from -20 to 20"),
        ({"doses": [2, 1]}, "doses must be positive numbers, from the lowest"),
        ({"scenarios": [{"toxicity": [0.1], "efficacy": [0.1]}]}, r"scenarios\[0\] needs a label"),
        ({"scenarios": "rising"}, "scenarios must be a list"),
        ({"rules": {}}, "rules must be a list of tables"),
        ({"limits": {"toxicity": float("nan")}}, "must be a number; got nan"),
    ],
)
def test_wrong_entries_are_named(entries, words):
    with pytest.raises(ValueError, match=words):
        plan_of(**entries)


@pytest.mark.parametrize(
    ("design", "words"),
    [
        ("bion12", "designs are uniform, boin12, efftox, and all policies: there is no 'bion12'"),
        ({"name": "boin12", "cohorts": 3}, "cannot be made: boin12 has an entry 'cohorts' that is not known"),
        ({"name": "boin12", "cohort": 0}, "cohort must be"),
        ({"name": "boin12", "start": 6}, "start must be one of the 5 doses"),
        ({"name": "boin12", "toxicity_limit": 0.8}, "limit of toxicity must be above 0 and below 0.714"),
        ({"name": "efftox", "doses": [1, 2]}, "doses must be 5 numbers"),
        ({"name": "efftox", "rising": 1}, "rising must be true or false"),
        ({"name": "boin12", "draw_ties": "yes"}, "draw_ties must be true or false"),
        ({"name": "boin12", "fall_back": 1}, "fall_back must be true or false"),
        ({"name": "boin12", "explore_at": -1}, "explore_at must be"),
        ({"name": "efftox", "priors": {"alpha": [0, 0]}}, "the deviation must be above 0"),
        ({"name": "efftox", "priors": {"alpha": 3}}, "priors.alpha must be a mean and a deviation"),
        ({"name": "efftox", "contour": {"efficacy": 0.5}}, "contour needs 'toxicity'"),
        (
            {
                "name": "efftox",
                "contour": {"efficacy": 0.5, "toxicity": 0.2, "middle_efficacy": 0.7, "middle_toxicity": 0.3},
            },
            "contour must lead from",
        ),
        ({"name": "uniform", "burn_in": 3}, "burn_in"),
        ({"name": "linear", "burn_in": -1}, "burn_in must be"),
        ({"name": "linear", "colour": 3}, "colour"),
        (
            {"name": "linear", "rules": [{"metric": "cost", "above": 1}]},
            r"rules\[0\].metric must be one of efficacy, toxicity",
        ),
    ],
)
def test_wrong_settings_are_named_with_their_design(design, words):
    plan = plan_of(designs=[design])
    with pytest.raises(ValueError, match=words) as caught:
        plan.try_all()
    assert "scenario rising: design" in str(caught.value)


def test_wrong_rules_are_named_also_if_no_design_uses_them():
    plan = plan_of(designs=["boin12"], rules=[{"metric": "cost", "above": 0.3}])
    with pytest.raises(ValueError, match=r"rules\[0\].metric must be one of efficacy, toxicity"):
        plan.try_all()


@pytest.mark.parametrize(
    ("scenario", "words"),
    [
        ("rasing", "Scenarios are rising, plateau"),
        ({"label": "a", "toxicity": [0.1, 0.2], "efficacy": [0.1]}, "must have a chance for each dose; got 2 and 1"),
        ({"label": "a", "toxicity": [1.2], "efficacy": [0.1]}, "toxicity must be a list of at most 50 chances"),
        ({"label": "a", "toxicity": [0.2]}, "efficacy"),
        ({"name": "rising", "toxicity_effects": [1.0]}, "toxicity_effects must be a list of 2 numbers"),
        ({"name": "suite/metrics-3"}, "a scenario has two metrics"),
    ],
)
def test_wrong_scenarios_are_named(scenario, words):
    plan = plan_of(scenarios=[scenario])
    with pytest.raises(ValueError, match=words) as caught:
        plan.try_all()
    assert "scenario" in str(caught.value)


def test_means_that_are_no_chances_are_refused():
    def means(x):
        return np.full((len(x), 3, 2), 1.5)

    schedule = cb.environments.shift.stationary(cb.environments.shift.uniform(1))
    with pytest.raises(ValueError, match=r"from 0 to 1; got 1.5 to 1.5"):
        require_chances(cb.World("large", schedule, means, cb.Cone.orthant(2), n_arms=3))


def test_an_environment_of_ours_is_a_scenario():
    rows = rows_of(plan_of(scenarios=[{"name": "dose_finding", "n_arms": 4}], designs=["boin12", "ucb1"], trials=2))
    assert all(len(row["given"]) == 4 for row in rows)
