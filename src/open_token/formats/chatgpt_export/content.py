"""Contents of messages: every content type as a text, as blocks, or as arguments of a call."""

import re
from collections.abc import Callable
from typing import Any

from open_token.builder.draft import Draft
from open_token.formats.shared.export_assets import Assets, build_asset_block
from open_token.formats.shared.fields import as_text, parse_arguments, pick_fields
from open_token.formats.shared.notes import format_kind

Body = dict[str, Any]
FILE_ID = re.compile(r"(file[-_][A-Za-z0-9]+)")
_CONTENT_TYPE = "content_type"
_CONTEXT_TEXTS = (
    "user_profile",
    "user_instructions",
    "model_set_context",
    "repository",
    "repo_summary",
    "structured_context",
)
_EMPTY: tuple[Any, ...] = (None, [], {}, "")


class ContentReader:
    """Reads contents of messages, with the files of the export that they refer to."""

    def __init__(self, draft: Draft, assets: Assets) -> None:
        self._draft = draft
        self._assets = assets

    def read_content(self, message: Body, place: str) -> str | list[Any]:
        """Return a single text as a string, else blocks; an empty string when there is nothing."""
        metadata = get_object(message, "metadata")
        blocks = self._read_blocks(get_object(message, "content"), place)
        blocks += [_text_block(text) for text in _read_instructions(metadata, blocks)]
        blocks += self._read_attachments(metadata, blocks, place)
        return _simplify_blocks(blocks)

    def read_arguments(self, message: Body, place: str) -> Any:
        """Return the arguments of a call, which is a message that is addressed to a tool."""
        content = get_object(message, "content")
        text = content.get("text")
        if content.get(_CONTENT_TYPE) != "code" or not isinstance(text, str):
            value = self.read_content(message, place)
            return parse_arguments(value) if isinstance(value, str) else value
        value = parse_arguments(text)
        if not isinstance(value, str):
            return value
        call = {"code": text}
        language = as_text(content.get("language"))
        if language and language != "unknown":
            call["language"] = language
        return call

    def read_output(self, message: Body, place: str) -> Any:
        """Return what a tool returned: a text, or blocks."""
        output = self.read_content(message, place)
        # The images that the code interpreter displayed are only in the metadata.
        result = get_object(get_object(message, "metadata"), "aggregate_result")
        images = result.get("messages")
        blocks: list[Any] = []
        for image in _only_objects(images):
            url = image.get("image_url")
            if isinstance(url, str):
                blocks.append(self._read_file(url, "image", place))
        if not blocks:
            return output
        if isinstance(output, str):
            output = [_text_block(output)] if output else []
        return output + blocks

    def _read_blocks(self, content: Body, place: str) -> list[Any]:
        kind = content.get(_CONTENT_TYPE)
        read_type = _READERS.get(kind) if isinstance(kind, str) else None
        if read_type is not None:
            return read_type(self, content, place)
        parts = content.get("parts")
        has_parts = isinstance(parts, list)
        if kind in ("text", "multimodal_text") or (kind is None and has_parts):
            if not isinstance(parts, list):
                parts = [content.get("text")]
            blocks = [self._read_part(part, place) for part in parts]
            return [block for block in blocks if block is not None]
        if not content:
            return []
        self._draft.note_omission(
            "unknown-content", place, f"content {format_kind(kind)}, preserved verbatim"
        )
        return [_typed_block(content)]

    def _read_part(self, part: Any, place: str) -> Any:
        """Return one part of a message as a block; None when it is empty."""
        if isinstance(part, str):
            return _text_block(part) if part else None
        if not isinstance(part, dict):
            return part
        kind = part.get(_CONTENT_TYPE)
        if _is_pointer(part):
            return self._read_asset(part, place)
        if kind in ("text", "audio_transcription") and isinstance(part.get("text"), str):
            return {"type": kind, **pick_fields(part, "text", "direction")}
        # Parts of voice and video calls hold pointers in their fields.
        pointers = {
            name: self._read_asset(value, place)
            for name, value in part.items()
            if _is_pointer(value)
        }
        if isinstance(kind, str) and pointers:
            return _typed_block({**part, **pointers})
        self._draft.note_omission(
            "unknown-part", place, f"part {format_kind(kind)}, preserved verbatim"
        )
        return _typed_block(part) if kind else part

    def _read_asset(self, part: Body, place: str) -> Body:
        kind = str(part.get(_CONTENT_TYPE) or "")
        kind = kind.removesuffix("_asset_pointer").removesuffix("_container") or "file"
        block = self._read_file(str(part["asset_pointer"]), kind, place)
        block |= pick_fields(part, "width", "height", "format")
        if "bytes" not in block and type(part.get("size_bytes")) is int:
            block["bytes"] = part["size_bytes"]
        metadata = {
            name: value
            for name, value in get_object(part, "metadata").items()
            if value not in (None, {}, [])
        }
        if metadata:
            block["metadata"] = metadata
        return block

    def _read_file(
        self, pointer: str, kind: str, place: str, media_type: str | None = None
    ) -> Body:
        """Return a file of the export as a block; where it is missing, a reference to it."""
        file_id = _find_file_id(pointer)
        data = self._assets.get(file_id) if file_id else None
        if data is not None:
            return build_asset_block(data, kind, media_type) | {"url": pointer}
        self._draft.note_omission(
            "missing-file",
            place,
            f"{format_kind(kind)} that is not in the export, preserved as a reference",
            what="attachment",
        )
        block: Body = {"type": kind, "url": pointer}
        if media_type:
            block["media_type"] = media_type
        return block

    def _read_attachments(self, metadata: Body, blocks: list[Any], place: str) -> list[Any]:
        """Return the attached files that are not among the parts of the message."""
        known = {_find_file_id(str(block.get("url", ""))) for block in _only_objects(blocks)}
        attachments: list[Any] = []
        for item in _only_objects(metadata.get("attachments")):
            file_id = as_text(item.get("id"))
            if file_id is None or file_id in known:
                continue
            media_type = as_text(item.get("mimeType")) or as_text(item.get("mime_type"))
            block = self._read_file(file_id, "file", place, media_type)
            block |= pick_fields(item, "name", "width", "height")
            if type(item.get("size")) is int:
                block["bytes"] = item["size"]
            attachments.append(block)
        return attachments

    def _read_screen(self, content: Body, place: str) -> list[Any]:
        """Read a screenshot of the computer that an agent used."""
        screenshot = content.get("screenshot")
        if isinstance(screenshot, dict):
            content = {**content, "screenshot": self._read_part(screenshot, place)}
        return [_typed_block(content)]


