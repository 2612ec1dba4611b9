"""Talking to the service from Python; nothing but the standard library."""

from conebandit.service.client.asynchronous import AsyncClient
from conebandit.service.client.client import Client
from conebandit.service.client.errors import ClientError
from conebandit.service.replies import Assignment, Receipt

__all__ = ["Assignment", "AsyncClient", "Client", "ClientError", "Receipt"]
