"""Beginning experiments, and changing them."""

from __future__ import annotations

from typing import Any

from conebandit._version import __version__
from conebandit.experiment.arms import MAX_ARMS
from conebandit.experiment.declaration import Experiment, as_arm_name, as_mode, check_estimates
from conebandit.experiment.errors import InvalidError
from conebandit.experiment.policy import with_policy
from conebandit.service.engine.parts import Part
from conebandit.service.errors import ConflictError, NotFoundError
from conebandit.service.log.events import ArmAdded, ArmRetired, Created, Learned, ModeChanged
from conebandit.service.log.past import Past, pack
from conebandit.service.log.replay import past_rows
from conebandit.service.log.state import State
from conebandit.service.replies import ArmStatus, Description


def new_state(experiment: Experiment, past: Past | None = None) -> State:
    """The state in which an experiment begins, with the default policy if it names none and with past rows learned."""
    named = with_policy(experiment)
    state = State(named, named.arms)  # refuses settings that do not fit
    if past is not None:
        state.learn_ahead(past.rows)
    return state


class Experiments(Part):
    """What begins, describes and changes an experiment."""

    def create(self, experiment: Experiment, past: Past | None = None, state: State | None = None) -> Description:
        """Begin an experiment, with the default policy if it names none; the same again is a no-op.

        If there are past rows, the policy learns from them first, unless it has: in a ``state`` that was made by
        :func:`new_state`, before everything was locked.
        """
        state = new_state(experiment) if state is None else state
        named = state.experiment
        if "added_arms" in named.declaration and self.transaction.session.head(named.id) is None:
            raise InvalidError("added_arms cannot be given: no arm was added yet. Declare all of them as 'arms'.")
        if not self.transaction.begin(state, self.by):
            known = [self.transaction.declared(experiment.id, first=first) for first in (True, False)]
            if named.declaration not in known and experiment.declaration not in known:
                raise ConflictError(f"there is an experiment {experiment.id!r} already, with another declaration.")
            known_rows = past_rows(self.transaction.session, experiment.id)
            if past is not None and (known_rows is None or known_rows.sha256 != past.sha256):
                raise ConflictError(
                    f"there is an experiment {experiment.id!r} already, which began without these rows."
                )
            return self.describe(experiment.id)
        at = self.transaction.time(state)
        self.append(state, Created(at, named.declaration, __version__))
        if past is not None:
            rows = pack(past.rows)
            self.append(state, Learned(at, past.file, past.sha256, len(past.rows.arms), rows))
        return self.describe(experiment.id)

    def describe(self, experiment_id: str) -> Description:
        """What an experiment is and how far it has come."""
        state = self.transaction.state(experiment_id)
        return Description(
            id=experiment_id,
            mode=state.mode,
            arms=tuple(ArmStatus(name, active) for name, active in state.arms.items()),
            events=state.head.seq,
            revising=state.corrected_from is not None,
            declaration=state.experiment.declaration,
            warnings=state.experiment.warnings,
            stage=state.stage,
            stopped=tuple(dict.fromkeys(name for name, _ in state.rules.stopped)),
        )

    def _refuse_new_arms(self, state: State) -> None:
        """Where arms cannot be added or retired."""
        self.refuse_if_ended(state)
        if state.stage == "draft":
            raise ConflictError(
                f"experiment {state.experiment.id!r} is a draft: change its declaration, or begin it first."
            )

    def set_mode(self, experiment_id: str, mode: Any) -> Description:
        """Change the traffic mode; the mode that it has is a no-op."""
        checked = as_mode(mode)
        state = self.transaction.state(experiment_id)
        if state.mode != checked:
            self.refuse_if_ended(state)
            self.append(state, ModeChanged(self.transaction.time(state), checked))
        return self.describe(experiment_id)

    def add_arm(self, experiment_id: str, arm: Any) -> Description:
        """Add an arm; one that is active already is a no-op."""
        name = as_arm_name(arm)
        state = self.transaction.state(experiment_id)
        if name in state.arms:
            if not state.arms[name]:
                raise ConflictError(f"arm {name!r} is retired and is never served again; add one of another name.")
            return self.describe(experiment_id)
        self._refuse_new_arms(state)
        if state.experiment.arm_features:
            described = ", ".join(next(iter(state.experiment.arm_features.values())))
            raise ConflictError(
                f"arm {name!r} cannot be added: arms of this experiment are described by {described}, and a new one is "
                "not. Begin another experiment that has all of them."
            )
        if len(state.arms) >= MAX_ARMS:
            raise ConflictError(f"there are {len(state.arms)} arms, and {MAX_ARMS} is the limit.")
        try:
            check_estimates(sum(state.arms.values()) + 1, len(state.experiment.metrics), state.experiment.context_dim)
        except InvalidError as error:
            raise ConflictError(f"arm {name!r} cannot be added: {error}") from None
        self.append(state, ArmAdded(self.transaction.time(state), name))
        return self.describe(experiment_id)

    def retire_arm(self, experiment_id: str, arm: Any) -> Description:
        """Never serve an arm again; one that is retired already is a no-op."""
        name = as_arm_name(arm)
        state = self.transaction.state(experiment_id)
        if name not in state.arms:
            raise NotFoundError(f"there is no arm {name!r}; there are {', '.join(state.arms)}.")
        if name == state.experiment.baseline:
            raise ConflictError(f"arm {name!r} is the baseline, which modes 'shadow' and 'off' serve; it must stay.")
        if state.arms[name]:
            self._refuse_new_arms(state)
            self.append(state, ArmRetired(self.transaction.time(state), name))
        return self.describe(experiment_id)
