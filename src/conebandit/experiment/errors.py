"""Why something that was asked for was not done, in words for whoever asked; ``status`` is the HTTP status."""

from __future__ import annotations


class RefusalError(Exception):
    """A request that was not carried out, and why; nothing was changed."""

    status = 500


class InvalidError(RefusalError, ValueError):
    """The request or the declaration does not make sense, whatever the state."""

    status = 422
