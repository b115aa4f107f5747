"""Media blocks."""

import base64
import hashlib

from open_token.jsontools.media import build_media_block, build_media_url_block

RAW = b"\x89PNG not really"
DATA = base64.b64encode(RAW).decode()


def test_base64_is_replaced_by_size_and_hash() -> None:
    block = build_media_block("image/png", DATA, "image")
    assert block == {
        "type": "image",
        "media_type": "image/png",
        "encoding": "base64",
        "bytes": len(RAW),
        "sha256": hashlib.sha256(RAW).hexdigest(),
        "base64": DATA,
    }


def test_what_is_not_base64_is_kept() -> None:
    assert build_media_block(None, "é?") == {"encoding": "base64", "base64": "é?"}


def test_addresses() -> None:
    assert build_media_url_block(f"data:image/png;base64,{DATA}", "image") == build_media_block(
        "image/png", DATA, "image"
    )
    assert build_media_url_block("https://example.com/a.png", "image") == {
        "type": "image",
        "url": "https://example.com/a.png",
    }
