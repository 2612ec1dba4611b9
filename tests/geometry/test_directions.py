"""Which way is better: costs, names that sound like costs, and what every constructor makes of them."""

import copy
import pickle
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import conebandit as cb
from conebandit import Cone, CostWarning
from conebandit.geometry.cone import with_labels
from conebandit.geometry.directions import sounds_like_a_cost
from tests.properties.test_laws import cones

NAMES = ["efficacy", "toxicity"]
COSTS = {"names": NAMES, "minimise": ["toxicity"]}
RATE = "one unit of toxicity is worth between 2 and 3 of efficacy"


def test_the_dangerous_sentence_is_read_with_less_toxicity_as_better():
    cone = Cone.from_tradeoffs(RATE, **COSTS)
    assert cone.dominates([0.6, 0.1], [0.8, 0.2])
    assert not cone.dominates([0.8, 0.2], [0.6, 0.1])
    assert not cone.dominates([0.59, 0.1], [0.8, 0.2])
    assert cone.dominates([0.8, 0.2], [0.5, 0.1])
    assert not cone.dominates([0.5, 0.3], [0.5, 0.2])
    np.testing.assert_array_equal(cb.pareto_mask([[0.6, 0.1], [0.8, 0.2], [0.5, 0.2]], cone), [True, False, False])


@pytest.mark.parametrize(
    "make",
    [
        lambda **labels: Cone.orthant(2, **labels),
        lambda **labels: Cone.wedge(120, **labels),
        lambda **labels: Cone.wedge(60, **labels),
        lambda **labels: Cone.wedge(180, **labels),
        lambda **labels: Cone.from_weights([[3, 1], [1, 2]], **labels),
        lambda **labels: Cone.from_tradeoffs(RATE, **labels),
        lambda minimise=(), maximise=(), **_: Cone.from_weight_ranges(
            {"efficacy": (0.2, 0.4), "toxicity": (0.6, 0.8)}, minimise=minimise, maximise=maximise
        ),
    ],
)
def test_a_cone_with_a_cost_is_the_cone_of_rewards_with_the_sign_changed(make):
    rewards, cone = make(names=NAMES, maximise=["toxicity"]), make(**COSTS)
    sign = np.array([1.0, -1.0])
    assert cone.minimise == ("toxicity",)
    assert cone == Cone.from_facets(rewards.facets * sign)
    assert cone == Cone.from_rays(rewards.rays * sign) or not cone.is_pointed
    assert cone.is_orthant == rewards.is_orthant
    assert cone.contains_orthant == rewards.contains_orthant
    assert cone.turned(["toxicity"]) == rewards
    assert cone.turned(["toxicity"]).minimise == ()
    points = np.random.default_rng(3).integers(0, 9, (30, 2)) / 8
    np.testing.assert_array_equal(cb.pareto_mask(points, cone), cb.pareto_mask(points * sign, rewards))


@given(cones(), st.data())
def test_turning_twice_changes_nothing_bit_for_bit(cone, data):
    names = [f"m{i}" for i in range(cone.dim)]
    named = with_labels(cone, names)
    some = data.draw(st.lists(st.sampled_from(names), unique=True))
    turned = named.turned(some)
    again = turned.turned(some)
    np.testing.assert_array_equal(again.facets, cone.facets)
    np.testing.assert_array_equal(again.rays, cone.rays)
    assert again.minimise == ()
    assert set(turned.minimise) == set(some)
    assert turned.contains_orthant == cone.contains_orthant
    assert turned.is_orthant == cone.is_orthant
    assert not np.signbit(turned.facets[turned.facets == 0]).any()
    v = np.array(data.draw(st.lists(st.integers(-9, 9), min_size=cone.dim, max_size=cone.dim)))
    assert turned.contains(v * turned.signs) == cone.contains(v)


