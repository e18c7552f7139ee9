"""Who asks the admin application."""

from aiohttp.test_utils import TestClient
from aiohttp.web import Application, Request

Client = TestClient[Request, Application]
