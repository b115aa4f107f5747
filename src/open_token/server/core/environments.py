"""Environment variables of tools: which are valid, and which are masked when they are read."""

import re
from collections.abc import Mapping

from open_token.server.errors import bad_request

MASK = "********"
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}", re.ASCII)
_SECRET_NAME = re.compile(
    r"KEY|TOKEN|SECRET|PASS|PWD|CREDENTIAL|AUTH|PRIVATE|COOKIE|SIGNATURE|DSN", re.IGNORECASE
)
_MAX_ENV_LENGTH = 64 << 10


def mask_environment(env: Mapping[str, str]) -> dict[str, str]:
    """Mask the values of variables whose name looks secret."""
    masked = {}
    for name, value in env.items():
        masked[name] = MASK if value and _SECRET_NAME.search(name) else value
    return masked


def validate_environment(env: Mapping[str, str]) -> Mapping[str, str]:
    """Return the variables; raise if one is not valid."""
    if any(not _ENV_NAME.fullmatch(name) for name in env):
        raise bad_request(
            "env: names must consist of letters, digits and _, and not start with a digit",
            "invalid",
        )
    if any("\0" in value for value in env.values()):
        raise bad_request("env: values must not contain NUL", "invalid")
    if sum(len(name) + len(value) for name, value in env.items()) > _MAX_ENV_LENGTH:
        raise bad_request(f"env: exceeds {_MAX_ENV_LENGTH} characters", "invalid")
    return env
