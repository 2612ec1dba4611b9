"""Every constant of ``ConeKernel``: its name, value, meaning and origin, in one table.

``docs/kernel.md`` shows the same table; a test compares the two. ``docs/constants.md`` shows what half and double of
each value do, if it decides on behaviour. An origin says where a value is derived from, or that it was chosen by hand
and then compared with its half and its double by a committed command, or that nothing is recorded about it.
"""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

Value = TypeVar("Value")


class Constant(NamedTuple):
    """One row of the table."""

    name: str
    value: Any
    meaning: str
    origin: str

    @property
    def role(self) -> str:
        """What it is for: one of ``ROLES``, or behaviour."""
        return next((role for role, names in _names.items() if self.name in names), BEHAVIOUR)

    @property
    def is_turned(self) -> bool:
        """Whether ``benchmarks/constants.py`` measures what half and double of its value do."""
        return self.role == BEHAVIOUR or self.name in _by_measurement


_rows: list[Constant] = []


def _constant(name: str, value: Value, meaning: str, origin: str) -> Value:
    """Add a row to the table; gives the value, which kernels import by name."""
    _rows.append(Constant(name, value, meaning, origin))
    return value


BEHAVIOUR = "behaviour"  # another value makes another policy

# What the other constants are for. Of these, no value is better for decisions than another, as long as they do that.
ROLES = MappingProxyType({
    "guard": "guards: they keep quotients, logarithms and squares finite, and ordinary data never meet them",
    "work": "limits of work: how it is laid out, time, memory, and when the result of a fit counts",
    "accuracy": "accuracies: how fine grids, series, draws, iterations and fits are; finer is no worse, and costs more",
    "convention": "conventions: what is asked for, not how it is found",
})  # fmt: skip

_names = {
    "guard": {
        "MIN_PRIOR_VARIANCE", "MAX_PRIOR_VARIANCE", "MIN_KNOWN_SHARE", "MIN_NOISE", "MIN_DEVIATION", "ROUNDING",
        "SENTINEL_PRIORITY", "MIN_FREEDOM_SHARE",
    },
    "work": {
        "BLOCK", "UNIT", "UNIT_AT_ONCE", "ROWS_AT_ONCE", "CONTEXTS_AT_ONCE", "COST_OF_A_FUNCTION", "COST_OF_A_CALL",
        "BUDGET", "MIN_UPDATES", "MIN_KEPT_FEATURES", "MAX_FEATURES", "MAX_EFFECTS", "LAST_FIT", "PATIENCE",
        "N_STRATA",
    },
    "accuracy": {
        "DEFAULT_FEATURES", "MAX_ORDER_OF_ONE", "MAX_ORDER", "MAX_INTERACTION", "MAX_PAIR_ORDERS", "MAX_TRIPLE_ORDERS",
        "MAX_ORDER_PRODUCTS", "MIN_LENGTH", "MAX_LENGTH", "N_LENGTHS", "MIN_RELEVANCE", "MAX_RELEVANCE",
        "N_RELEVANCES", "SMOOTHNESSES", "MAX_PRIOR_STEPS", "SETTLED_CHANGE", "N_DRAWS", "N_FRONTS", "N_SITES",
        "N_HALVINGS", "N_CHANCE_DRAWS", "MAX_COLUMNS", "ENOUGH_VARIANCE", "FIRST_FIT", "REFIT_GROWTH",
    },
    "convention": {"REPORT_PRICE", "LEVEL", "RADIUS"},
}  # fmt: skip

# Those of them whose role is not plain from what they do, but was found by turning them.
_by_measurement = {"MIN_FREEDOM_SHARE", "FIRST_FIT", "REFIT_GROWTH"}

CHECKED = "`python benchmarks/constants.py`: neither half nor double is better by two errors; first set by hand"
FINE_ENOUGH = "`python benchmarks/constants.py`: half, which is finer, is neither better nor worse by two errors"
UNRECORDED = "not recorded; unchanged since the first version"
LATER = "not recorded; set after the first version"
GUARD = "derived: only keeps quotients and logarithms finite"

# ---- Features -------------------------------------------------------------------------------------------------------

