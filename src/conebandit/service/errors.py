"""What can go wrong with a request to the service, in words for the caller."""

from __future__ import annotations

from conebandit.experiment.errors import RefusalError


class ServiceError(RefusalError):
    """The service did not carry out a request; nothing was changed."""


class NotFoundError(ServiceError):
    """There is no such experiment, decision or arm."""

    status = 404


class ConflictError(ServiceError):
    """The request contradicts what is in the log."""

    status = 409


class UnavailableError(ServiceError):
    """The store did not take it; try again with the same ids."""

    status = 503


class NotYetError(ServiceError):
    """It cannot be done now, and the caller may know why: the same request may be taken in a moment."""

    status = 503


class SealKeyError(ServiceError):
    """The log is sealed with a key that is not here, or without one although there is one here."""


class BusyError(UnavailableError):
    """Somebody else holds the lock of the experiment for long; what concerns others goes on."""


class CorruptionError(ServiceError):
    """The log is not what was written."""
