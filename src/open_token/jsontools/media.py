"""Content blocks for images, audio and files: media type, size, hash and data."""

import binascii
import hashlib
from typing import Any


def build_media_block(media_type: str | None, data: str, kind: str | None = None) -> dict[str, Any]:
    """Return a block for base64 data; data that is not base64 is kept without size and hash."""
    block: dict[str, Any] = {}
    if kind:
        block["type"] = kind
    if media_type:
        block["media_type"] = media_type
    block["encoding"] = "base64"
    try:
        raw = binascii.a2b_base64(data, strict_mode=False)
    except (binascii.Error, ValueError):
        return {**block, "base64": data}
    sha256 = hashlib.sha256(raw).hexdigest()
    return {**block, "bytes": len(raw), "sha256": sha256, "base64": data}


def build_media_url_block(url: str, kind: str) -> dict[str, Any]:
    """Return a block for a URL; the data of a `data:` URL is unpacked."""
    head, comma, data = url.partition(",")
    if head.startswith("data:") and comma and head.endswith(";base64"):
        media_type = head.removeprefix("data:").removesuffix(";base64")
        return build_media_block(media_type or None, data, kind)
    return {"type": kind, "url": url}
