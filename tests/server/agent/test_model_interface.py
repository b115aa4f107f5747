"""What a model is to the loop."""

import pytest

from open_token.server.agent.model_interface import ModelError


@pytest.mark.parametrize(
    ("kind", "passes"), [("rate", True), ("timeout", True), ("server", True), ("auth", False)]
)
def test_which_faults_may_pass(kind: str, passes: bool) -> None:
    fault = ModelError("words", kind, 3.0)  # type: ignore[arg-type]
    assert (fault.is_transient, str(fault), fault.retry_after) == (passes, "words", 3.0)
