"""Read session files of Kiro CLI: one event a line, with facts about the session in a file beside.

An event is `{"kind": "Prompt", "data": {"content": [...]}}`; its parts have the same two fields.
"""

import binascii
from pathlib import PurePath
from typing import Any

from open_token.builder.draft import Draft
from open_token.errors import InputError
from open_token.formats.shared.fields import (
    JsonObject,
    as_dicts,
    get_dict,
    get_text,
    parse_arguments,
    pick_fields,
)
from open_token.formats.shared.notes import format_kind
from open_token.jsontools.media import build_media_block
from open_token.jsontools.timestamps import from_epoch, to_utc
from open_token.sources.source import Source

_KINDS = ("Prompt", "AssistantMessage", "ToolResults")


class EventLogReader:
    """Reads one session file."""

    def __init__(self, source: Source, draft: Draft) -> None:
        self._source = source
        self._draft = draft
        self._person = draft.get_actor("human", "user")
        self._client = draft.get_actor("system", "Kiro CLI")
        self._model = ""

    def read(self) -> None:
        """Read everything into the draft."""
        self._read_facts(self._open_facts())
        for number, record in self._source.records():
            place = f"line {number}"
            kind = get_text(record, "kind")
            if kind in _KINDS:
                self._read_event(kind, get_dict(record, "data"), place)
            else:
                detail = f"an event {format_kind(kind)}"
                self._draft.note_omission("unknown-record", place, detail)

    def _open_facts(self) -> JsonObject:
        """Return what the file beside the session says about all of it."""
        name = f"{PurePath(self._source.name).name.removesuffix('.jsonl')}.json"
        file = self._source.open_sibling(name)
        try:
            facts = file.document if file else {}
        except InputError:
            self._draft.note_omission("broken-file", name, "facts that are not JSON")
            return {}
        return facts if isinstance(facts, dict) else {}

    def _read_facts(self, facts: JsonObject) -> None:
        conversation = self._draft.conversation
        conversation["source_runtime"] = "cli"
        stem = PurePath(self._source.name).name.removesuffix(".jsonl")
        conversation["id"] = get_text(facts, "session_id") or stem
        title = get_text(facts, "title")
        if title:
            conversation["title"] = title
        started = to_utc(facts.get("created_at"))
        if started:
            conversation["started_at"] = started
        state = get_dict(get_dict(facts, "session_state"), "rts_model_state")
        model = get_text(get_dict(state, "model_info"), "model_id")
        self._model = self._draft.get_actor("model", "assistant", model=model)
        context = pick_fields(facts, "cwd", "parent_session_id")
        if context:
            self._draft.add_annotation({"kind": "context", **context}, ts=started)

    def _read_event(self, kind: str, data: JsonObject, place: str) -> None:
        ts = from_epoch(get_dict(data, "meta").get("timestamp"))
        blocks: list[Any] = []
        for part in as_dicts(data.get("content")):
            value = part.get("data")
            part_kind = part.get("kind")
            if part_kind == "text" and isinstance(value, str):
                if value.strip():
                    blocks.append({"type": "text", "text": value})
            elif part_kind == "image" and isinstance(value, dict):
                blocks.append(_build_image(value))
            elif part_kind == "toolUse" and isinstance(value, dict):
                self._add_message(kind, blocks, ts)
                blocks = []
                self._read_call(value, ts)
            elif part_kind == "toolResult" and isinstance(value, dict):
                self._read_result(value, ts)
            else:
                detail = f"a part {format_kind(part_kind)} of an event"
                self._draft.note_omission("unknown-part", place, detail)
        self._add_message(kind, blocks, ts)

    def _add_message(self, kind: str, blocks: list[Any], ts: str | None) -> None:
        if not blocks:
            return
        is_text = len(blocks) == 1 and blocks[0]["type"] == "text"
        content = blocks[0]["text"] if is_text else blocks
        if kind == "AssistantMessage":
            self._draft.add_message("assistant", content, self._model, ts=ts)
        elif kind == "Prompt":
            self._draft.add_message("user", content, self._person, ts=ts)
        else:
            # Words beside the results of tools are the client's.
            self._draft.add_message("user", content, self._client, ts=ts, visibility="internal")

    def _read_call(self, call: JsonObject, ts: str | None) -> None:
        self._draft.add_tool_call(
            get_text(call, "toolUseId"),
            get_text(call, "name") or "tool",
            parse_arguments(call.get("input")),
            self._model,
            ts=ts,
        )

    def _read_result(self, result: JsonObject, ts: str | None) -> None:
        outputs = [_read_output(part) for part in as_dicts(result.get("content"))]
        output: Any = outputs[0] if len(outputs) == 1 else outputs
        facts = {"is_error": True} if result.get("status") == "error" else None
        call_id = get_text(result, "toolUseId")
        self._draft.add_tool_result(call_id, output, facts=facts, ts=ts)


def _read_output(part: JsonObject) -> Any:
    """Return the output in a part of a result: a text, a value or an image."""
    value = part.get("data")
    if part.get("kind") == "image" and isinstance(value, dict):
        return _build_image(value)
    return part if value is None else value


def _build_image(image: JsonObject) -> JsonObject:
    """Return a block for an image, whose bytes are base64 or a list of numbers."""
    source = get_dict(image, "source")
    data = source.get("data")
    form = get_text(image, "format") or "png"
    numbers = data if isinstance(data, list) else None
    if numbers and all(type(number) is int and 0 <= number < 256 for number in numbers):
        data = binascii.b2a_base64(bytes(numbers), newline=False).decode()
    if not isinstance(data, str):
        return {"type": "image", "value": image}
    return build_media_block(f"image/{form}", data, "image")
