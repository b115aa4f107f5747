"""How a server is set up when nobody says anything."""

from pathlib import Path

import msgspec
import pytest

from open_token.server.config import Limits, ServerConfig


def test_nothing_is_open_by_default() -> None:
    config = ServerConfig(data=Path("x"))
    assert (config.host, config.cors, config.allow_unsandboxed) == ("127.0.0.1", (), False)
    limits = msgspec.structs.asdict(Limits())
    # What a user may store is limited where the server is told so.
    assert limits.pop("storage_per_user") is None
    assert all(value > 0 for value in limits.values())


def test_what_is_not_known_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(
            {"data": "x", "prot": 1}, ServerConfig, dec_hook=lambda kind, value: Path(value)
        )