@pytest.mark.parametrize(
    "cone",
    [
        Cone.orthant(2, **COSTS),
        Cone.orthant(2, names=NAMES, minimise=["efficacy"], maximise=["toxicity"]),
        Cone.wedge(180, **COSTS),
        Cone.from_tradeoffs(RATE, **COSTS),
    ],
)
def test_repr_pickle_and_files_keep_directions(cone, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        again = eval(repr(cone), {"Cone": Cone})
    for same in (again, pickle.loads(pickle.dumps(cone)), copy.deepcopy(cone)):
        assert same == cone
        assert (same.names, same.minimise) == (cone.names, cone.minimise)
    cb.RandomArm(n_arms=2, cone=cone, context_dim=1)
    policy = cb.ParetoUCB1(n_arms=2, cone=cone, context_dim=1)
    policy.save(tmp_path / "policy.npz")
    loaded = cb.load_policy(tmp_path / "policy.npz").cone
    assert (loaded, loaded.names, loaded.minimise) == (cone, cone.names, cone.minimise)


def test_an_old_pickle_has_no_costs():
    cone = Cone.orthant(2)
    state = {k: v for k, v in cone.__dict__.items() if k != "minimise"}
    old = object.__new__(Cone)
    old.__setstate__(state)
    assert old.minimise == ()
    assert repr(old) == "Cone.orthant(2)"


def test_the_dual_keeps_labels_and_warns_of_nothing():
    cone = Cone.from_tradeoffs(RATE, **COSTS)
    assert cone.dual.minimise == ("toxicity",)
    assert cone.dual == Cone.from_rays(cone.facets)


def test_a_policy_learns_from_costs_as_they_are():
    cone = Cone.orthant(2, **COSTS)
    policy = cb.ParetoUCB1(n_arms=3, cone=cone, context_dim=1)
    for _ in range(30):
        for arm, outcome in enumerate([[0.8, 0.1], [0.7, 0.3], [0.9, 0.2]]):
            policy.observe([0.5], arm, outcome)
    assert set(policy.front([0.5]).arms) == {0, 2}


@pytest.mark.parametrize(
    "make",
    [
        lambda: Cone.orthant(2, names=NAMES),
        lambda: Cone.wedge(60, names=NAMES),
        lambda: Cone.from_weights([{"efficacy": 0.7, "toxicity": 0.3}]),
        lambda: Cone.from_weight_ranges({"efficacy": (0.4, 0.7), "toxicity": (0.3, 0.6)}),
        lambda: Cone.from_tradeoffs(RATE, names=NAMES),
        lambda: Cone.from_comparisons([[1, 0]], [[0, 1]], names=NAMES),
        lambda: Cone.from_rays([[1, 0.6], [0.6, 1]], names=NAMES),
        lambda: Cone.from_facets([[5, -3], [-3, 5]], names=NAMES),
    ],
)
def test_a_name_that_sounds_like_a_cost_gets_a_warning_that_points_here(make):
    with pytest.warns(CostWarning, match=r"'toxicity'.*minimise=\['toxicity'\].*maximise=\['toxicity'\]") as caught:
        make()
    assert [w.filename for w in caught] == [__file__]


@pytest.mark.parametrize(
    "make",
    [
        lambda: Cone.orthant(2, **COSTS),
        lambda: Cone.orthant(2, names=NAMES, maximise=["toxicity"]),
        lambda: Cone.orthant(2),
        lambda: Cone.from_facets([[1, 0], [0, -1]], names=NAMES),  # the numbers say it
        lambda: Cone.from_rays([[1, -0.6], [0.6, -1]], names=NAMES),
        lambda: Cone.from_weights([{"efficacy": 1, "toxicity": 0}]),  # it does not count
    ],
)
def test_no_warning_where_nothing_is_doubtful(make):
    assert make().dim == 2  # warnings are errors in the tests


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (lambda: Cone.orthant(2, minimise=["a"]), ValueError, "no names"),
        (lambda: Cone.orthant(2, names=["a", "b"], minimise=["c"]), ValueError, r"minimise names \['c'\]"),
        (lambda: Cone.orthant(2, names=["a", "b"], minimise="a"), TypeError, "minimise must be a list of names"),
        (lambda: Cone.orthant(2, names=["a", "b"], maximise=[1]), TypeError, "maximise must be a list of names"),
        (lambda: Cone.orthant(2, names=["a", "b"], minimise=["a"], maximise=["a"]), ValueError, "one direction"),
        (lambda: Cone.from_facets([[1, 0], [0, 1]], **COSTS), ValueError, "count more of it as better"),
        (lambda: Cone.from_rays([[1, 0.6], [0.6, 1]], **COSTS), ValueError, "count more of it as better"),
        (
            lambda: Cone.from_facets([[1, 0], [0, -1]], names=["a", "b"], maximise=["b"]),
            ValueError,
            "count less of it as better",
        ),
        (lambda: Cone.orthant(2, **COSTS).turned(["safety"]), ValueError, "not objectives"),
    ],
)
def test_directions_that_cannot_be_are_refused(make, error, says):
    with pytest.raises(error, match=says):
        make()


def test_directions_are_labels_where_the_numbers_say_it():
    assert Cone.from_facets([[1, 0], [0, -1]], **COSTS) == Cone.orthant(2, **COSTS)
    assert Cone.from_rays([[1, -0.6], [0.6, -1]], **COSTS).minimise == ("toxicity",)


