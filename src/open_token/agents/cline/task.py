"""Read a task of Cline from all its files, whichever of them was opened."""

import re
from typing import Any

from open_token.agents.cline.api_messages import ApiMessageReader
from open_token.agents.cline.detect import API_FILE, UI_FILE, is_metadata_file, is_ui_file
from open_token.agents.cline.ui_messages import (
    PanelIndex,
    PanelReader,
    get_kind,
    parse_request_usage,
)
from open_token.builder.draft import Draft
from open_token.errors import InputError
from open_token.formats.shared.anthropic_blocks import parse_content
from open_token.formats.shared.fields import as_text, drop_nulls, parse_arguments
from open_token.formats.shared.notes import format_kind, note_file_faults
from open_token.jsontools.timestamps import from_epoch
from open_token.jsontools.walk import iter_strings
from open_token.sources.source import Source

_EPOCH_MS = re.compile(r"\d{13}")
# The folder of a task has a time, a ULID or a UUID as its name.
_TASK_ID = re.compile(r"\d{13}|[0-9A-HJKMNP-TV-Z]{26}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_ENVIRONMENT_FIELDS = {
    "os_name": "os",
    "host_name": "host",
    "host_version": "host_version",
    "cline_version": "version",
}


class TaskReader:
    """Reads a task."""

    def __init__(self, source: Source, draft: Draft) -> None:
        self._source = source
        self._draft = draft
        self._client = draft.get_actor("system", "Cline")
        self._opened_file = ""
        """Which of the files of the task the source is."""
        if source.shape != "folder" and not is_metadata_file(source):
            self._opened_file = UI_FILE if is_ui_file(source) else API_FILE

    def read(self) -> None:
        """Read the task into the draft."""
        messages = self._read_list(API_FILE)
        items = self._read_list(UI_FILE)
        if not messages and not items:
            raise InputError(
                "the messages of this task are not in the input",
                where=self._source.name,
                help=f"name the task's folder, or {API_FILE} in it",
                code="input.no-events",
            )
        self._read_context(messages, items)
        if messages:
            self._read_messages(messages, items)
        else:
            PanelReader(self._draft, self._client).read(items)

    def _find_file(self, name: str) -> Source | None:
        if self._source.shape == "folder":
            return next(iter(self._source.find_files(name)), None)
        return self._source.open_sibling(name)

    def _read_list(self, name: str) -> list[Any]:
        """Return the items of a file of the task."""
        if name == self._opened_file:
            return [item for _, item in self._source.records()]
        value = self._read_file(name)
        return value if isinstance(value, list) else []

    def _read_file(self, name: str) -> Any:
        file = self._find_file(name)
        if file is None:
            return None
        try:
            value = file.document
        except InputError:
            self._draft.note_omission("unreadable-part", name, "unreadable file of the task")
            return None
        note_file_faults(file, name, self._draft)
        return value

    def _read_context(self, messages: list[Any], items: list[Any]) -> None:
        """Read what the task is and where it ran."""
        conversation = self._draft.conversation
        folder = self._source.path
        if folder is not None and self._source.shape != "folder":
            folder = folder.parent
        folder_id = None
        if folder is not None and _TASK_ID.fullmatch(folder.name):
            folder_id = folder.name
        history_item = self._read_file("history_item.json")
        if not isinstance(history_item, dict):
            history_item = {}
        task_id = as_text(history_item.get("id")) or folder_id
        if task_id:
            conversation["id"] = task_id
        if folder_id and _EPOCH_MS.fullmatch(folder_id):
            started_at = from_epoch(int(folder_id), 0.001)
        else:
            started_at = _get_first_time(items) or _get_first_time(messages)
        if started_at:
            conversation["started_at"] = started_at
        environment = self._read_environment()
        host = environment.get("host", "")
        # The same task files are written by editors and by the command line.
        conversation["source_runtime"] = "cli" if "cli" in host.lower() else "ide"
        facts = {
            **environment,
            "cwd": as_text(history_item.get("workspace")),
            "mode": as_text(history_item.get("mode")),
        }
        data = drop_nulls(facts)
        if data:
            self._draft.add_annotation(
                {"kind": "context", **data}, actor=self._client, ts=started_at
            )

    def _read_environment(self) -> dict[str, str]:
        """Return what the metadata says about the client and its host."""
        metadata = self._read_file("task_metadata.json")
        if not isinstance(metadata, dict):
            return {}
        if metadata.get("files_in_context"):
            self._draft.note_omission("bookkeeping", "task_metadata.json", "the files in context")
        history = metadata.get("environment_history")
        if not history:
            return {}
        facts: dict[str, str] = {}
        if isinstance(history, list) and isinstance(history[-1], dict):
            for key, name in _ENVIRONMENT_FIELDS.items():
                value = as_text(history[-1].get(key))
                if value:
                    facts[name] = value
        if not facts:
            self._draft.note_omission(
                "unknown-record", "task_metadata.json", "environment without a description"
            )
        return facts

    def _read_messages(self, messages: list[Any], items: list[Any]) -> None:
        roles = [item.get("role") if isinstance(item, dict) else None for item in messages]
        panel = PanelIndex(items, roles)
        reader = ApiMessageReader(self._draft, self._client, panel.typed)
        for index, message in enumerate(messages):
            self._add_broken_requests(panel, index, messages, reader)
            self._add_notices(panel, index)
            if not isinstance(message, dict):
                self._draft.note_omission(
                    "skipped-record", f"message {index}", "message that is not an object"
                )
                continue
            self._read_message(message, index, panel, reader)
        for index in sorted({*panel.notices, *panel.broken_requests}):
            if index >= len(messages):
                self._add_broken_requests(panel, index, messages, reader)
                self._add_notices(panel, index)
        for kind, count in panel.other_kinds.items():
            for _ in range(count):
                self._draft.note_omission("panel-only", UI_FILE, f"item {kind}")
        reader.providers.set_provider(self._draft.conversation)

    def _add_broken_requests(
        self, panel: PanelIndex, index: int, messages: list[Any], reader: ApiMessageReader
    ) -> None:
        """Add what the panel showed of responses that broke off and were not stored."""
        for request in panel.broken_requests.get(index, ()):
            # Versions differ in when they count a message.
            near = messages[max(index - 2, 0) : index + 2]
            stored = [
                text for message in near if _is_response(message) for text in iter_strings(message)
            ]
            for item in request.items:
                if not _is_stored(item, stored):
                    self._add_broken_item(item, reader.get_model_actor())
            is_retried = panel.requests.get(index) is not request.facts
            has_response = index < len(messages) and _is_response(messages[index])
            # The facts of a request whose response is stored follow the response.
            if is_retried or not has_response:
                usage = parse_request_usage(request.facts)
                if usage and any(usage.values()):
                    self._draft.add_annotation({"kind": "usage"}, ts=request.ts, usage=usage)
                self._annotate_request(request.facts, reader.get_model_actor(), request.ts)

    def _add_broken_item(self, item: dict[str, Any], actor: str) -> None:
        kind = get_kind(item)
        text = as_text(item.get("text")) or ""
        ts = from_epoch(item.get("ts"), 0.001)
        if kind == "reasoning":
            event = self._draft.add_reasoning(text or None, actor, ts=ts)
            self._draft.add_annotation({"kind": "interrupted"}, parent=event, ts=ts)
        elif kind == "text":
            event = self._draft.add_message("assistant", text, actor, ts=ts)
            self._draft.add_annotation({"kind": "interrupted"}, parent=event, ts=ts)
        elif text:
            # The call was never made: it has no place among the calls.
            data = {"kind": "interrupted", "subtype": kind, "call": parse_arguments(text)}
            self._draft.add_annotation(data, actor=actor, ts=ts)

    def _add_notices(self, panel: PanelIndex, index: int) -> None:
        for data, ts in panel.notices.get(index, ()):
            self._draft.add_annotation(data, actor=self._client, ts=ts)

    def _read_message(
        self, message: dict[str, Any], index: int, panel: PanelIndex, reader: ApiMessageReader
    ) -> None:
        role = message.get("role")
        # Only the forks store the time with the message.
        ts = from_epoch(message.get("ts"), 0.001) or panel.get_time(index)
        # Roo Code inserts the summary of a condensed context.
        if message.get("isSummary") is True:
            content = parse_content(message.get("content") or "")
            event = self._draft.add_message(
                "user", content, self._client, ts=ts, visibility="internal"
            )
            self._draft.add_annotation({"kind": "compaction"}, parent=event, ts=ts)
        elif role == "user":
            reader.read_user_message(message.get("content"), ts)
        elif role == "assistant":
            request = panel.requests.get(index, {})
            reader.read_response(message, request, ts, f"message {index}")
            self._annotate_request(request, reader.get_model_actor(), ts)
        else:
            self._draft.note_omission(
                "unknown-role", f"message {index}", f"role {format_kind(role)}"
            )

    def _annotate_request(self, request: dict[str, Any], actor: str, ts: str | None) -> None:
        """Add the cost of a request, and why it was aborted."""
        cost = request.get("cost")
        if type(cost) in (int, float) and cost:
            self._draft.add_annotation({"kind": "cost", "cost_usd": cost}, actor=actor, ts=ts)
        facts = {
            "reason": as_text(request.get("cancelReason")),
            "message": as_text(request.get("streamingFailedMessage")),
        }
        data = drop_nulls(facts)
        if data:
            self._draft.add_annotation({"kind": "aborted", **data}, actor=actor, ts=ts)


def _is_response(message: Any) -> bool:
    return isinstance(message, dict) and message.get("role") == "assistant"


def _is_stored(item: dict[str, Any], stored: list[str]) -> bool:
    """Return whether a response holds what an item of the panel shows."""
    shown = parse_arguments(item.get("text"))
    if isinstance(shown, dict):
        # The panel has its own names for tools; what the model wrote is in the longest text.
        shown = max(iter_strings(list(shown.values())), key=len, default="")
    text = (as_text(shown) or "").strip()
    return any(text in part for part in stored)


def _get_first_time(items: list[Any]) -> str | None:
    if not items or not isinstance(items[0], dict):
        return None
    return from_epoch(items[0].get("ts"), 0.001)
