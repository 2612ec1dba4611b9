"""Units: patients, visitors and others who come again. What is declared about them, and what they are called."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from conebandit.experiment import entries
from conebandit.experiment.errors import InvalidError

MAX_UNIT = 128  # characters of a name


@dataclass(frozen=True)
class Units:
    """Decisions are about units that may come again.

    Attributes
    ----------
    sticky
        Seconds for which a unit keeps the arm that was drawn for it; 0: a new decision each time, infinity: for good.

    Examples
    --------
    >>> import conebandit as cb
    >>> declared = {"id": "e", "arms": ["a", "b"], "metrics": [{"name": "m"}], "unit": {"sticky": "30d"}}
    >>> cb.Experiment.from_dict(declared).units
    Units(sticky=2592000.0)
    """

    sticky: float = 0.0

    def keeps(self, age: int) -> bool:
        """Whether an arm that was drawn so many milliseconds ago is kept."""
        return age <= self.sticky * 1000 and self.sticky > 0.0


def read_units(given: Any) -> Units | None:
    """What a declaration says under ``unit``; None if it says nothing.

    Examples
    --------
    >>> read_units({"sticky": "30d"})
    Units(sticky=2592000.0)
    >>> read_units({}), read_units({"sticky": True}), read_units(None)
    (Units(sticky=0.0), Units(sticky=inf), None)
    """
    if given is None:
        return None
    table = entries.table(given, "unit")
    entries.only(table, ("sticky",), "unit")
    sticky = table.get("sticky", False)
    if isinstance(sticky, bool):
        return Units(math.inf if sticky else 0.0)
    try:
        return Units(entries.seconds(sticky, "unit.sticky"))
    except InvalidError as error:
        words = str(error).removesuffix(".")
        raise InvalidError(f"{words}. It may also be true (for good) or false (a new decision each time).") from None


def as_unit(given: Any, units: Units | None) -> str | None:
    """The name of a unit, which decisions have if and only if units are declared.

    Examples
    --------
    >>> as_unit("patient 7", Units())
    'patient 7'
    >>> as_unit("patient 7", None)
    Traceback (most recent call last):
        ...
    conebandit.experiment.errors.InvalidError: unit cannot be given: this experiment declares no units. Leave it out.
    """
    if units is None:
        if given is not None:
            raise InvalidError("unit cannot be given: this experiment declares no units. Leave it out.")
        return None
    if given is None:
        raise InvalidError("unit must be given: this experiment declares units, and every decision is about one.")
    return entries.text(given, "unit", most=MAX_UNIT)
