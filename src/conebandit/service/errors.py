"""What can go wrong with a request, in words for the caller; ``status`` is the HTTP status."""

from __future__ import annotations


class ServiceError(Exception):
    """A request that was not carried out, and why; nothing was changed."""

    status = 500


class InvalidError(ServiceError):
    """The request does not make sense, whatever the state."""

    status = 422


class NotFoundError(ServiceError):
    """There is no such experiment, decision or arm."""

    status = 404


class ConflictError(ServiceError):
    """The request contradicts what is in the log."""

    status = 409


class UnavailableError(ServiceError):
    """The store did not take it; try again with the same ids."""

    status = 503


class CorruptionError(ServiceError):
    """The log is not what was written."""

    status = 500
