"""The kernelised setting: Bayesian regression on shared spectral features, under the cone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from conebandit.geometry.cone import Cone
from conebandit.kernels import spectral as kernels
from conebandit.kernels import spectral_fit as fitting
from conebandit.kernels.spectral_choice import AMPLITUDE, CENTRE, NOISE, SPREAD
from conebandit.policies.compiled import CompiledPolicy
from conebandit.policies.kernel_sums import Sums
from conebandit.policies.layout import Array, Counter, Index, Layout
from conebandit.validate.arguments import as_count
from conebandit.validate.arrays import FloatArray

MAX_FEATURES = 1024  # a square matrix of them is kept for each arm and metric
DRAWS = 15  # posterior draws kept for each arm and metric; with the mean, a round number of columns
GROWTH = 1.25  # the model is fitted anew whenever there are this many times as many observations
LAST_FIT = (
    250_000  # ... up to here: by then its prior has settled, and one more pass over the data would be a long pause
)
STEPS, SETTLED = 5, 0.05  # most steps of the iteration on the prior; none follows one that changed it by less than 5 %
SPARE_FEATURES, PER_OBSERVATION = 32, 1.25  # most features: this many, and so many for each observation of an arm
WORTH_KEEPING = 0.05  # features whose signal-to-noise ratio is below this cannot be learned yet
SENTINEL = 0.1  # signal-to-noise ratio that features of the lowest orders keep, so that a coordinate can come back
MAX_VARIANCE = 1.5  # prior variance of a mean function, in units of the variance of the rewards
TIE_WEIGHT, TIE_OFFSET, MAX_TIE = 0.6, 0.1, 2.5
PLAY_WEIGHT, PLAY_OFFSET, PLAY_SHARE = 2.2, 0.3, 0.8
MAX_PLAY_TIE = 2.6  # within reach of the perturbations: an arm that is not tied is still tried now and then
PLAY_WAIT = 200  # observations for each arm before ties are acted on
# Ties are not believed in below, and fully above, this ratio of leads near zero to those expected there without ties:
TIES_REPORTED, TIES_PLAYED = (1.0, 1.4), (1.3, 1.7)
ENOUGH_DECIDED = 0.2, 0.3  # ties are not believed in below, and fully above, this share of leads beyond two deviations
ROUNDING = 1e-15  # a spread below this part of the largest reward is rounding
RECENT = 200  # contexts on which ties are counted

_PRIOR = ("scales", "relevance", "lengths")  # arrays of the state that the iteration on the prior changes in place


@dataclass(frozen=True)
class Beaten:
    """An arm that is out of the running at a context: by whom, and by how many posterior deviations on each facet."""

    arm: int
    by: int
    margins: FloatArray


@dataclass(frozen=True)
class KernelExplanation:
    """What led to the arms a context is offered.

    ``relevance`` says how much each context coordinate matters (the most relevant one has 1), ``lengths`` over which
    distance means change along it, ``noise`` the deviation of a reward around its mean; all learned, nan before the
    first fit. Arms are told to be out by the spread of a few posterior draws, but margins are measured by the exact
    posterior: so a margin need not exceed four deviations, and may be not much above two.
    """

    active: tuple[int, ...]
    eliminated: tuple[Beaten, ...]
    relevance: FloatArray
    lengths: FloatArray
    noise: FloatArray
    n_features: int


class ConeKernel(CompiledPolicy):
    """Bayesian regression with a learned kernel for each arm and metric, and posterior sampling under the cone.

    Means are modelled as smooth functions of the context: sums of products of cosines, whose prior (noise level,
    amplitude, and for each coordinate its relevance and length scale) is learned from the data of all arms together.
    In each round predictions are perturbed by a part of their uncertainty, and an arm on the front of the perturbed
    predictions is played. Reported are arms that are probably on the front, none that merely tie with a better one.
    Nothing needs to be known about scale, noise or smoothness. ``docs/kernel.md`` says how and why.

    Parameters
    ----------
    n_arms, cone, context_dim, seed, bounds
        As for :class:`ConeTree`; any number of coordinates.
    n_features
        Most features, up to 1024; fewer are used while the data cannot tell more apart. Cost grows with its square.

    Examples
    --------
    >>> import conebandit as cb
    >>> env = cb.environments.smooth(n_arms=4, dim=3, relevant=1, change_point=500)
    >>> policy = cb.ConeKernel(n_arms=4, cone=env.cone, context_dim=3)
    >>> run = cb.simulate(policy, env, horizon=3000)
    >>> run.average("play", after=1000) < 0.05
    True
    >>> run.policy.explain([0.5, 0.5, 0.5]).relevance.argmax()      # which coordinate matters
    np.int64(0)
    """

    _kernels: ClassVar[Any] = kernels
    _layout: ClassVar[Layout] = Layout(
        kernels.State,
        {"observations": Counter(step=1), "next fit": Counter("first fit"), "fitted": Counter()},
        {
            "orders": Array(("features", "coordinates"), np.int64, indices=Index("orders")),
            "parts": Array(("features", "parts"), np.int64, indices=Index("cosines")),
            "weights": Array(("arms", "objectives", "features", DRAWS + 1)),
            "covs": Array(("arms", "objectives", "features", "features")),
            "prior": Array(("features",), fill=1.0),
            "scales": Array((4, "objectives")),
            "relevance": Array(("coordinates",), fill=1.0),
            "lengths": Array(("coordinates",), np.int64, indices=Index(len(fitting.LENGTHS))),
            "levels": Array((6,), fill=(4.0, 0.0, 0.0, 0.0, 0.0, 0.0)),
            "counts": Array(("arms", "objectives"), np.int64),
            "data": Array(("observations", "sample")),
            "chosen": Array(("observations",), np.int64, indices=Index("arms")),
            "facets": Array(("facets", "objectives")),
        },
        learned={"features": 1},
    )

    def __init__(
        self,
        n_arms: int,
        cone: Cone,
        context_dim: int,
        *,
        n_features: int = 128,
        seed: int = 0,
        bounds: ArrayLike | None = None,
    ) -> None:
        # Not a field of a dataclass as other settings are: the attribute n_features is how many are in use.
        self._max_features = as_count(n_features, "n_features", most=MAX_FEATURES)
        super().__init__(n_arms, cone, context_dim, seed=seed, bounds=bounds)
        self._highest = int(kernels.highest_order(self.context_dim))
        self._density = fitting.spectrum(self._highest)
        self._candidates = _candidates(self.context_dim, self._highest)
        self._parts = _parts(self._candidates, min(self.context_dim, 3), self._highest)
        self._sentinels = _is_sentinel(self._candidates)
        self._sums = Sums()

    @property
    def settings(self) -> dict[str, Any]:
        """Settings by name."""
        return {"n_features": self._max_features}

    def _own_sizes(self) -> dict[str, int]:
        highest = int(kernels.highest_order(self.context_dim))
        return {
            "first fit": 2 * self.n_arms,
            "orders": highest + 1,
            "parts": min(self.context_dim, 3),
            "cosines": 1 + self.context_dim * highest,
            "sample": self.context_dim + self.n_objectives,
        }

    def _given(self) -> dict[str, NDArray[Any]]:
        scales = np.zeros((4, self.n_objectives))
        scales[SPREAD], scales[NOISE], scales[AMPLITUDE] = 1.0, 0.5, 0.5
        length = np.argmin(np.abs(fitting.LENGTHS - 0.4))
        return {**super()._given(), "scales": scales, "lengths": np.full(self.context_dim, length)}

    # ---- fitting ------------------------------------------------------------------------------------------------

    def _settle(self) -> None:
        """Fit the model anew if it is time."""
        n = self.n_observations
        if n < self._state.size[kernels.NEXT_FIT]:
            return
        variances = np.einsum("kmjj->kmj", self._state.covs)
        for step in range(1, STEPS + 1):
            before = self._state._replace(**{name: getattr(self._state, name).copy() for name in _PRIOR})
            if self._state.size[kernels.FITTED]:
                self._learn_prior(variances)
            self._standardise()
            self._choose_features()
            last = step == STEPS or _is_settled(before, self._state)
            variances = self._fit(final=last)
            if last:
                break
        self._learn_ties()
        following = max(int(n * GROWTH), n + self.n_arms)
        self._state.size[kernels.NEXT_FIT] = following if following <= LAST_FIT else np.iinfo(np.int64).max

    def _learn_prior(self, variances: FloatArray) -> None:
        """One step of the iteration on noise, amplitudes, relevances and length scales, from the current posterior."""
        s = self._state
        means = s.weights[..., 0]
        full = s.scales[AMPLITUDE][:, None] * s.prior  # (M, D)
        known = np.clip(1.0 - variances / full, 1e-6, 1.0)
        count = s.counts.sum(axis=0)
        freedom = np.maximum(count - known.sum(axis=(0, 2)), 0.2 * count)
        gram, cross, squares = self._sums.of(s)
        noise = fitting.residuals(gram, cross, squares, np.ascontiguousarray(means)) / np.maximum(freedom, 1e-9)
        s.scales[NOISE] = np.where(count > 0, np.maximum(noise, 1e-5), 0.5)
        varying = s.orders.any(axis=1)
        weighed = (means[:, :, varying] ** 2 / s.prior[varying]).sum(axis=(0, 2))
        amplitude = (1.0 + weighed) / (1.0 + known[:, :, varying].sum(axis=(0, 2)))
        s.scales[AMPLITUDE] = np.clip(amplitude, 1e-3, MAX_VARIANCE)
        moments = (means**2 / s.scales[AMPLITUDE][:, None]).sum(axis=(0, 1))
        shares = known.sum(axis=(0, 1))
        constant = (1.0 + moments[~varying].sum()) / (1.0 + shares[~varying].sum())
        s.levels[kernels.CONSTANT] = np.clip(constant, 0.01, 10.0)
        orders = s.orders[varying]
        floor = self._floor(orders)
        fitting.improve_prior(moments[varying], shares[varying], orders, floor, self._density, s.relevance, s.lengths)

    def _standardise(self) -> None:
        """Centre and spread of the rewards seen so far; what is measured in units of the spread is converted."""
        s, dim = self._state, self.context_dim
        rewards = s.data[: self.n_observations, dim:]
        for m in range(self.n_objectives):
            y = rewards[~np.isnan(rewards[:, m]), m]
            if len(y):
                largest = np.abs(y).max() or 1.0  # so that squares of huge rewards do not overflow
                centre, spread = y.mean(), largest * (y / largest).std()
                spread = spread if spread > ROUNDING * largest else largest  # as for constant rewards
                s.scales[[NOISE, AMPLITUDE], m] *= (
                    (s.scales[SPREAD, m] / spread) ** 2 if (s.size[kernels.FITTED]) else 1.0
                )
                s.scales[CENTRE, m], s.scales[SPREAD, m] = centre, spread

    def _ratio(self) -> float:
        """Signal-to-noise ratio of a weight of unit prior variance, for an arm with its share of the observations."""
        scales = self._state.scales
        best = (scales[AMPLITUDE] / scales[NOISE]).max()
        return float(best * self.n_observations / self.n_arms)

    def _floor(self, orders: NDArray[np.int64]) -> FloatArray:
        """Least prior variance of each feature: main effects of order 1 and 2 always stay in view."""
        return np.where(_is_sentinel(orders), SENTINEL / self._ratio(), 1e-9)

    def _prior_of(self, orders: NDArray[np.int64]) -> FloatArray:
        """Prior variance of features, in units of the amplitude."""
        s = self._state
        prior = np.full(len(orders), 1.0 / (np.prod(1.0 + s.relevance) - 1.0))
        for i in range(self.context_dim):
            share = s.relevance[i] * self._density[s.lengths[i], orders[:, i]]
            prior *= np.where(orders[:, i] > 0, share, 1.0)
        prior = np.maximum(prior, self._floor(orders))
        prior[~orders.any(axis=1)] = s.levels[kernels.CONSTANT]
        return np.asarray(prior)

    def _choose_features(self) -> None:
        """Take the features that the data can tell apart; their weights are not fitted yet."""
        s = self._state
        prior = self._prior_of(self._candidates)
        ratio = self._ratio() * prior
        ratio[self._sentinels] += 1e6
        ratio[0] = np.inf  # the constant
        most = min(SPARE_FEATURES + int(PER_OBSERVATION * self.n_observations / self.n_arms), self._max_features)
        size = min(int((ratio > WORTH_KEEPING).sum()), most)
        chosen = np.sort(np.argsort(-ratio, kind="stable")[:size])
        weights = np.zeros((self.n_arms, self.n_objectives, size, DRAWS + 1))
        self._state = s._replace(
            orders=self._candidates[chosen], parts=self._parts[chosen], weights=weights, prior=prior[chosen]
        )

    def _fit(self, final: bool) -> FloatArray:
        """Posterior means of the weights from all samples; draws and covariances if ``final``. Gives the variances."""
        s = self._state
        gram, cross, _ = self._sums.of(s)
        arms, metrics, size, draws = s.weights.shape
        variances = np.empty((arms, metrics, size))
        covs = np.empty((arms, metrics, size, size)) if final else s.covs
        normals = np.random.default_rng([int(self._seed), self.n_observations])
        mean, none = np.empty(size), np.zeros((size, size))
        for k in range(arms):
            for m in range(metrics):
                full, noise = s.scales[AMPLITUDE, m] * s.prior, s.scales[NOISE, m]
                inverse = fitting.factor(gram[k, 0], gram[k, 1 + m] if gram.shape[1] > 1 else none, full, noise)
                fitting.posterior_mean(inverse, cross[k, m], noise, mean, variances[k, m])
                s.weights[k, m, :, 0] = mean
                if final:
                    z = np.zeros((size, draws))  # in column 0, the mean, nothing is added
                    z[:, 1:] = normals.standard_normal((size, draws - 1))
                    fitting.posterior(inverse, mean, z, covs[k, m], s.weights[k, m])
        self._state = s._replace(covs=covs)
        self._state.size[kernels.FITTED] = 1
        return variances

    def _learn_ties(self) -> None:
        """How many posterior deviations an arm must be above another to be believed not to be tied with it.

        What is reported and what is played use different answers: a tie that is believed in wrongly hides an arm from
        the report until more is known, but from play for long. So for play leads are counted over several fits, and
        more of them must be near 0.
        """
        s, n = self._state, self.n_observations
        first = max(0, n - RECENT)
        counts = fitting.tie_counts(s, self._highest, first) / ((n - first) * self.n_arms)
        near, expected, far, decided = counts
        trust = _ramp(decided, ENOUGH_DECIDED)  # a model that knows little sees ties everywhere
        excess = _ramp(near / max(expected, 1e-3), TIES_REPORTED)
        report = TIE_WEIGHT * trust * excess * _tied_below(near, far) - TIE_OFFSET
        smooth = s.levels[kernels.LEADS :]
        smooth += 0.5 * (counts[:3] - smooth)
        trust *= _ramp(smooth[0] / max(smooth[1], 1e-3), TIES_PLAYED)
        play = 0.0
        if n >= PLAY_WAIT * self.n_arms:  # earlier, arms held for tied would not be seen enough to prove it wrong
            play = PLAY_WEIGHT * trust * _tied_below(smooth[0], smooth[2]) - PLAY_OFFSET
            play = min(max(play, 0.0), MAX_PLAY_TIE)
        s.levels[kernels.TIE] = max(report, PLAY_SHARE * play) if play > 0.0 else report
        s.levels[kernels.PLAY_TIE] = play

    # ---- what it knows ------------------------------------------------------------------------------------------

    @property
    def n_features(self) -> int:
        """Number of features in use."""
        return len(self._state.orders)

    @property
    def noise(self) -> FloatArray:
        """Shape (M,), deviation of rewards around their means, as learned; nan before the first fit."""
        s = self._state
        learned = s.scales[SPREAD] * np.sqrt(s.scales[NOISE])
        return np.where(s.size[kernels.FITTED], learned, np.nan)

    def explain(self, context: ArrayLike) -> KernelExplanation:
        """Arms in the running at a context, what beats the others, and what was learned about the context.

        Parameters
        ----------
        context
            Shape (d,), within the bounds.
        """
        decision = self.decide(context, key=0)  # all arms are in the running until the first fit
        means, radii = np.empty((2, self.n_arms, self.n_objectives))
        kernels.estimate(self._state, self.box.point(context), means, radii)
        facets, out = self.cone.facets, []
        for b in np.flatnonzero(~decision.mask):
            y, deviations = means @ facets.T, 0.5 * np.sqrt(radii**2 @ (facets**2).T)
            margins = (y - y[b]) / np.sqrt(deviations**2 + deviations[b] ** 2)
            margins[b] = -np.inf
            by = int(np.argmax(margins.min(axis=1)))
            out.append(Beaten(arm=int(b), by=by, margins=margins[by]))
        fitted = bool(self._state.size[kernels.FITTED])
        relevance, span = self._state.relevance, np.ptp(self.box.bounds, axis=1)
        return KernelExplanation(
            active=decision.active,
            eliminated=tuple(out),
            relevance=relevance / relevance.max() if fitted else np.full(self.context_dim, np.nan),
            lengths=fitting.LENGTHS[self._state.lengths] * span if fitted else np.full(self.context_dim, np.nan),
            noise=self.noise,
            n_features=self.n_features,
        )


def _candidates(dim: int, highest: int) -> NDArray[np.int64]:
    """Orders of all features that may be chosen: the constant, main effects, interactions of two and of three.

    Interactions have lower orders in more coordinates, so that there are a few thousand candidates at most.
    """
    most = {1: highest, 2: 15 if dim <= 3 else 8 if dim <= 8 else 3 if dim <= 20 else 1, 3: 4 if dim <= 8 else 0}
    rows = [np.zeros((1, dim), dtype=np.int64)]
    for size in range(1, min(dim, 3) + 1):
        orders = np.array(list(product(range(1, most[size] + 1), repeat=size)), dtype=np.int64)
        if len(orders):
            kept = orders[orders.prod(axis=1) <= (150 if dim <= 2 else 40)]
            for coordinates in combinations(range(dim), size):
                block = np.zeros((len(kept), dim), dtype=np.int64)
                block[:, coordinates] = kept
                rows.append(block)
    return np.concatenate(rows)


def _is_sentinel(orders: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Main effects of order 1 and 2."""
    return np.asarray(((orders > 0).sum(axis=1) == 1) & (orders.sum(axis=1) <= 2))


