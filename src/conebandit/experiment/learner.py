"""What was learned about an experiment, asked and answered in names and units."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from conebandit.experiment.declaration import Experiment
from conebandit.experiment.errors import InvalidError
from conebandit.experiment.frames import Frame
from conebandit.experiment.how_many import SampleSize, how_many
from conebandit.experiment.outlook import Outlook, RowExplanation, estimates_by_name, units_of
from conebandit.experiment.policy import make_policy, with_policy
from conebandit.experiment.recommendation import chance_of, recommended, relevance
from conebandit.experiment.rows import Rows, read_contexts, read_many_rows, restored_rows, teach
from conebandit.experiment.segments import Segments, find_segments
from conebandit.experiment.standing import clearest_lead
from conebandit.policies.compiled import estimates
from conebandit.policies.load import restored
from conebandit.validate import storage
from conebandit.validate.arguments import as_count, as_integer
from conebandit.validate.arrays import FloatArray

if TYPE_CHECKING:
    from conebandit.service.client import Client

TEXTS = ("arm", "front")  # columns of a recommendation that hold text


class Learner:
    """A policy that has learned from the rows of an experiment, and recommends arms.

    Parameters
    ----------
    experiment
        The declaration. If it names no policy, that of :func:`default_policy` is used.

    Attributes
    ----------
    experiment
        The declaration, with the policy named.
    policy
        The policy, which speaks of indices and rewards.
    rows
        What it has learned from.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> log = {"page": rng.choice(["old", "new"], 400), "device": rng.choice(["phone", "desk"], 400)}
    >>> better = (log["page"] == "new") == (log["device"] == "phone")
    >>> log["revenue"] = better + rng.normal(0, 0.3, 400)
    >>> experiment = Experiment.from_frame(log, arm="page", metrics=["revenue"], context=["device"])
    >>> learner = experiment.learn(log)
    >>> learner.recommend({"device": ["phone", "desk"]})["arm"]
    ['new', 'old']
    """

    def __init__(self, experiment: Experiment) -> None:
        if not isinstance(experiment, Experiment):
            raise TypeError(f"experiment must be an Experiment; got {experiment!r}.")
        self.experiment = with_policy(experiment)
        self.policy = make_policy(self.experiment, experiment.arms)
        empty = (
            np.empty((0, experiment.context_dim)),
            np.empty(0, dtype=np.int64),
            np.empty((0, len(experiment.metrics))),
        )
        self.rows = Rows(*empty)

    def __repr__(self) -> str:
        return f"Learner({self.experiment.id!r}, {self.experiment.policy}, {len(self.rows.arms)} rows)"

    # ---- learning -----------------------------------------------------------------------------------------------

    def learn(self, frame: Any, *, arm: str | None = None) -> Self:
        """Learn from more rows, as :meth:`Experiment.learn` does: from all of them or, if one does not fit, from none.

        Rows without any known outcome teach nothing and are left out.
        """
        rows = read_many_rows(self.experiment, frame, arm)
        policy = self.policy.copy()
        teach(policy, self.experiment, rows)
        self.policy, self.rows = policy, self.rows.joined(rows)
        return self

    # ---- asking -------------------------------------------------------------------------------------------------

    def recommend(self, frame: Any) -> Any:
        """An arm for each row, with what is expected of it.

        Parameters
        ----------
        frame
            A data frame or a dict of columns that has the context; other columns are not looked at.

        Returns
        -------
        frame
            Of the same library, with a row for each row: ``arm``, the arm on the front that is most surely on it;
            ``chance``, that it is (missing if the policy does not say); for each metric its estimate for that arm and
            ``_low`` and ``_high``, between which it may lie, in the units of the metric; ``front``, all arms on the
            front, with commas between. Any arm on the front is a right choice, as far as the cone says.
        """
        table = Frame(frame)
        made = recommended(self.policy, read_contexts(self.experiment, table))
        names = self.experiment.arms
        columns: dict[str, list[Any]] = {
            "arm": [names[each.arm] for each in made],
            "chance": [_known(each.chance) for each in made],
        }
        expected = [
            estimates_by_name(self.experiment.metrics, each.front.means[each.place], each.front.radii[each.place])
            for each in made
        ]
        for metric in self.experiment.metrics:
            for part, ending in enumerate(("", "_low", "_high")):
                name = f"{metric.name}{ending}"
                while name in columns or name in TEXTS:
                    name = f"metric.{name}"
                columns[name] = [_known(found[metric.name][part]) for found in expected]
        columns["front"] = [", ".join(names[k] for k in each.front.arms) for each in made]
        return table.like(columns, TEXTS)

    def recommended(self, contexts: FloatArray) -> list[str]:
        """The arm that :meth:`recommend` gives, for each of some contexts (n, d) as the policy sees them."""
        return [self.experiment.arms[each.arm] for each in recommended(self.policy, contexts)]

    def front(self, row: Mapping[str, Any]) -> tuple[Outlook, ...]:
        """The arms on the front for one row, a mapping from names to values, with what is expected of them."""
        return tuple(each for each in self.explain(row).arms if each.on_front)

    def explain(self, row: Mapping[str, Any]) -> RowExplanation:
        """What is expected of every arm for one row, what beats those off the front, and which columns matter."""
        if not hasattr(row, "keys"):
            raise TypeError(f"row must be a mapping from the names of the context columns to values; got {row!r}.")
        x = read_contexts(self.experiment, Frame([dict(row)]))
        means, radii = (found[0] for found in estimates(self.policy, x))
        front = self.policy.front(x[0])
        names = self.experiment.arms
        outlooks = [
            Outlook(
                arm=name,
                on_front=k in front.arms,
                chance=chance_of(front, k),
                estimates=estimates_by_name(self.experiment.metrics, means[k].tolist(), radii[k].tolist()),
                beaten_by=None if k in front.arms else self._beats(k, means),
            )
            for k, name in enumerate(names)
        ]
        outlooks.sort(key=lambda each: not each.on_front)
        return RowExplanation(
            tuple(outlooks), relevance(self.experiment, self.policy, x[0]), units_of(self.experiment.metrics)
        )

    def segments(self, frame: Any = None, *, max_leaves: int = 6) -> Segments:
        """Who gets what: a few readable rules that say nearly the same as the policy.

        Parameters
        ----------
        frame
            Rows whose contexts are to be told apart; those that were learned from by default.
        max_leaves
            How many rules at most.

        Returns
        -------
        Segments
            The rules, with sizes, fronts and estimates, and how often they agree with the policy; print it.
        """
        leaves = as_count(max_leaves, "max_leaves")
        if frame is None:
            self._require_rows()
        contexts = self.rows.contexts if frame is None else read_contexts(self.experiment, Frame(frame))
        return find_segments(self.experiment, self.policy, contexts, leaves)

    def how_many(
        self, resolution: float | Mapping[str, float] | None = None, power: float = 0.8, *, seed: int = 0
    ) -> SampleSize:
        """How many more rows until the front is settled, if arms go on being tried as often as so far.

        An arm that was never tried then stays unknown; the answer names it.

        Parameters
        ----------
        resolution
            The smallest difference that matters, in the units of the metrics: one number, or one for each metric by
            name. The declared one by default.
        power
            In which share of contexts the front is to be settled: every arm on it that matters is reported or covered
            by one that is, and none is reported that is worse than another one by more than the resolution.
        seed
            Of the simulation.

        Returns
        -------
        SampleSize
            The number with an interval, and the curve that it was read off.
        """
        self._require_rows()
        return how_many(self.experiment, self.policy, self.rows, resolution=resolution, power=power, seed=seed)

    # ---- serving and keeping --------------------------------------------------------------------------------------

    def serve(self, store: str | os.PathLike[str] | None = None, *, port: int = 0) -> AbstractContextManager[Client]:
        """Serve decisions from this process, on this machine only, while a ``with`` block runs.

        The service begins with all that was learned, and goes on learning from what is reported to it; this learner
        stays as it is. To serve for longer, or to others: :func:`deploy`, then ``conebandit serve``.

        Parameters
        ----------
        store
            Where the log is kept, as for :func:`deploy`. By default it is gone when the block ends.
        port
            Where to listen; 0 for any that is free.

        Returns
        -------
        context manager
            It gives a :class:`Client`, whose ``address`` is that of the service.
        """
        listen = as_integer(port, "port", least=0, most=65535)
        try:
            from conebandit.service.http.learner import serving_learner  # noqa: PLC0415  (the one import upwards)
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(f"The service needs {error.name}: pip install 'conebandit[service]'.") from None
        return serving_learner(self, store, listen)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to a file: declaration, policy and rows. :meth:`load` reads it back bit for bit."""
        kind, options, state = self.policy.saved()
        about = {"declaration": self.experiment.declaration, "policy": kind, "options": options}
        arrays = {f"policy.{name}": array for name, array in state.items()}
        storage.write(
            path, storage.LEARNER, about, {**arrays, **{f"rows.{n}": a for n, a in self.rows._asdict().items()}}
        )

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a learner that was saved.

        Raises
        ------
        ValueError
            (A ``PolicyFileError``.) If the file is not a saved learner, or is damaged.
        """
        kind, options, arrays = storage.read(path)
        if kind != storage.LEARNER:
            raise storage.PolicyFileError(f"{os.fspath(path)!r} holds a policy, not a learner: use load_policy.")
        try:
            learner = cls(Experiment.from_dict(options["declaration"]))
            state = {n.removeprefix("policy."): a for n, a in arrays.items() if n.startswith("policy.")}
            learner.policy = _of_same_size(restored(path, options["policy"], options["options"], state), learner.policy)
            learner.rows = restored_rows(
                learner.experiment, arrays["rows.contexts"], arrays["rows.arms"], arrays["rows.values"]
            )
        except (KeyError, TypeError, ValueError) as error:
            raise storage.PolicyFileError(f"{os.fspath(path)!r} is damaged: {error}.") from None
        return learner

    # ---- small parts --------------------------------------------------------------------------------------------

    def _require_rows(self) -> None:
        if not len(self.rows.arms):
            raise InvalidError("nothing has been learned yet: call 'learn' with past rows first.")

    def _beats(self, arm: int, means: FloatArray) -> str | None:
        by = clearest_lead(arm, means, self.experiment.cone)
        return None if by is None else self.experiment.arms[by]


def _known(number: float) -> float | None:
    """None for what is not known, as tables have it."""
    return float(number) if np.isfinite(number) else None


def _of_same_size(policy: Any, wanted: Any) -> Any:
    """A policy from a file, if it is about as many arms, metrics and coordinates as the declaration there."""
    sizes = [(each.n_arms, each.n_objectives, each.context_dim) for each in (policy, wanted)]
    if sizes[0] != sizes[1]:
        raise ValueError(f"its policy has arms, metrics and coordinates {sizes[0]}, its declaration {sizes[1]}")
    return policy
