"""Why a request was refused, in words for whoever made it; ``status`` is the HTTP status of the reply."""

from __future__ import annotations


class RefusalError(Exception):
    """A request was not carried out; the message says why, and nothing was changed."""

    status = 500


class InvalidError(RefusalError, ValueError):
    """The request or the declaration is invalid, whatever the state of the service."""

    status = 422