def _parts(orders: NDArray[np.int64], most: int, highest: int) -> NDArray[np.int64]:
    """Features as positions in the table of one-dimensional cosines: (D, d) -> (D, ``most``)."""
    parts = np.zeros((len(orders), most), dtype=np.int64)
    for feature, row in enumerate(orders):
        coordinates = np.flatnonzero(row)
        parts[feature, : len(coordinates)] = 1 + coordinates * highest + row[coordinates] - 1
    return parts


def _is_settled(before: kernels.State, after: kernels.State) -> bool:
    """Whether a step of the iteration on the prior changed nothing of note."""
    same = all(
        np.array_equal(getattr(before, name), getattr(after, name)) for name in ("parts", "relevance", "lengths")
    )
    logs = [np.log(state.scales[[NOISE, AMPLITUDE]]) + 2.0 * np.log(state.scales[SPREAD]) for state in (before, after)]
    return same and bool(np.abs(logs[0] - logs[1]).max() < SETTLED)


def _tied_below(near: float, far: float) -> float:
    """The lead, in deviations, below which a tie is the likelier explanation.

    If means vary freely, leads near 0 are no more frequent than others; an excess of them, with a normal law, is ties
    (a two-groups model, Efron 2008). ``near`` and ``far`` are the shares of leads within one deviation, and between two
    and four.
    """
    density = far / 4.0 + 2e-4  # of leads that are no ties
    ties = max(0.0, (near - 2.0 * density) / 0.68)
    lead = 0.0
    while lead < MAX_TIE and density * math.erf(lead / math.sqrt(2.0)) < ties * _normal_density(lead):
        lead += 0.05
    return lead


def _ramp(value: float, ends: tuple[float, float]) -> float:
    """0 below the first of ``ends``, 1 above the second, linear between them."""
    return min(1.0, max(0.0, (value - ends[0]) / (ends[1] - ends[0])))


def _normal_density(x: float) -> float:
    return math.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi)