def get_object(body: Body, name: str) -> Body:
    """Return an object that a field holds, empty when it holds none."""
    value = body.get(name)
    return value if isinstance(value, dict) else {}


def _only_objects(value: Any) -> list[Body]:
    if not isinstance(value, list):
        return []
    return [item for item in value if isinstance(item, dict)]


def _find_file_id(pointer: str) -> str | None:
    match = FILE_ID.search(pointer.rpartition("//")[2])
    return match[1] if match else None


def _is_pointer(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("asset_pointer"), str)


def _text_block(text: str) -> Body:
    return {"type": "text", "text": text}


def _typed_block(content: Body) -> Body:
    """Return a content as a block of its own type, without empty fields."""
    block = {"type": content.get(_CONTENT_TYPE)}
    for name, value in content.items():
        if name != _CONTENT_TYPE and value is not None:
            block[name] = value
    return block


def _simplify_blocks(blocks: list[Any]) -> str | list[Any]:
    if not blocks:
        return ""
    first = blocks[0]
    if len(blocks) == 1 and isinstance(first, dict) and first.keys() == {"type", "text"}:
        return str(first["text"])
    return blocks


def _read_instructions(metadata: Body, blocks: list[Any]) -> list[str]:
    """Return custom instructions that the content lacks: older exports have them as metadata."""
    data = get_object(metadata, "user_context_message_data")
    if not data:
        return []
    known = "\n".join(str(block.get("text", "")) for block in _only_objects(blocks))
    texts = [as_text(data.get(name)) for name in ("about_user_message", "about_model_message")]
    return [text for text in texts if text and text not in known]


_ReadType = Callable[[ContentReader, Body, str], list[Any]]


def _make_text_reader(*names: str) -> _ReadType:
    """Return a reader of contents with texts under these names; other fields are preserved."""

    def read_texts(_: ContentReader, content: Body, __: str) -> list[Any]:
        blocks: list[Any] = []
        rest: Body = {}
        for name in names:
            text = as_text(content.get(name))
            if text:
                blocks.append(_text_block(text))
        for name, value in content.items():
            is_text = name in names and isinstance(value, str)
            if name != _CONTENT_TYPE and not is_text and value not in _EMPTY:
                rest[name] = value
        if rest:
            blocks.append({"type": content[_CONTENT_TYPE], **rest})
        return blocks

    return read_texts


def _read_code(_: ContentReader, content: Body, __: str) -> list[Any]:
    return [_typed_block(content)] if as_text(content.get("text")) else []


def _read_browsing_display(_: ContentReader, content: Body, __: str) -> list[Any]:
    """Read what browsing displayed; an empty one is written for every uploaded file."""
    texts = {name: content[name] for name in ("result", "summary") if as_text(content.get(name))}
    if len(texts) == 2:
        return [{"type": "tether_browsing_display", **texts}]
    return [_text_block(text) for text in texts.values()]


def _read_quote(_: ContentReader, content: Body, __: str) -> list[Any]:
    return [_typed_block(content)]


_READERS: dict[str, _ReadType] = {
    "code": _read_code,
    "execution_output": _make_text_reader("text"),
    "system_error": _make_text_reader("name", "text"),
    "user_editable_context": _make_text_reader(*_CONTEXT_TEXTS),
    "model_editable_context": _make_text_reader(*_CONTEXT_TEXTS),
    "tether_browsing_code": _make_text_reader("text"),
    "tether_browsing_display": _read_browsing_display,
    "tether_quote": _read_quote,
    "sonic_webpage": _read_quote,
    "computer_output": ContentReader._read_screen,
}
