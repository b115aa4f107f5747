"""What the messages of a ChatGPT export hold: every content type as a text, as blocks, or as
arguments of a call."""

import re
from collections.abc import Callable
from typing import Any

from open_token.builder.draft import Draft
from open_token.formats.shared.export_assets import Assets, build_media_block
from open_token.formats.shared.fields import as_text, parse_arguments, pick_fields
from open_token.formats.shared.notes import format_kind

Body = dict[str, Any]
ASSET = re.compile(r"(file[-_][A-Za-z0-9]+)")
_CONTEXT = (
    "user_profile",
    "user_instructions",
    "model_set_context",
    "repository",
    "repo_summary",
    "structured_context",
)
_TYPED = "content_type"


class Contents:
    """Turns the content of messages into what a draft takes; files of the export are put in."""

    def __init__(self, draft: Draft, assets: Assets) -> None:
        self._draft = draft
        self._assets = assets

    def said(self, message: Body, place: str) -> str | list[Any]:
        """What a message says: a text when it is one, else its blocks; empty when there is
        nothing."""
        content, metadata = _body(message.get("content")), _body(message.get("metadata"))
        blocks = self._blocks(content, place)
        blocks += [{"type": "text", "text": text} for text in _instructions(metadata, blocks)]
        return _simple(blocks + self._attached(metadata, blocks, place))

    def _blocks(self, content: Body, place: str) -> list[Any]:
        kind = content.get(_TYPED)
        tell = _KINDS.get(kind) if isinstance(kind, str) else None
        if tell is not None:
            return tell(self, content, place)
        parts = content.get("parts")
        if kind in ("text", "multimodal_text") or (kind is None and isinstance(parts, list)):
            given = parts if isinstance(parts, list) else [content.get("text")]
            return [block for part in given if (block := self._part(part, place)) is not None]
        if not content:
            return []
        self._draft.note_omission(
            "unknown-content", place, f"content {format_kind(kind)}, kept as it is"
        )
        return [_typed(content)]

    def _part(self, part: Any, place: str) -> Any:
        """One part of a message; None when it says nothing."""
        if isinstance(part, str):
            return {"type": "text", "text": part} if part else None
        if not isinstance(part, dict):
            return part
        kind = part.get(_TYPED)
        if _is_pointer(part):
            return self._asset(part, place)
        if kind in ("text", "audio_transcription") and isinstance(part.get("text"), str):
            return {"type": kind, **pick_fields(part, "text", "direction")}
        inner = {
            name: self._asset(value, place) for name, value in part.items() if _is_pointer(value)
        }
        if isinstance(kind, str) and inner:
            # Voice and video calls: pointers inside an object.
            return _typed({**part, **inner})
        self._draft.note_omission("unknown-part", place, f"part {format_kind(kind)}, kept as it is")
        return _typed(part) if kind else part

    def _asset(self, part: Body, place: str) -> Body:
        kind = (
            str(part.get(_TYPED) or "").removesuffix("_asset_pointer").removesuffix("_container")
            or "file"
        )
        about = {
            name: value
            for name, value in _body(part.get("metadata")).items()
            if value not in (None, {}, [])
        }
        block = self.file(str(part["asset_pointer"]), kind, place) | pick_fields(
            part, "width", "height", "format"
        )
        if "bytes" not in block and type(part.get("size_bytes")) is int:
            block["bytes"] = part["size_bytes"]
        return block | ({"metadata": about} if about else {})

    def file(self, pointer: str, kind: str, place: str, media_type: str | None = None) -> Body:
        """A file of the export as a block; where it is missing, what points at it."""
        found = ASSET.search(pointer.rpartition("//")[2])
        data = self._assets.get(found[1]) if found else None
        if data is None:
            self._draft.note_omission(
                "missing-file",
                place,
                f"{format_kind(kind)} that is not in the export, kept as a reference",
            )
            block: Body = {"type": kind, "url": pointer}
            return block | ({"media_type": media_type} if media_type else {})
        return build_media_block(data, kind, media_type) | {"url": pointer}

    def _attached(self, metadata: Body, blocks: list[Any], place: str) -> list[Any]:
        """Files that were attached to a message, but for those that stand among its parts."""
        shown = {
            found[1] for block in blocks if isinstance(block, dict) and (found := _pointed(block))
        }
        made = []
        given = metadata.get("attachments")
        for item in given if isinstance(given, list) else ():
            key = as_text(item.get("id")) if isinstance(item, dict) else None
            if key is None or key in shown:
                continue
            media_type = as_text(item.get("mimeType")) or as_text(item.get("mime_type"))
            block = self.file(key, "file", place, media_type) | pick_fields(
                item, "name", "width", "height"
            )
            made.append(block | ({"bytes": item["size"]} if type(item.get("size")) is int else {}))
        return made

    def given(self, message: Body, place: str) -> Any:
        """The arguments of a call, which a message with a tool as its recipient is."""
        content = _body(message.get("content"))
        text, kind = content.get("text"), content.get(_TYPED)
        if kind == "code" and isinstance(text, str):
            value = parse_arguments(text)
            language = as_text(content.get("language"))
            if not isinstance(value, str):
                return value
            return {"code": text} | (
                {"language": language} if language and language != "unknown" else {}
            )
        said = self.said(message, place)
        return parse_arguments(said) if isinstance(said, str) else said

    def output(self, message: Body, place: str) -> Any:
        """What a tool gave back: a text, or blocks."""
        said = self.said(message, place)
        pictures = _body(_body(message.get("metadata")).get("aggregate_result")).get("messages")
        blocks = [
            self.file(item["image_url"], "image", place)
            for item in (pictures if isinstance(pictures, list) else ())
            if isinstance(item, dict) and isinstance(item.get("image_url"), str)
        ]
        if not blocks:
            return said
        return [
            *([{"type": "text", "text": said}] if isinstance(said, str) and said else said),
            *blocks,
        ]


