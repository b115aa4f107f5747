"""Which sessions were made from a template: a database narrows by bytes, and the body decides."""

from typing import Any

import msgspec

_KEY = b'"template_id":'
_decode = msgspec.json.Decoder(dict[str, Any]).decode


def needle(prefix: str) -> bytes:
    """Bytes that the body of every session has whose template begins so; others may have them,
    too."""
    return _KEY + msgspec.json.encode(prefix)[:-1]


def is_made_from(body: bytes, prefix: str) -> bool:
    """Whether the template of a session begins so."""
    name = _decode(body).get("template_id")
    return isinstance(name, str) and name.startswith(prefix)
