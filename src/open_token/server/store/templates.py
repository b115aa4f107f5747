"""Find the sessions that were made from a template.

The database narrows the search by bytes of the body, and the parsed body decides.
"""

from typing import Any

import msgspec

_KEY = b'"template_id":'
_decode = msgspec.json.Decoder(dict[str, Any]).decode


def template_needle(prefix: str) -> bytes:
    """Return bytes that occur in the body of every session whose template has the prefix."""
    return _KEY + msgspec.json.encode(prefix)[:-1]


def matches_template(body: bytes, prefix: str) -> bool:
    """Return whether the template of a session has the prefix."""
    template = _decode(body).get("template_id")
    return isinstance(template, str) and template.startswith(prefix)
