"""Replies to decisions and outcomes, as the OpenAPI schema shows them."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict
from pydantic.config import JsonDict

from conebandit._version import __version__

DECISION_EXAMPLE: JsonDict = {
    "id": "visit-1",
    "arm": "new",
    "propensity": 0.5,
    "active": ["old", "new"],
    "mode": "live",
    "policy_version": f"ConeTree-{__version__}-17",
}
OUTCOME_EXAMPLE: JsonDict = {"id": "visit-1", "recorded": ["revenue"], "corrected": [], "repeated": [], "late": []}


class DecisionReply(BaseModel):
    """An arm to serve."""

    model_config = ConfigDict(json_schema_extra={"examples": [DECISION_EXAMPLE]})
    id: str
    arm: str
    propensity: float
    active: list[str]
    mode: str
    policy_version: str | None


class DecisionReplies(BaseModel):
    """Arms to serve, in the order of the requests."""

    decisions: list[DecisionReply]


class OutcomeReply(BaseModel):
    """What a report did, metric by metric."""

    model_config = ConfigDict(json_schema_extra={"examples": [OUTCOME_EXAMPLE]})
    id: str
    recorded: list[str]
    corrected: list[str]
    repeated: list[str]
    late: list[str]


class OutcomeReplies(BaseModel):
    """What the reports did, in their order."""

    outcomes: list[OutcomeReply]
