"""Logs in the formats of neighbours, both ways: Open Bandit Pipeline, Vowpal Wabbit, and our own tables.

Every function takes or gives a log as arrays: a :class:`Feedback`, or any object with its fields.
"""

from conebandit.formats.feedback import Feedback
from conebandit.formats.obp import from_obp, to_obp
from conebandit.formats.tables import read_csv, write_csv
from conebandit.formats.vowpal import read_dsjson, read_vw, write_dsjson, write_vw

__all__ = [
    "Feedback",
    "from_obp",
    "read_csv",
    "read_dsjson",
    "read_vw",
    "to_obp",
    "write_csv",
    "write_dsjson",
    "write_vw",
]