BOX_MARGIN = _constant(
    "BOX_MARGIN",
    0.15,
    "how far the box of the cosines reaches beyond the unit cube on each side, so that slopes at its edge are free",
    CHECKED,
)
MAX_ORDER_OF_ONE = _constant(
    "MAX_ORDER_OF_ONE", 64, "highest order of a cosine if the context has one coordinate", UNRECORDED
)
MAX_ORDER = _constant("MAX_ORDER", 31, "highest order of a cosine if the context has several coordinates", UNRECORDED)
MAX_INTERACTION = _constant("MAX_INTERACTION", 3, "most coordinates that a feature depends on", UNRECORDED)
MAX_PAIR_ORDERS = _constant(
    "MAX_PAIR_ORDERS",
    ((3, 15), (8, 8), (20, 3), (math.inf, 1)),
    "highest order in interactions of two coordinates: (up to so many context coordinates, order)",
    "derived: keeps the candidates to a few thousand; the exact steps are not recorded",
)
MAX_TRIPLE_ORDERS = _constant(
    "MAX_TRIPLE_ORDERS",
    ((8, 4), (math.inf, 0)),
    "the same for interactions of three coordinates; 0 for none",
    "as MAX_PAIR_ORDERS",
)
MAX_ORDER_PRODUCTS = _constant(
    "MAX_ORDER_PRODUCTS",
    ((2, 150), (math.inf, 40)),
    "largest product of the orders of a feature: (up to so many context coordinates, product)",
    "as MAX_PAIR_ORDERS",
)
SENTINEL_ORDER = _constant(
    "SENTINEL_ORDER",
    2,
    "main effects up to this order are sentinels: never left out, so that a coordinate can become relevant again",
    CHECKED,
)
DEFAULT_FEATURES = _constant("DEFAULT_FEATURES", 128, "most features, unless the user says otherwise", UNRECORDED)
MAX_FEATURES = _constant(
    "MAX_FEATURES",
    1024,
    "most features that a user may ask for",
    "derived: bounds the memory, a square matrix of them for each arm and metric",
)
MIN_SIGNAL_TO_NOISE = _constant(
    "MIN_SIGNAL_TO_NOISE",
    0.05,
    "features with a smaller signal-to-noise ratio cannot be learned yet and are left out",
    CHECKED,
)
SENTINEL_SIGNAL_TO_NOISE = _constant(
    "SENTINEL_SIGNAL_TO_NOISE", 0.1, "least signal-to-noise ratio that the prior gives a sentinel", CHECKED
)
SENTINEL_PRIORITY = _constant(
    "SENTINEL_PRIORITY",
    1e6,
    "added to the signal-to-noise ratio of a sentinel when features are ranked",
    "derived: puts them before any feature of a smaller ratio",
)

# ---- Prior ----------------------------------------------------------------------------------------------------------

