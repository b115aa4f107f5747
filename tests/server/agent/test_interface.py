"""What a model's failure means."""

import pytest

from open_token.server.agent.interface import ModelFault


@pytest.mark.parametrize(
    ("kind", "passes"), [("rate", True), ("timeout", True), ("server", True), ("auth", False), ("context", False)]
)
def test_which_faults_pass(kind: str, passes: bool) -> None:
    assert ModelFault("no", kind).is_passing is passes  # type: ignore[arg-type]
