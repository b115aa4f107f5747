"""How an image, a sound or a file stands in the record: its type, size, hash and bytes."""

import binascii
import hashlib
from typing import Any


def media(media_type: str | None, data: str, kind: str | None = None) -> dict[str, Any]:
    """A block for base64 data; data that is not base64 is kept as it is, without size and hash."""
    block: dict[str, Any] = {"type": kind} if kind else {}
    if media_type:
        block["media_type"] = media_type
    block["encoding"] = "base64"
    try:
        raw = binascii.a2b_base64(data, strict_mode=False)
    except (binascii.Error, ValueError):
        return block | {"base64": data}
    return block | {"bytes": len(raw), "sha256": hashlib.sha256(raw).hexdigest(), "base64": data}


def media_url(url: str, kind: str) -> dict[str, Any]:
    """A block for a `data:` address, unpacked, or for any other address, kept as a reference."""
    head, comma, data = url.partition(",")
    if head.startswith("data:") and comma and head.endswith(";base64"):
        return media(head[5:-7] or None, data, kind)
    return {"type": kind, "url": url}
