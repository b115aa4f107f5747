"""The application: every router, one way to answer errors, Socket.IO beside it."""

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from open_token import __version__
from open_token.errors import StoreError
from open_token.server.http import (
    answers,
    branches,
    files,
    keys,
    memories,
    meta,
    replays,
    schedules,
    sessions,
    shares,
    skills,
    tasks,
    tokens,
    transfer,
)
from open_token.server.refusals import Refused
from open_token.server.services import Services
from open_token.server.sse import router as events

ROUTERS = (
    meta,
    sessions,
    branches,
    keys,
    memories,
    shares,
    tokens,
    files,
    skills,
    tasks,
    transfer,
    replays,
    schedules,
)


def make_app(services: Services) -> FastAPI:
    """The REST side of a server; its lifetime is that of the services, which somebody else starts and stops."""
    app = FastAPI(title="Open-Token session server", version=__version__, docs_url=None, redoc_url=None)
    app.state.services = services
    app.add_exception_handler(Refused, answers.refused)
    app.add_exception_handler(StoreError, answers.failed_store)
    app.add_exception_handler(RequestValidationError, answers.invalid)
    app.add_exception_handler(HTTPException, answers.plain_error)
    for module in ROUTERS:
        app.include_router(module.router)
    app.include_router(events)
    return app
