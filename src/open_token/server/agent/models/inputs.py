"""What models take besides text: images and PDF documents."""

import mimetypes
from typing import Literal

from open_token.model.agent_settings import AgentSettings
from open_token.server.config import ServerConfig

FileKind = Literal["text", "image", "pdf"]

PDF = "application/pdf"
_IMAGE_SIGNATURES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
}
_TEXT_ONLY = ("gpt-3.5", "gpt-4-", "o1-mini", "o1-preview", "o3-mini")
"""Older models of OpenAI; the names of those that see begin otherwise."""
_SEEING = ("gpt-4-turbo",)
_ANTHROPIC_IMAGE_BYTES = (5 << 20) * 3 // 4
"""The provider allows 5 MiB of base64."""


def detect_image(start: bytes) -> str | None:
    """Return the media type of an image that models take, by its first bytes."""
    if start.startswith(b"RIFF") and start[8:12] == b"WEBP":
        return "image/webp"
    for signature, media_type in _IMAGE_SIGNATURES.items():
        if start.startswith(signature):
            return media_type
    return None


def detect_media_type(data: bytes, name: str, declared: str) -> str | None:
    """Return the media type of a file by its content; None if no model can be shown it.

    The declared type and the name only tell one text from another."""
    image = detect_image(data[:16])
    if image is not None:
        return image
    if data.startswith(b"%PDF-"):
        return PDF
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    if "\0" in text:
        return None
    media_type = declared or mimetypes.guess_type(name, strict=False)[0] or "text/plain"
    # A text that claims to be an image or a document must not be sent as one.
    return "text/plain" if get_file_kind(media_type) != "text" else media_type


def get_file_kind(media_type: str) -> FileKind:
    """Return how a model is shown a file of a media type."""
    if media_type.startswith("image/"):
        return "image"
    return "pdf" if media_type == PDF else "text"


def list_accepted(model: str, settings: AgentSettings, config: ServerConfig) -> frozenset[str]:
    """Return what a model takes besides text: as set, or as far as it is known."""
    if settings.accepts is not None:
        return frozenset(settings.accepts)
    provider, _, name = model.partition(":")
    if provider == "openai" and config.base_url is not None:
        # The protocol has images; few compatible services take documents.
        return frozenset(("image",))
    is_text_only = name.startswith(_TEXT_ONLY) and not name.startswith(_SEEING)
    if provider == "openai" and is_text_only:
        return frozenset()
    return frozenset(("image", "pdf"))


def find_size_limit(model: str, kind: FileKind) -> int | None:
    """Return the largest file of a kind that a provider takes, where that is known."""
    if kind == "image" and model.startswith("anthropic:"):
        return _ANTHROPIC_IMAGE_BYTES
    return None
