"""The policy of the kernelised setting: Bayesian regression on shared spectral features, under the cone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from conebandit.geometry.cone import Cone, as_saved
from conebandit.geometry.pareto import facet_slack
from conebandit.kernels import queries
from conebandit.kernels.cone_kernel.agreement import odds_of_facets
from conebandit.kernels.cone_kernel.constants import (
    DEFAULT_FEATURES,
    FIRST_FIT,
    INITIAL_CONSTANT_VARIANCE,
    LAST_FIT,
    LEVEL,
    MAX_FEATURES,
    N_DRAWS,
    RADIUS,
    TYPICAL_LENGTH,
)
from conebandit.kernels.cone_kernel.features import highest_order
from conebandit.kernels.cone_kernel.prior import LENGTHS, NUS, typical_relevance
from conebandit.kernels.cone_kernel.rows import learn_rows
from conebandit.kernels.cone_kernel.state import (
    AMPLITUDE,
    DESCRIBED,
    FIT_BEGAN,
    FITTED,
    NEVER,
    NEXT_WORK,
    NOISE,
    OBSERVATIONS,
    ROWS,
    SHARED,
    SPREAD,
    State,
)
from conebandit.policies.compiled import CompiledPolicy
from conebandit.policies.cone_kernel import steps
from conebandit.policies.cone_kernel.arms import as_arm_features, basis_of_arms
from conebandit.policies.cone_kernel.candidates import max_parts
from conebandit.policies.cone_kernel.explanation import KernelExplanation, what_matters, who_beats
from conebandit.policies.cone_kernel.fit import Fitter
from conebandit.policies.cone_kernel.merge import is_still_fitted, merged
from conebandit.policies.cone_kernel.prior import INITIAL_AMPLITUDE, INITIAL_NOISE
from conebandit.policies.cone_kernel.uncertainty import deviations_covering, front_chances
from conebandit.policies.layout import Array, Counter, Index, Layout
from conebandit.validate import storage
from conebandit.validate.arguments import as_arm, as_count, as_fraction
from conebandit.validate.arrays import FloatArray


class ConeKernel(CompiledPolicy):
    """Bayesian regression with a learned kernel for each arm and metric; plays what is worth knowing under the cone.

    Means are modelled as functions of the context: sums of products of cosines, whose prior (noise level, amplitude,
    and for each coordinate its relevance, length scale and smoothness, by metric) is learned from all arms together,
    and so is what all arms have in common. An arm is played if an observation of it saves more, in later errors of
    play and report, than it costs. Reported are arms that are probably on the front; with a resolution, arms that are
    more probably essential than unacceptable. Nothing needs to be known about scale, noise or smoothness.
    ``docs/kernel.md`` says how and why.

    Parameters
    ----------
    n_arms, cone, context_dim, seed, bounds, explore, resolution
        As for :class:`ConeTree`; any number of coordinates.
    n_features
        Most features, up to 1024; fewer are used while the data cannot tell more apart. Cost grows with its square.
    arm_features
        Shape (K, f), or (K,) for one number each: numbers that describe the arms, such as doses or prices, so that
        arms with like numbers inform each other as far as the data say that they are alike. Units do not matter.

    Examples
    --------
    >>> import conebandit as cb
    >>> env = cb.environments.smooth(n_arms=4, context_dim=3, relevant=1, change_point=500)
    >>> policy = cb.ConeKernel(n_arms=4, cone=env.cone, context_dim=3)
    >>> run = cb.simulate(policy, env, horizon=3000)
    >>> run.average("play", after=1000) < 0.05
    True
    >>> run.policy.explain([0.5, 0.5, 0.5]).relevance.argmax()      # which coordinate matters
    np.int64(0)

    A dose that was never given is known from its neighbours:

    >>> doses = cb.ConeKernel(n_arms=3, cone=cb.Cone.orthant(1), context_dim=1, arm_features=[10, 20, 40])
    >>> for t in range(60):
    ...     doses.observe([t % 10 / 10], t % 2 * 2, [t % 2])
    >>> doses.radii([[0.5]])[0, 1] < 1.0
    array([ True])
    """

    _kernels: ClassVar[Any] = steps
    _query: ClassVar[Any] = staticmethod(queries.ask_cone_kernel)
    _observe_rows: ClassVar[Any] = staticmethod(learn_rows)
    _merged, _needs_a_start, _may_skip_report = merged, property(is_still_fitted), True
    _layout: ClassVar[Layout] = Layout(
        State,
        {
            "observations": Counter(step=1),
            "next work": Counter("first fit"),
            "fitted": Counter(),
            "fit began": Counter(),
            "rows": Counter(step=1, room=LAST_FIT + LAST_FIT // 4),  # so that no growing array is ever copied
        },
        {
            "orders": Array(("features", "coordinates"), np.int64, indices=Index("orders")),
            "parts": Array(("features", "parts"), np.int64, indices=Index("cosines")),
            "weights": Array(("arms", "objectives", "features", N_DRAWS + 1)),
            "covs": Array(("arms", "objectives", "features", "features")),
            "prior": Array(("objectives", "features"), fill=1.0),
            "beyond": Array(("objectives",)),
            "agreement": Array(("objectives", "objectives")),
            "cheap": Array(("arms",)),
            "scales": Array(("scales", "objectives")),
            "noise": Array(("arms", "objectives"), fill=INITIAL_NOISE),
            "relevance": Array(("objectives", "coordinates")),
            "lengths": Array(("objectives", "coordinates"), np.int64, indices=Index(len(LENGTHS))),
            "smoothness": Array(("objectives", "coordinates"), np.int64, indices=Index(len(NUS))),
            "constant": Array(("objectives",), fill=INITIAL_CONSTANT_VARIANCE),
            "counts": Array(("arms", "objectives"), np.int64),
            "fitted_to": Array(("objectives",), np.int64),
            "data": Array(("rows", "sample")),
            "chosen": Array(("rows",), np.int64, indices=Index("arms")),
            "facets": Array(("facets", "objectives")),
            "slack": Array(("facets",), saved=False),
        },
        learned={"features": 1},
        cone_free=True,
    )

    def __init__(
        self,
        n_arms: int,
        cone: Cone,
        context_dim: int,
        *,
        n_features: int = DEFAULT_FEATURES,
        arm_features: ArrayLike | None = None,
        seed: int = 0,
        bounds: ArrayLike | None = None,
        explore: float = 0.0,
        resolution: ArrayLike = 0.0,
    ) -> None:
        self._max_features = as_count(n_features, "n_features", most=MAX_FEATURES)  # n_features are those in use
        self.arm_features = as_arm_features(arm_features, as_count(n_arms, "n_arms"))
        super().__init__(n_arms, cone, context_dim, seed=seed, bounds=bounds, explore=explore, resolution=resolution)
        self._resolves = False  # the kernels report at the resolution themselves
        self._in_chunk = False
        basis = basis_of_arms(self.arm_features, self.n_arms)
        self._fitter = Fitter(self.context_dim, self._max_features, int(self._seed), basis)

    @property
    def settings(self) -> dict[str, Any]:
        """Settings by name."""
        described = {} if self.arm_features is None else {"arm_features": self.arm_features.tolist()}
        return {"n_features": self._max_features, **described}

    def _own_sizes(self) -> dict[str, int]:
        highest = int(highest_order(self.context_dim))
        return {
            "first fit": FIRST_FIT * self.n_arms,
            "orders": highest + 1,
            "parts": max_parts(self.context_dim),
            "cosines": 1 + self.context_dim * highest,
            "sample": self.context_dim + self.n_objectives,
            "scales": (SHARED if self.arm_features is None else DESCRIBED) + 1,
        }

    @classmethod
    def _restore(cls, kind: str, options: dict[str, Any], arrays: storage.Arrays) -> Self:
        """The policy as it was saved. A file of the first model is learned anew from the samples that it holds."""
        if "levels" not in arrays:
            return super()._restore(kind, options, _of_this_version(arrays))
        policy = cls(cone=as_saved(arrays.pop("cone"), options.pop("names")), **options)
        for row, arm in zip(arrays["data"], arrays["chosen"].tolist(), strict=True):
            policy._learn(row[: policy.context_dim], as_arm(arm, policy.n_arms), row[policy.context_dim :])
        return policy

    def _given(self) -> dict[str, NDArray[Any]]:
        scales = np.zeros((self._sizes["scales"], self.n_objectives))
        scales[SPREAD], scales[NOISE], scales[AMPLITUDE:] = 1.0, INITIAL_NOISE, INITIAL_AMPLITUDE
        lengths = np.array(np.argmin(np.abs(LENGTHS - TYPICAL_LENGTH)))
        relevance = np.array(typical_relevance(self.context_dim))
        slack = facet_slack(self.cone, np.asarray(self.resolution))
        return {**super()._given(), "scales": scales, "relevance": relevance, "lengths": lengths, "slack": slack}

    def _settle(self) -> None:
        """Begin or go on with a fit of the model if it is time."""
        if self._state.size[OBSERVATIONS] >= self._state.size[NEXT_WORK]:
            self._state = self._fitter.go_on(self._state, at_once=self._in_chunk)

    def run_chunk(
        self, contexts: FloatArray, outcomes: FloatArray, keys: NDArray[np.uint64]
    ) -> tuple[NDArray[np.int64], FloatArray, NDArray[np.bool_], NDArray[np.bool_]]:
        """As for every policy. Nobody waits for a single round, so fits are done at once; they count when due."""
        with self._fits_at_once():
            return super().run_chunk(contexts, outcomes, keys)

    def _learn_rows(self, x: FloatArray, arms: NDArray[np.int64], rewards: FloatArray) -> None:
        with self._fits_at_once():
            super()._learn_rows(x, arms, rewards)

    @contextmanager
    def _fits_at_once(self) -> Iterator[None]:
        self._in_chunk = True
        try:
            yield
        finally:
            self._in_chunk = False
            if self._state.size[FIT_BEGAN]:
                self._state.size[NEXT_WORK] = self._state.size[OBSERVATIONS] + 1  # as after single observations

    def _with(self, arrays: storage.Arrays) -> Self:
        policy, began = super()._with(arrays), int(arrays["size"][FIT_BEGAN])
        observations, rows = int(arrays["size"][OBSERVATIONS]), int(arrays["size"][ROWS])
        stored = 0 if arrays["size"][NEXT_WORK] == NEVER else observations
        if rows != stored or not 0 <= began <= rows:
            raise ValueError(f"array 'size' has {rows} rows of {observations} observations, and a fit from {began} on")
        return policy

    @property
    def n_features(self) -> int:
        """Number of features in use."""
        return len(self._state.orders)

    @property
    def noise(self) -> FloatArray:
        """Shape (M,), deviation of rewards around their means, as learned; nan of metrics that are not known."""
        learned = self._state.scales[SPREAD] * np.sqrt(self._state.scales[NOISE])
        return np.where(self._state.fitted_to > 0, learned, np.nan)

    def _front_chances(self, x: FloatArray, means: FloatArray, radii: FloatArray) -> FloatArray:
        entropy = [int(self._seed), self.n_observations, *(x + 0.0).view(np.uint64).tolist()]  # -0.0 as 0.0
        odds = odds_of_facets(self._state.agreement, self._state.facets, self._state.scales)
        return front_chances(means, radii / RADIUS, self.cone, np.asarray(self.resolution), entropy, odds=odds)

    def radii(self, contexts: ArrayLike, *, level: float = LEVEL, simultaneous: bool = False) -> FloatArray:
        """How far the means of all arms may be from their estimates.

        Parameters
        ----------
        contexts
            Shape (n, d), within the bounds.
        level
            Probability with which means are within the radii.
        simultaneous
            If False, the level holds for each context, arm and metric by itself. If True, it holds at each context for
            all metrics of all arms at once, so for those of any front, however it was chosen (but not for several
            contexts at once).

        Returns
        -------
        numpy.ndarray
            Shape (n, K, M), in units of the metrics; inf where nothing is known, as before the first fit.

        Notes
        -----
        Radii are so many posterior deviations as a normal law asks for, or the largest of K * M independent normal
        numbers (Sidak 1967); those of :meth:`front` are two, a pointwise level of 95.4 %. Since the prior is learned,
        posterior variances are multiplied by what they were too small on the problems that the policy was designed on,
        and features that are left out count as well; ``benchmarks/calibration.py`` measures how often means are within.

        Examples
        --------
        >>> import conebandit as cb
        >>> policy = cb.ConeKernel(n_arms=2, cone=cb.Cone.orthant(1), context_dim=1)
        >>> for t in range(200):
        ...     policy.observe([t / 200], t % 2, [t % 2])
        >>> one, both = (policy.radii([[0.3]], level=0.9, simultaneous=flag) for flag in (False, True))
        >>> one.shape, (both / one).round(3).ravel()
        ((1, 2, 1), array([1.185, 1.185]))
        """
        level, rows = as_fraction(level, "level"), self.box.rows(contexts)
        means, radii = np.empty((2, len(rows), self.n_arms, self.n_objectives))
        for x, mean, radius in zip(self.box.points(rows), means, radii, strict=True):
            steps.estimate(self._state, x, mean, radius)
        return radii * (deviations_covering(level, self.n_arms * self.n_objectives if simultaneous else 1) / RADIUS)

    def explain(self, context: ArrayLike) -> KernelExplanation:
        """Arms in the running at a context, what beats those that are not reported, and what was learned.

        Parameters
        ----------
        context
            Shape (d,), within the bounds.
        """
        x = self.box.point(context)
        active, reported = self._flags(x)  # all arms until the first fit
        means, radii = np.empty((2, self.n_arms, self.n_objectives))
        steps.estimate(self._state, x, means, radii)
        off = 1.0 - self._front_chances(x, means, radii)
        return KernelExplanation(
            active=tuple(np.flatnonzero(active).tolist()),
            beaten=tuple(
                who_beats(arm, means, radii / RADIUS, self.cone.facets, float(off[arm]))
                for arm in np.flatnonzero(~reported).tolist()
            ),
            noise=self.noise,
            n_features=self.n_features,
            **what_matters(self._state, np.ptp(self.box.bounds, axis=1)),
        )


def _of_this_version(arrays: storage.Arrays) -> storage.Arrays:
    """Arrays of a file as this version has them.

    Before 0.9 all metrics had one kernel, before 0.12 all were equally smooth, and before 0.13 all were taken for known
    once there was a model. What features that are left out may add, and where arms cost least, is known from the next
    fit on, if one is due.
    """
    metrics = arrays["scales"].shape[1]
    if "fitted_to" not in arrays:
        values = arrays["counts"].sum(axis=0)
        arrays = {**arrays, "fitted_to": np.maximum(values, 1) if arrays["size"][FITTED] else np.zeros_like(values)}
    arrays = {
        "agreement": np.zeros((metrics, metrics)),
        "smoothness": np.zeros_like(arrays["relevance"], np.int64),
        **arrays,
    }
    arrays = {"beyond": np.zeros(metrics), "cheap": np.zeros(len(arrays["noise"])), **arrays}
    own = {name: arrays[name] for name in ("prior", "relevance", "lengths", "smoothness") if arrays[name].ndim == 1}
    if own and len(arrays["constant"]) == 1:
        own["constant"] = arrays["constant"][0]
    return {**arrays, **{name: np.array([array] * metrics) for name, array in own.items()}}
