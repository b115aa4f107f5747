"""The parts of a message: text, images by address, and files, inline or in the workspace."""

import base64
import binascii
from typing import Any

from msgspec import Struct

from open_token.model.log_events import Json
from open_token.server.errors import ApiError, bad_request

_REFERENCE_FIELDS = {"bytes", "sha256"}
"""Fields of a stored file, which a client may send back."""
_NAME_FIELDS = ("name", "filename")
_DATA_FIELDS = ("data", "file_data", "url")
_TYPE_FIELDS = ("media_type", "mime_type")
_FILE_FIELDS = {"path", "detail", *_NAME_FIELDS, *_DATA_FIELDS, *_TYPE_FIELDS, *_REFERENCE_FIELDS}
_IMAGE_FIELDS = {"url", "detail"}
_DETAILS = ("auto", "low", "high")


class FilePart(Struct, frozen=True, kw_only=True):
    """A file of a message: its content inline, or a path in the workspace."""

    name: str = ""
    path: str = ""
    data: str = ""
    """Base64, or a `data:` URL."""
    media_type: str = ""
    sha256: str = ""
    detail: str = ""
    """How closely a model is to look at an image."""


def find_part_fault(part: Json) -> str | None:
    """Return what is wrong with a part, in words without its content."""
    kind = part.get("type")
    if kind == "text":
        unknown = _find_unknown(part, {"type", "text"})
        if unknown is not None:
            return unknown
        return None if isinstance(part.get("text"), str) else "text must be a string"
    if kind == "image_url":
        return _find_image_fault(part)
    if kind == "file":
        return _find_file_fault(part)
    return "type must be text, image_url or file"


def _find_image_fault(part: Json) -> str | None:
    image = part.get("image_url")
    fields = image if isinstance(image, dict) else {"url": image}
    unknown = _find_unknown(part, {"type", "image_url"}) or _find_unknown(fields, _IMAGE_FIELDS)
    if unknown is not None:
        return unknown
    url = fields.get("url")
    if not isinstance(url, str) or not url.startswith(("https:", "http:", "data:image/")):
        return "image_url.url must be an http(s) URL or a data: URL of an image"
    return _find_detail_fault(fields)


def _find_file_fault(part: Json) -> str | None:
    file = part.get("file", part)
    if isinstance(file, str):
        file = {"path": file}
    elif not isinstance(file, dict):
        return "file must be an object or a path"
    if file is not part:
        unknown = _find_unknown(part, {"type", "file"}) or _find_unknown(file, _FILE_FIELDS)
    else:
        unknown = _find_unknown(part, {"type", *_FILE_FIELDS})
    if unknown is not None:
        return unknown
    for name in _FILE_FIELDS - {"bytes"}:
        if not isinstance(file.get(name, ""), str):
            return f"{name} must be a string"
    sources = [name for name in ("path", *_DATA_FIELDS) if file.get(name)]
    is_stored = not sources and bool(file.get("sha256"))
    if len(sources) != 1 and not is_stored:
        return "a file needs either data or the path of an uploaded file"
    if file.get("url") and not file["url"].startswith("data:"):
        return "url must be a data: URL; the server fetches no files"
    return _find_detail_fault(file)


def _find_unknown(fields: Json, known: set[str]) -> str | None:
    for name in fields:
        if name not in known:
            return f"unknown field {str(name)[:40]}"
    return None


def _find_detail_fault(fields: Json) -> str | None:
    if fields.get("detail", "auto") not in _DETAILS:
        return f"detail must be one of {', '.join(_DETAILS)}"
    return None


def parse_file_part(part: Json) -> FilePart | None:
    """Return the file of a valid part; None for text, and for an image that has an address."""
    kind = part["type"]
    if kind == "image_url":
        image = part["image_url"]
        fields = image if isinstance(image, dict) else {"url": image}
        if not fields["url"].startswith("data:"):
            return None
        return FilePart(data=fields["url"], detail=fields.get("detail", ""))
    if kind != "file":
        return None
    file = part.get("file", part)
    if isinstance(file, str):
        return FilePart(path=file)
    return FilePart(
        name=_get_first(file, _NAME_FIELDS),
        path=file.get("path", ""),
        data=_get_first(file, _DATA_FIELDS),
        media_type=_get_first(file, _TYPE_FIELDS),
        sha256=file.get("sha256", ""),
        detail=file.get("detail", ""),
    )


def _get_first(fields: Json, names: tuple[str, ...]) -> str:
    for name in names:
        if fields.get(name):
            return str(fields[name])
    return ""


def decode_file_data(text: str) -> tuple[bytes, str]:
    """Return the bytes of base64 or of a `data:` URL, and the media type of the latter."""
    media_type = ""
    if text.startswith("data:"):
        head, separator, text = text.partition(",")
        if not separator or not head.endswith(";base64"):
            raise bad_request("a data: URL of a file must be base64", "bad_attachment")
        media_type = head.removeprefix("data:").partition(";")[0]
    try:
        return base64.b64decode(text, validate=True), media_type
    except (binascii.Error, ValueError):
        raise bad_request("the data of a file must be base64", "bad_attachment") from None


def list_blobs(parts: Any) -> list[str]:
    """Return the hashes of the files in a stored message."""
    if not isinstance(parts, list):
        return []
    return [part["sha256"] for part in parts if isinstance(part, dict) and "sha256" in part]


def to_too_large(limit: int) -> ApiError:
    """Return the error of a message whose files are too large."""
    return ApiError(
        413,
        f"the files of a message exceed {limit} bytes; upload a larger one to the workspace and "
        "name it in the text, for the tools of the agent",
        "too_large",
    )