SMOOTHNESSES = _constant(
    "SMOOTHNESSES",
    (2.5, 1.5, 0.5),
    "smoothnesses of Matern kernels that are tried, the typical one first: it is the median of the weak prior as well",
    "derived: those with a closed form; of larger ones, functions look alike",
)
MIN_LENGTH = _constant("MIN_LENGTH", 0.05, "shortest length scale that is tried, in units of the unit cube", UNRECORDED)
MAX_LENGTH = _constant("MAX_LENGTH", 3.0, "longest length scale that is tried", UNRECORDED)
N_LENGTHS = _constant("N_LENGTHS", 14, "length scales that are tried, in geometric progression", UNRECORDED)
MIN_RELEVANCE = _constant("MIN_RELEVANCE", 1e-4, "least relevance of a coordinate that is tried", UNRECORDED)
MAX_RELEVANCE = _constant("MAX_RELEVANCE", 10.0, "greatest relevance that is tried", UNRECORDED)
N_RELEVANCES = _constant("N_RELEVANCES", 21, "relevances that are tried, in geometric progression", UNRECORDED)
TYPICAL_LENGTH = _constant(
    "TYPICAL_LENGTH",
    0.5,
    "median of the weak log-normal prior on a length scale, and its value at first: the nearest one of the grid",
    CHECKED,
)
LOG_DEVIATION = _constant(
    "LOG_DEVIATION",
    1.0,
    "its deviation on the log scale, and that of the root of a relevance, which is a variance",
    CHECKED,
)
METRIC_DEVIATION = _constant(
    "METRIC_DEVIATION",
    0.5,
    "how far metrics deviate from what they have in common, in units of its own deviation",
    CHECKED,
)
INITIAL_RATIO = _constant(
    "INITIAL_RATIO",
    1.0,
    "variance of the means of an arm at first, in units of its noise",
    "derived: an even split, since nothing is known",
)
INITIAL_CONSTANT_VARIANCE = _constant(
    "INITIAL_CONSTANT_VARIANCE",
    4.0,
    "prior variance of the weight of the constant feature at first, in units of the amplitude; weighs one weight later",
    CHECKED,
)
MIN_PRIOR_VARIANCE = _constant("MIN_PRIOR_VARIANCE", 1e-9, "least prior variance of a feature", GUARD)
MAX_PRIOR_VARIANCE = _constant("MAX_PRIOR_VARIANCE", 1e9, "greatest variance in other units", GUARD)
MIN_KNOWN_SHARE = _constant(
    "MIN_KNOWN_SHARE", 1e-6, "least share of a weight that counts as known from the data", UNRECORDED
)
MIN_FREEDOM_SHARE = _constant(
    "MIN_FREEDOM_SHARE",
    0.2,
    "least degrees of freedom that are left for the noise, as a share of the observations",
    CHECKED,
)
NOISE_WEIGHT = _constant(
    "NOISE_WEIGHT",
    10.0,
    "imagined observations of an arm with the noise of all arms together",
    CHECKED,
)
MIN_NOISE = _constant(
    "MIN_NOISE", 1e-5, "least variance of the noise, in units of the variance of the rewards", UNRECORDED
)
ROUNDING = _constant(
    "ROUNDING",
    1e-15,
    "a spread of rewards below this part of the largest one is rounding",
    "derived: a few units in the last place of a double, 2.2e-16",
)

# ---- Fits -----------------------------------------------------------------------------------------------------------

FIRST_FIT = _constant("FIRST_FIT", 2, "observations for each arm before the first fit", FINE_ENOUGH)
REFIT_GROWTH = _constant(
    "REFIT_GROWTH", 1.25, "the model is fitted anew when there are this many times as many observations", FINE_ENOUGH
)
LAST_FIT = _constant(
    "LAST_FIT",
    100_000,
    "observations after which no fit begins: the model is only updated, and observations are not stored any more",
    "derived: bounds the memory, and the prior has settled long before",
)
PATIENCE = _constant(
    "PATIENCE",
    4,
    "times LAST_FIT that observations are stored for a metric whose values come late",
    "derived: bounds the memory all the same",
)
BUDGET = _constant(
    "BUDGET",
    1_400_000,
    "multiply-adds that a fit under way does after each observation",
    "derived: about a millisecond, below one inverse at 128 features; `benchmarks/cost.py` shows the longest pause",
)
MIN_UPDATES = _constant(
    "MIN_UPDATES",
    4,
    "updates that a fit under way can at least do after each observation, however many features there are",
    "derived: more than one, so that a new model catches up with the observations since it began",
)
UNIT = _constant(
    "UNIT",
    250_000,
    "multiply-adds of adding up samples between two looks at the budget",
    "derived: a part of BUDGET; results do not depend on it",
)
UNIT_AT_ONCE = _constant(
    "UNIT_AT_ONCE",
    16_000_000,
    "the same where nobody waits for a single observation",
    "derived: some milliseconds, so that Python is seldom called between; results do not depend on it",
)
ROWS_AT_ONCE = _constant(
    "ROWS_AT_ONCE",
    512,
    "rows of a log whose features are kept at once",
    "derived: half a megabyte for 128 features; results do not depend on it",
)
CONTEXTS_AT_ONCE = _constant(
    "CONTEXTS_AT_ONCE",
    32,
    "contexts of a batch whose features are kept at once",
    "derived: what is kept stays near the processor; results do not depend on it",
)
COST_OF_A_FUNCTION = _constant(
    "COST_OF_A_FUNCTION",
    20,
    "multiply-adds that a logarithm or the like counts as",
    "derived: about what it takes, so that units of a fit take as long as they count",
)
COST_OF_A_CALL = _constant(
    "COST_OF_A_CALL", 50_000, "multiply-adds that a few operations of NumPy count as", "as COST_OF_A_FUNCTION"
)
MAX_PRIOR_STEPS = _constant("MAX_PRIOR_STEPS", 5, "most steps of learning the prior in one fit", LATER)
SETTLED_CHANGE = _constant(
    "SETTLED_CHANGE", 0.05, "no step follows one that changed noise and amplitude by a smaller share", LATER
)
MIN_KEPT_FEATURES = _constant(
    "MIN_KEPT_FEATURES",
    0.5,
    "sums over samples are kept if more than this share of the features is the same as before",
    LATER + "; results do not depend on it",
)
N_DRAWS = _constant(
    "N_DRAWS",
    15,
    "posterior draws kept for each arm and metric",
    "derived: with the mean, a round number of columns; otherwise not recorded",
)
BLOCK = _constant(
    "BLOCK",
    4,
    "rows of a matrix that are handled at once",
    "derived: the loops of blocks.py are written out for this many",
)

