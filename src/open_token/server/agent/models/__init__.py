"""The models that a server offers."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from open_token.server.config import ServerConfig


class Catalogue(Struct):
    """What there is to choose from."""

    default: str
    offered: list[dict[str, Any]]


def catalogue(config: ServerConfig, env: Mapping[str, str]) -> Catalogue:
    """The models of a server."""
    name = config.model or "demo"
    return Catalogue(name, [{"id": name, "name": name, "label": name}])