def _body(value: Any) -> Body:
    return value if isinstance(value, dict) else {}


def _is_pointer(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("asset_pointer"), str)


def _typed(content: Body) -> Body:
    """An object under its own type, without what says nothing."""
    rest = {name: value for name, value in content.items() if name != _TYPED and value is not None}
    return {"type": content.get(_TYPED), **rest}


def _simple(blocks: list[Any]) -> str | list[Any]:
    if not blocks:
        return ""
    only = blocks[0] if len(blocks) == 1 else None
    return (
        str(only["text"]) if isinstance(only, dict) and only.keys() == {"type", "text"} else blocks
    )


def _pointed(block: Body) -> re.Match[str] | None:
    return ASSET.search(str(block.get("url", "")).rpartition("//")[2])


def _texts(*names: str) -> Callable[[Contents, Body, str], list[Any]]:
    """A content that is texts under these names; should there be more, it stays as it is."""

    def tell(_: Contents, content: Body, __: str) -> list[Any]:
        texts = [
            {"type": "text", "text": text} for name in names if (text := as_text(content.get(name)))
        ]
        told = {_TYPED, *(name for name in names if isinstance(content.get(name), str))}
        rest = {
            name: value
            for name, value in content.items()
            if name not in told and value not in (None, [], {}, "")
        }
        return texts + ([_typed({_TYPED: content[_TYPED], **rest})] if rest else [])

    return tell


def _code(_: Contents, content: Body, __: str) -> list[Any]:
    return [_typed(content)] if as_text(content.get("text")) else []


def _display(_: Contents, content: Body, __: str) -> list[Any]:
    """What browsing showed; an empty one is written for every uploaded file."""
    shown = {name: content[name] for name in ("result", "summary") if as_text(content.get(name))}
    if len(shown) == 2:
        return [{"type": "tether_browsing_display", **shown}]
    return [{"type": "text", "text": text} for text in shown.values()]


def _quote(_: Contents, content: Body, __: str) -> list[Any]:
    return [_typed(content)]


def _screen(contents: Contents, content: Body, place: str) -> list[Any]:
    """What an agent's computer showed."""
    shot = content.get("screenshot")
    return [
        _typed(
            {**content, "screenshot": contents._part(shot, place)}
            if isinstance(shot, dict)
            else content
        )
    ]


def _instructions(metadata: Body, blocks: list[Any]) -> list[str]:
    """Custom instructions in the metadata that the content does not say: older exports have them
    only there."""
    given = _body(metadata.get("user_context_message_data"))
    told = "\n".join(str(block.get("text", "")) for block in blocks if isinstance(block, dict))
    texts = [as_text(given.get(name)) for name in ("about_user_message", "about_model_message")]
    return [text for text in texts if text and text not in told]


_KINDS: dict[str, Callable[[Contents, Body, str], list[Any]]] = {
    "code": _code,
    "execution_output": _texts("text"),
    "system_error": _texts("name", "text"),
    "user_editable_context": _texts(*_CONTEXT),
    "model_editable_context": _texts(*_CONTEXT),
    "tether_browsing_code": _texts("text"),
    "tether_browsing_display": _display,
    "tether_quote": _quote,
    "sonic_webpage": _quote,
    "computer_output": _screen,
}