# ---- Described arms -------------------------------------------------------------------------------------------------

MAX_COLUMNS = _constant("MAX_COLUMNS", 4, "most columns of the basis of arms beyond the shared one", LATER)
ENOUGH_VARIANCE = _constant("ENOUGH_VARIANCE", 0.99, "share of the variance over arms that is enough", LATER)
MAX_EFFECTS = _constant(
    "MAX_EFFECTS",
    192,
    "most effects over described arms, unless there are more than two thirds as many features",
    "derived: one inverse of this size stays within an installment of a fit",
)

# ---- What is played and reported ------------------------------------------------------------------------------------

N_FRONTS = _constant(
    "N_FRONTS", 32, "perturbed predictions at a context, in pairs, from which margins are judged", LATER
)
N_STRATA = _constant(
    "N_STRATA",
    256,
    "rows of the table of perturbations: as many arms and metrics are perturbed independently",
    "derived: a power of two, and small enough to stay in a cache",
)
VARIANCE_FACTOR = _constant(
    "VARIANCE_FACTOR",
    1.75,
    "how many times larger squared errors are than posterior variances, the prior being learned and taken as known",
    "measured: `python benchmarks/calibration.py --development`, column factor",
)
REPORT_PRICE = _constant(
    "REPORT_PRICE",
    0.1,
    "what an error in the report costs, a bad play costing 1",
    "derived: the score of the leaderboard, play + 0.1 (shortfall + front)",
)
FAR_SHARE = _constant(
    "FAR_SHARE",
    0.4,
    "how much contexts far away that an observation tells about count where the arm is cheap, those nearby counting 1",
    CHECKED,
)
CHEAP_SHARE = _constant(
    "CHEAP_SHARE",
    0.05,
    "share of contexts at which an arm counts as cheap: there it is played for what it tells about others",
    CHECKED,
)
N_SITES = _constant(
    "N_SITES",
    64,
    "contexts, the last ones, from which a fit learns what arms cost where they cost least, and how far metrics agree",
    "derived: enough for a small quantile, and a small part of a fit",
)
N_HALVINGS = _constant(
    "N_HALVINGS",
    50,
    "halvings of the range in which the agreement of two metrics lies",
    "derived: the digits of a double",
)
ELIMINATION_MARGIN = _constant(
    "ELIMINATION_MARGIN",
    4.0,
    "posterior deviations by which an arm must be beaten on every facet to be out of the running",
    CHECKED,
)
MIN_DEVIATION = _constant("MIN_DEVIATION", 1e-150, "least deviation of a margin or variance of a prediction", GUARD)
N_CHANCE_DRAWS = _constant(
    "N_CHANCE_DRAWS",
    512,
    "posterior draws from which `front` tells the chance of every arm",
    "derived: the standard error of a chance is at most 0.5 / sqrt(512), or 0.022",
)
LEVEL = _constant(
    "LEVEL", 0.95, "probability with which `radii` cover a mean, unless the user says otherwise", "custom"
)
RADIUS = _constant("RADIUS", 2.0, "posterior deviations that the radii of a front are wide", UNRECORDED)

TABLE: tuple[Constant, ...] = tuple(_rows)
