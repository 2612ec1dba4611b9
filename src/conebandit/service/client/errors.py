"""Why a request came to nothing, and whether it may do better later."""

from __future__ import annotations

import json


class ClientError(Exception):
    """The service refused a request, or could not be reached.

    Attributes
    ----------
    status
        The HTTP status; 0 if there was no answer.

    Examples
    --------
    >>> import conebandit as cb
    >>> client = cb.Client("http://127.0.0.1:9", retries=0)      # where nobody listens
    >>> try:
    ...     client.decide("checkout", {"age": 34})
    ... except cb.ClientError as error:
    ...     print(error.status)
    0
    """

    def __init__(self, status: int, message: str, *, worded: bool = False) -> None:
        super().__init__(message)
        self.status = status
        self._worded = worded  # by the service; otherwise some proxy may have answered

    @property
    def is_final(self) -> bool:
        """Whether the service, and not a proxy before it, has refused this request for good.

        Not for its key (401, 403): that can be put right.
        """
        return self._worded and not self.is_trouble and self.status not in (401, 403)

    @property
    def is_trouble(self) -> bool:
        """Whether the service is in trouble, rather than the request: the same request may be answered later."""
        return is_trouble(self.status)


def is_trouble(status: int) -> bool:
    """No answer, one that blames the service, or one that asks for patience (408: too slow, 429: too many requests).

    A redirect (3xx) is trouble, too: the service sends none, so it comes from a proxy, and the request did not arrive.

    Examples
    --------
    >>> [is_trouble(status) for status in (0, 503, 429, 302, 404, 200)]
    [True, True, True, True, False, False]
    """
    return status in (0, 408, 429) or 300 <= status < 400 or status >= 500


def refusal(status: int, content: bytes) -> ClientError:
    """The error for an answer that is none of the good ones.

    Examples
    --------
    >>> refusal(404, b'{"error": "there is no experiment."}')
    ClientError('there is no experiment.')
    """
    if status == 0:
        return ClientError(0, f"the service cannot be reached: {content.decode('utf-8', 'replace')}")
    if 300 <= status < 400:
        return ClientError(
            status, f"the answer is a redirect ({status}), which is not followed: give the address that it leads to"
        )
    try:
        return ClientError(status, str(json.loads(content)["error"]), worded=True)
    except (ValueError, KeyError, TypeError, RecursionError):
        return ClientError(status, f"the service answered {status}")
