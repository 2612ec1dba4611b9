"""Past rows in a log: packed into the text of one event, so that a replay needs nothing but the log.

One event, not one for each row: the rows are no decisions of the service, were not drawn with its probabilities, and
must not look as if they were. They are kept as the policy learns them, JSON compressed with zlib, in base 64; the
checksum in the event says which file they came from.
"""

from __future__ import annotations

import base64
import json
import zlib
from hashlib import sha256
from typing import NamedTuple

import numpy as np

from conebandit.experiment.declaration import Experiment
from conebandit.experiment.errors import InvalidError
from conebandit.experiment.rows import Rows, restored_rows
from conebandit.service.errors import CorruptionError

MAX_PACKED = 16 * 2**20  # characters of an event
MAX_UNPACKED = 128 * 2**20  # bytes of its rows as JSON


class Past(NamedTuple):
    """Past rows and where they come from.

    Attributes
    ----------
    file
        Name of the file, or other words for whoever reads the log.
    sha256
        Of the file.
    rows
        What is learned.
    """

    file: str
    sha256: str
    rows: Rows

    @classmethod
    def of_learner(cls, rows: Rows) -> Past:
        """The rows that a learner has in memory; the checksum is that of the packed rows."""
        return cls("a learner", sha256(pack(rows).encode()).hexdigest(), rows)


def pack(rows: Rows) -> str:
    """Rows as text; an ``InvalidError`` if it is too long for a log."""
    values = [[None if np.isnan(v) else v for v in row] for row in rows.values.tolist()]
    table = {"contexts": rows.contexts.tolist(), "arms": rows.arms.tolist(), "values": values}
    plain = json.dumps(table, separators=(",", ":")).encode()
    text = base64.b64encode(zlib.compress(plain, 9)).decode()
    if len(text) > MAX_PACKED or len(plain) > MAX_UNPACKED:
        raise InvalidError(
            f"{len(rows.arms):,} past rows take {len(plain) / 2**20:.0f} MiB, {len(text) / 2**20:.0f} compressed; at "
            f"most {MAX_UNPACKED / 2**20:g} and {MAX_PACKED / 2**20:g} are allowed. Take the latest rows, or some of "
            "them at random."
        )
    return text


def unpack(text: str, experiment: Experiment) -> Rows:
    """Rows from their text; a ``CorruptionError`` if it is not what :func:`pack` has made of rows of this experiment.

    Examples
    --------
    >>> experiment = Experiment.from_dict({"id": "e", "arms": ["a", "b"], "metrics": [{"name": "m"}]})
    >>> rows = Rows(np.full((2, 1), 0.5), np.array([0, 1]), np.array([[1.5], [np.nan]]))
    >>> unpack(pack(rows), experiment).values.tolist()
    [[1.5], [nan]]
    """
    try:
        unpacker = zlib.decompressobj()
        plain = unpacker.decompress(base64.b64decode(text, validate=True), MAX_UNPACKED)
        if not unpacker.eof:
            raise ValueError("it does not end")
        table = json.loads(plain)
        n = len(table["arms"])
        contexts = np.array(table["contexts"], dtype=np.float64).reshape(n, experiment.context_dim)
        values = np.array(table["values"], dtype=np.float64).reshape(n, len(experiment.metrics))
        return restored_rows(experiment, contexts, table["arms"], values)
    except (ValueError, TypeError, KeyError, OverflowError, zlib.error) as error:
        raise CorruptionError(f"'data' does not hold rows of this experiment: {error}.") from None
