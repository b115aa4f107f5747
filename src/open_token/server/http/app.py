"""The application: every router, one way to answer errors, limits and measures around all of it."""

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.middleware.cors import CORSMiddleware
from starlette.exceptions import HTTPException

from open_token import __version__
from open_token.errors import StoreError
from open_token.model.log_events import LogError
from open_token.server.http import (
    answers,
    branches,
    files,
    keys,
    logins,
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
from open_token.server.http.auth import KeyFirst
from open_token.server.http.bodies import StrictJson
from open_token.server.http.openapi import document
from open_token.server.http.quick import Quick
from open_token.server.http.watching import Watched
from open_token.server.limits import Limited
from open_token.server.refusals import Refused
from open_token.server.services import Services
from open_token.server.sse import router as events

ROUTERS = (
    meta,
    sessions,
    branches,
    keys,
    logins,
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


_WORDS = """Live sessions of agents, one append-only log each. Errors are `{"detail", "code"}`; times are ISO 8601
in UTC; lists take `limit` and `offset` and answer with `total`. Send `Authorization: Bearer <key>`
unless a route is open."""


def make_app(services: Services) -> FastAPI:
    """The REST side of a server; its lifetime is that of the services, which somebody else starts
    and stops."""
    app = FastAPI(
        title="Open-Token session server",
        version=__version__,
        description=_WORDS,
        docs_url=None,
        redoc_url=None,
    )
    app.state.services = services
    app.add_exception_handler(Refused, answers.refused)
    app.add_exception_handler(StoreError, answers.failed_store)
    app.add_exception_handler(LogError, answers.unfitting)
    app.add_exception_handler(RequestValidationError, answers.invalid)
    app.add_exception_handler(HTTPException, answers.plain_error)
    for module in ROUTERS:
        app.include_router(module.router)
    app.include_router(events)
    app.openapi = document(app)  # type: ignore[method-assign]
    _surround(app, services)
    return app


def _surround(app: FastAPI, services: Services) -> None:
    """The last one is the outermost."""
    app.add_middleware(StrictJson)
    app.add_middleware(KeyFirst, services=services)
    app.add_middleware(Quick, services=services)
    app.add_middleware(Limited, limits=services.config.limits)
    if services.config.cors:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(services.config.cors),
            allow_methods=["*"],
            allow_headers=["Authorization", "Content-Type", "Last-Event-ID", "X-Blade-Client"],
            expose_headers=["Content-Disposition", "Retry-After"],
            max_age=600,
        )
    app.add_middleware(Watched, metrics=services.metrics)
