"""Faults in the log: the place, not the words."""

import logging

import pytest

from open_token.server.faults import log_fault


def test_the_place_and_not_the_words(caplog: pytest.LogCaptureFixture) -> None:
    try:
        raise KeyError("what the person said")
    except KeyError as problem:
        log_fault(logging.getLogger("test"), "it failed", problem)
    assert "it failed: KeyError" in caplog.text
    assert "test_faults.py" in caplog.text
    assert "the person said" not in caplog.text.replace(
        'raise KeyError("what the person said")', ""
    )
