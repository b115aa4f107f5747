"""The errors that clients receive."""

import logging

import pytest

from open_token.errors import StoreError
from open_token.server.errors import (
    ApiError,
    bad_request,
    conflict,
    log_exception,
    not_found,
    to_api_error,
)
from open_token.server.store.interface import ConflictError, FencedError, NotFoundError


@pytest.mark.parametrize(
    ("made", "status"),
    [(not_found("key"), 404), (bad_request("no"), 422), (conflict("later"), 409)],
)
def test_each_has_its_status(made: ApiError, status: int) -> None:
    assert made.status == status
    assert made.detail
    assert made.code


@pytest.mark.parametrize(
    ("problem", "status"),
    [
        (NotFoundError("session"), 404),
        (ConflictError("gone on"), 409),
        (FencedError(), 409),
        (StoreError("the disk is full"), 503),
    ],
)
def test_failures_of_the_store(problem: StoreError, status: int) -> None:
    refused = to_api_error(problem)
    assert (refused.status, refused.detail) == (status, problem.what)


def test_the_place_and_not_the_words(caplog: pytest.LogCaptureFixture) -> None:
    try:
        raise KeyError("what the person said")
    except KeyError as problem:
        log_exception(logging.getLogger("test"), "it failed", problem)
    assert "it failed: KeyError" in caplog.text
    assert "test_errors.py" in caplog.text
    assert "the person said" not in caplog.text.replace(
        'raise KeyError("what the person said")', ""
    )
