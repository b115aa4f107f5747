"""What a client is told when it cannot have something."""

import pytest

from open_token.errors import StoreError
from open_token.server.refusals import Refused, bad, busy, missing, refusal_of
from open_token.server.store.interface import ConflictError, FencedError, NotFoundError


@pytest.mark.parametrize(
    ("made", "status"), [(missing("key"), 404), (bad("no"), 422), (busy("later"), 409)]
)
def test_each_has_its_status(made: Refused, status: int) -> None:
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
    refused = refusal_of(problem)
    assert (refused.status, refused.detail) == (status, problem.what)
