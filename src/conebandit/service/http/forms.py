"""What requests look like: bodies, path and query parameters, with examples for the OpenAPI schema."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Body, Path, Query
from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    Tag,
    with_config,
)
from typing_extensions import TypedDict  # pydantic wants this one before Python 3.12

from conebandit.experiment.declaration import ID
from conebandit.service.audit import MAX_AUDITED, Wanted, milliseconds
from conebandit.service.engine.repair import MAX_REASON
from conebandit.service.engine.traffic import MAX_AT_ONCE
from conebandit.service.log.bodies import MAX_TIME

ONE, MANY = "(one)", "(many)"  # forms of a body; never names of its entries

DECLARATION_EXAMPLE = {
    "id": "checkout",
    "arms": ["old", "new"],
    "metrics": [{"name": "revenue"}, {"name": "latency", "direction": "min", "worst": 2000, "window": "1h"}],
    "cone": {"tradeoffs": ["one unit of revenue is worth at most 50 of latency"]},
    "context": [{"name": "age", "low": 18, "high": 98, "out_of_range": "clip"}],
    "policy": {"name": "ConeTree", "preset": "adaptive", "explore": 0.05},
    "seed": 7,
}
DECLARATION_WORDS = (
    "Arms and metrics; the others are optional. `policy` is a name, or a table of `name` and settings. One that every "
    "policy takes is `explore`, from 0 (the default) to 1: the probability with which any arm that may be served is "
    "drawn, each with the same chance, in place of the policy's choice."
)

ExperimentId = Annotated[str, Path(pattern=f"^{ID.pattern}$", examples=["checkout"])]
ContextQuery = Annotated[str, Query(description="A JSON object", examples=['{"age": 34, "device": "phone"}'])]
# Only JSON is checked here: what a declaration may say is up to `Experiment.from_dict`.
DeclarationBody = Annotated[dict[str, Any], Body(description=DECLARATION_WORDS, examples=[DECLARATION_EXAMPLE])]


Context = dict[str, StrictBool | StrictInt | StrictFloat | StrictStr | None]


class _Form(BaseModel):
    model_config = ConfigDict(extra="forbid")


# ---- experiments and arms -------------------------------------------------------------------------------------------


class ArmChange(_Form):
    """An arm to add or to retire: one of the two."""

    add: StrictStr | None = None
    retire: StrictStr | None = None


ArmChangeBody = Annotated[ArmChange, Body(examples=[{"add": "bold"}])]


class ErasureRequest(_Form):
    """A unit to forget, as callers call it."""

    unit: StrictStr = Field(examples=["patient-7"])
    reason: StrictStr = Field(description="Kept in the log: nothing about the unit.", examples=["consent withdrawn"])


class ModeChange(_Form):
    """The traffic mode from now on."""

    mode: Literal["live", "shadow", "off"] = Field(examples=["shadow"])


class CopyRequest(_Form):
    """The id of a copy, and what is to be different in its declaration: whole entries; null takes one away."""

    id: StrictStr = Field(examples=["checkout-2"])
    changes: dict[str, Any] = Field({}, examples=[{"mode": "shadow"}])


class StageChange(_Form):
    """The stage from now on, and why."""

    stage: Literal["running", "paused", "ended"] = Field(examples=["paused"])
    reason: StrictStr = Field(examples=["interim analysis"])


class DeclarationChange(_Form):
    """Entries of the declaration that are replaced, and why."""

    changes: dict[str, Any] = Field(
        description="New values of `policy`, `cone`, `metrics` or `rules`; of a draft, also of others. Null: none.",
        examples=[{"policy": {"name": "ConeTree", "explore": 0.1}}],
    )
    reason: StrictStr = Field(examples=["more exploration, as the board asked for"])


class LiftRequest(_Form):
    """A safety rule that has fired, why it is lifted, and whether it begins anew or is off."""

    rule: StrictStr = Field(examples=["toxicity above 0.3"])
    reason: StrictStr = Field(examples=["a data entry error, corrected"])
    then: Literal["restart", "disable"] = Field(examples=["restart"])


# ---- decisions and outcomes: one, or a batch ------------------------------------------------------------------------


class DecisionRequest(_Form):
    """One decision to make."""

    id: StrictStr | None = Field(
        None, description="Yours, unique; the same id always gets the same answer.", examples=["visit-1"]
    )
    context: Context = Field({}, examples=[{"age": 34, "device": "phone"}])
    unit: StrictStr | None = Field(
        None, description="Whom or what it is about, if the experiment declares units.", examples=["patient-7"]
    )


class DecisionRequests(_Form):
    """Several decisions to make; all or none."""

    decisions: list[DecisionRequest] = Field(min_length=1, max_length=MAX_AT_ONCE)


@with_config(extra="forbid")
class DecisionTable(TypedDict, total=False):
    """What a :class:`DecisionRequest` is, as a plain table: for many of them that is much quicker."""

    id: StrictStr | None
    context: Context
    unit: StrictStr | None


@with_config(extra="forbid")
class DecisionTables(TypedDict):
    """What :class:`DecisionRequests` are, as a plain table."""

    decisions: Annotated[list[DecisionTable], Field(min_length=1, max_length=MAX_AT_ONCE)]


class Outcome(_Form):
    """What became of a decision; any metrics, at any time."""

    id: StrictStr = Field(examples=["visit-1"])
    values: dict[str, StrictInt | StrictFloat] = Field(min_length=1, examples=[{"revenue": 12.5}])
    observed_at: StrictStr | None = Field(
        None,
        description="When it was measured, with an offset; now by default.",
        examples=["2026-11-16T09:30:00+01:00"],
    )
    report: StrictStr | None = Field(
        None,
        pattern=r"^[A-Za-z0-9._-]{1,64}$",
        description="A name for this report, drawn at random: sent again it changes nothing, whatever came meanwhile.",
        examples=["5f0c0ed1a2b3c4d5"],
    )
    edge: StrictStr | None = Field(
        None,
        description="The edge that has made the decision: refused (409) if it was somebody else.",
        examples=["web-1"],
    )


class Outcomes(_Form):
    """What became of several decisions; all or none."""

    outcomes: list[Outcome] = Field(min_length=1, max_length=MAX_AT_ONCE)


# ---- decisions that were made at an edge ----------------------------------------------------------------------------


class EdgeChoice(_Form):
    """What the policy would do, whatever was served."""

    arm: StrictStr = Field(examples=["new"])
    propensity: StrictFloat = Field(examples=[0.5])
    probabilities: dict[str, StrictFloat] | None = Field(None, examples=[{"old": 0.5, "new": 0.5}])


class EdgeDecision(_Form):
    """A decision as it was made, in milliseconds since 1970."""

    id: StrictStr = Field(examples=["visit-1"])
    context: Context = Field({}, examples=[{"age": 34, "device": "phone"}])
    unit: StrictStr | None = Field(None, description="As for decisions.", examples=["patient-7"])
    alias: StrictStr | None = Field(None, description="What the log calls it, if units are declared.")
    at: StrictInt = Field(ge=0, le=MAX_TIME, examples=[1794787200000])
    mode: Literal["live", "shadow", "off"] = Field(examples=["live"])
    arm: StrictStr = Field(examples=["new"])
    propensity: StrictFloat = Field(examples=[0.5])
    active: list[StrictStr] = Field(examples=[["old", "new"]])
    choice: EdgeChoice | None = Field(description="Null in mode off.")
    stale: StrictBool = Field(False, description="The state was too old, so the baseline was served.")


class EdgeDecisions(_Form):
    """Decisions that an edge has made from one published state."""

    edge: StrictStr = Field(description="Its name.", examples=["web-1"])
    state: StrictInt = Field(ge=1, lt=2**53, description="Position at which the state was published.", examples=[17])
    check: StrictStr = Field(description="Its checksum.", examples=["5f0c0ed1a2b3c4d5e6f708192a3b4c5d"])
    decisions: list[EdgeDecision] = Field(min_length=1, max_length=MAX_AT_ONCE)
    heard: list[StrictStr] = Field(
        [], max_length=MAX_AT_ONCE, description="Ids of decisions that were `returned`, and need not be again."
    )


# ---- what is said afterwards: one, or a batch -----------------------------------------------------------------------


class _Amendment(_Form):
    id: StrictStr = Field(examples=["visit-1"])
    reason: StrictStr = Field(min_length=1, max_length=MAX_REASON, examples=["reported for another visitor"])


class Review(_Amendment):
    """Values on hold, as they were seen, and what is to become of them."""

    values: dict[str, StrictInt | StrictFloat] = Field(min_length=1, examples=[{"latency": 99999}])
    verdict: Literal["release", "reject"]


class Reviews(_Form):
    """Values on hold of several decisions; all or none."""

    reviews: list[Review] = Field(min_length=1, max_length=MAX_AT_ONCE)


class Retraction(_Amendment):
    """Metrics whose values are not true."""

    metrics: list[StrictStr] = Field(min_length=1, examples=[["latency"]])


class Retractions(_Form):
    """Values of several decisions that are not true; all or none."""

    retractions: list[Retraction] = Field(min_length=1, max_length=MAX_AT_ONCE)


class Void(_Amendment):
    """A decision from which nothing is to be learned; or again, if ``void`` is false."""

    void: StrictBool = True


class Voids(_Form):
    """Several decisions from which nothing is to be learned; all or none."""

    voids: list[Void] = Field(min_length=1, max_length=MAX_AT_ONCE)


class ContextCorrection(_Amendment):
    """The whole context in which a decision should have been made."""

    context: Context = Field(examples=[{"age": 43, "device": "phone"}])


class ContextCorrections(_Form):
    """The contexts in which several decisions should have been made; all or none."""

    contexts: list[ContextCorrection] = Field(min_length=1, max_length=MAX_AT_ONCE)


def _one_or_many(batch: str) -> Discriminator:
    """Which of two forms a body has: a batch, if it has that entry. So only the errors of that form are reported."""
    return Discriminator(lambda body: MANY if isinstance(body, dict) and batch in body else ONE)


DecisionsBody = Annotated[
    Annotated[DecisionRequest, Tag(ONE)] | Annotated[DecisionRequests, Tag(MANY)], _one_or_many("decisions"), Body()
]
OutcomesBody = Annotated[
    Annotated[Outcome, Tag(ONE)] | Annotated[Outcomes, Tag(MANY)], _one_or_many("outcomes"), Body()
]
ReviewsBody = Annotated[Annotated[Review, Tag(ONE)] | Annotated[Reviews, Tag(MANY)], _one_or_many("reviews"), Body()]
RetractionsBody = Annotated[
    Annotated[Retraction, Tag(ONE)] | Annotated[Retractions, Tag(MANY)], _one_or_many("retractions"), Body()
]
VoidsBody = Annotated[Annotated[Void, Tag(ONE)] | Annotated[Voids, Tag(MANY)], _one_or_many("voids"), Body()]
ContextsBody = Annotated[
    Annotated[ContextCorrection, Tag(ONE)] | Annotated[ContextCorrections, Tag(MANY)],
    _one_or_many("contexts"),
    Body(),
]


# ---- the log --------------------------------------------------------------------------------------------------------


class AuditFilter(_Form):
    """Which events of a log are asked for, and which page of them."""

    actor: str | None = Field(None, description="Exactly what callers gave as `X-Actor`.", examples=["dr.smith"])
    key: str | None = Field(None, description="The name of an API key.", examples=["checkout page"])
    kind: list[str] = Field([], description="Of events; repeat for several.", examples=[["mode_changed"]])
    since: str | None = Field(None, alias="from", description="ISO 8601; UTC without a zone.", examples=["2026-11-16"])
    until: str | None = Field(None, alias="to", description="ISO 8601; events before it.", examples=["2026-11-17"])
    after: int = Field(0, ge=0, lt=2**53)
    limit: int = Field(100, ge=1, le=MAX_AUDITED)

    def as_wanted(self) -> Wanted:
        """As the log is searched for it; an ``InvalidError`` if a time is none."""
        since, until = (
            None if given is None else milliseconds(given, where)
            for given, where in ((self.since, "from"), (self.until, "to"))
        )
        return Wanted(self.actor, self.key, tuple(self.kind), since, until)


AuditQuery = Annotated[AuditFilter, Query()]