def test_ratios_are_refused_for_costs_and_additions_are_not():
    cone, rewards = Cone.from_tradeoffs(RATE, **COSTS), Cone.from_tradeoffs(RATE, names=NAMES, maximise=["toxicity"])
    points = np.array([[0.5, 0.1], [0.8, 0.3], [0.4, 0.2], [0.9, 0.5]])
    front, sign = cb.pareto_mask(points, cone), np.array([1.0, -1.0])
    world = cb.environments.dose_finding(cone=Cone.orthant(2, **COSTS))
    for measure in (
        lambda: cb.gap(points, front, cone),
        lambda: cb.shortfall(points, points, cone),
        lambda: cb.dominance_distance(points, points, cone),
        lambda: cb.simulate(  # whose regret is measured by ratios
            cb.RandomArm(n_arms=world.n_arms, cone=world.cone, context_dim=world.context_dim), world, horizon=10
        ),
    ):
        with pytest.raises(ValueError, match=r"minimises toxicity.*turned"):
            measure()
    for against in (front, points[front]):
        turned = against if against.dtype == bool else against * sign
        for free in (False, True):
            np.testing.assert_array_equal(
                cb.additive_gap(points, against, cone, per_objective=free),
                cb.additive_gap(points * sign, turned, rewards, per_objective=free),
            )


@pytest.mark.parametrize(
    "name",
    [
        *[
            "toxicity",
            "Toxicity",
            "grade 3 toxicities",
            "latency",
            "p99_latency",
            "latencyMs",
            "cost",
            "costs",
            "unit cost",
        ],
        *["error", "error rate", "ErrorRate", "loss", "log-loss", "time", "response time", "responseTime", "risk"],
        *["churn", "churn_rate", "RMSE", "testMSE", "CO2", "side effects", "sideEffects", "adverse events", "injuries"],
        *["latency95", "error500", "errors5xx"],
        *["No. of complaints", "no of deaths", "no_of_errors", "No. deaths", "NO. OF CRASHES"],
        *["lower back pain", "time to first byte", "losses", "waiting times", "downtime", "mortality"],
    ],
)
def test_costs_are_heard(name):
    assert sounds_like_a_cost(name)


@pytest.mark.parametrize(
    "name",
    [
        *[
            "efficacy",
            "safety",
            "revenue",
            "clicks",
            "conversion",
            "retention",
            "uptime",
            "lifetime value",
            "a",
            "m1",
            "r",
        ],
        *[
            "pain relief",
            "time saved",
            "cost savings",
            "error-free sessions",
            "no adverse event",
            "no offence or error",
            "survival time",
            "-cost",
        ],
        *[
            "risk reduction",
            "",
            "  ",
            "Nutzen",
            "\N{MINUS SIGN}loss",
            "terror",
            "sometimes",
            "closs",
            "painting",
            "effect",
        ],
    ],
)
def test_gains_are_not_taken_for_costs(name):
    assert not sounds_like_a_cost(name)


@pytest.mark.parametrize(
    ("cone", "says"),
    [
        (Cone.orthant(1, names=["loss"], minimise=["loss"]), "Less loss is better."),
        (
            Cone.orthant(2, **COSTS),
            "More efficacy and less toxicity are better. No exchange rate is known: an arm beats another if it is "
            "worse in nothing.",
        ),
        (
            Cone.from_tradeoffs(RATE, **COSTS),
            "More efficacy and less toxicity are better. One unit of efficacy is worth between 0.333333 and 0.5 of "
            "toxicity.",
        ),
        (Cone.from_tradeoffs("a is worth exactly 2 b", names=["a", "b"]), "worth exactly 2 of b."),
        (Cone.from_tradeoffs("a is worth at least 2 b", names=["a", "b"]), "worth at least 2 of b."),
        (Cone.from_tradeoffs("a is worth at most 2 b", names=["a", "b"]), "worth at most 2 of b."),
        (Cone.from_weights([[1, 0]]), "r2 counts for nothing beside r1."),
        (Cone.from_weights([[0, 1]]), "r1 counts for nothing beside r2."),
        (
            Cone.from_weights([[1, 0, 0]]),
            "are better. r2 counts for nothing beside r1. r3 counts for nothing beside r1.",
        ),
        (
            Cone.from_facets([[5, 3], [-3, -5]], **COSTS),
            "An outcome beats another if none of these is smaller, and one is larger: 1.25 efficacy + 0.75 toxicity; "
            "- 0.75 efficacy - 1.25 toxicity.",
        ),
    ],
)
def test_cones_in_words(cone, says):
    assert says in cone.describe()


@given(st.sampled_from([1, 2, 7, 9, 3_000_000, 10**9]), st.integers(1, 9), st.integers(0, 9), st.booleans())
def test_with_two_metrics_the_words_make_the_cone_again(amount, low, more, cost):
    labels = {"names": ["a", "b"], "minimise": ["b"] if cost else []}
    cone = Cone.from_tradeoffs(f"{amount} a is worth between {low} and {low + more} b", **labels)
    _, *sentences = cone.describe().split(". ")
    again = Cone.from_tradeoffs(*sentences, **labels)
    slopes = [np.sort(c.facets[:, 1] / c.facets[:, 0]) for c in (again, cone)]
    np.testing.assert_allclose(*slopes, rtol=1e-5)
