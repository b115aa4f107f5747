"""A task of Cline from all its files, whichever of them was opened."""

import re
from typing import Any

from open_token.agents.cline.api_messages import Talk
from open_token.agents.cline.panel import Panel
from open_token.agents.cline.shapes import API, UI, is_metadata, is_ui
from open_token.agents.cline.ui_messages import Screen
from open_token.builder.draft import Draft
from open_token.errors import InputError
from open_token.formats.shared.anthropic_blocks import parse_content
from open_token.formats.shared.fields import as_text, pick_fields
from open_token.formats.shared.notes import format_kind, note_file_faults
from open_token.jsontools.timestamps import from_epoch
from open_token.sources.source import Source

_EPOCH = re.compile(r"\d{13}")
_TASK = re.compile(r"\d{13}|[0-9A-HJKMNP-TV-Z]{26}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_PLACE = {
    "os_name": "os",
    "host_name": "host",
    "host_version": "host_version",
    "cline_version": "version",
}


class Task:
    """Reads a task."""

    def __init__(self, source: Source, draft: Draft) -> None:
        self._source = source
        self._draft = draft
        self._client = draft.get_actor("system", "Cline")
        self._opened = ""
        """Which of the files it is that was opened."""
        if source.shape != "folder" and not is_metadata(source):
            self._opened = UI if is_ui(source) else API

    def read(self) -> None:
        """Tell everything."""
        api, ui = self._list(API), self._list(UI)
        if not api and not ui:
            raise InputError(
                "the messages of this task are not in the input",
                where=self._source.name,
                help=f"name the task's folder, or {API} in it",
                code="input.no-events",
            )
        self._frame(api, ui)
        if api:
            self._tell(api, ui)
        else:
            Panel(self._draft, self._client).tell(ui)

    def _file(self, name: str) -> Source | None:
        if self._source.shape == "folder":
            return next(iter(self._source.find_files(name)), None)
        return self._source.open_sibling(name)

    def _list(self, name: str) -> list[Any]:
        """The items of a file of the task: the one that was opened, or the one of that name beside
        it."""
        if name == self._opened:
            return [item for _, item in self._source.records()]
        value = self._value(name)
        return value if isinstance(value, list) else []

    def _value(self, name: str) -> Any:
        file = self._file(name)
        try:
            value = file.document if file else None
            if file:
                note_file_faults(file, name, self._draft)
            return value
        except InputError:
            self._draft.note_omission(
                "unreadable-part", name, "a file of the task that cannot be read"
            )
            return None

    def _frame(self, api: list[Any], ui: list[Any]) -> None:
        """What the task is and where it ran."""
        draft, conversation = self._draft, self._draft.conversation
        folder = self._source.path
        if folder is not None and self._source.shape != "folder":
            folder = folder.parent
        name = folder.name if folder is not None and _TASK.fullmatch(folder.name) else None
        item = self._value("history_item.json")
        about = item if isinstance(item, dict) else {}
        if found := as_text(about.get("id")) or name:
            conversation["id"] = found
        began = (
            from_epoch(int(name), 0.001)
            if name and _EPOCH.fullmatch(name)
            else _first_ts(ui) or _first_ts(api)
        )
        if began:
            conversation["started_at"] = began
        facts, host = self._place()
        facts |= {"cwd": as_text(about.get("workspace")), "mode": as_text(about.get("mode"))}
        conversation["source_runtime"] = "cli" if "cli" in host.lower() else "ide"
        if data := pick_fields(facts, *facts):
            draft.add_annotation({"kind": "context", **data}, actor=self._client, ts=began)

    def _place(self) -> tuple[dict[str, Any], str]:
        """What the metadata say of the client and its host."""
        metadata = self._value("task_metadata.json")
        metadata = metadata if isinstance(metadata, dict) else {}
        if metadata.get("files_in_context"):
            self._draft.note_omission("bookkeeping", "task_metadata.json", "the files in context")
        history = metadata.get("environment_history")
        last = (
            history[-1]
            if isinstance(history, list) and history and isinstance(history[-1], dict)
            else {}
        )
        facts = {ours: last[key] for key, ours in _PLACE.items() if as_text(last.get(key))}
        if history and not facts:
            self._draft.note_omission(
                "unknown-record", "task_metadata.json", "an environment that is not described"
            )
        return facts, as_text(last.get("host_name")) or ""

    def _tell(self, api: list[Any], ui: list[Any]) -> None:
        screen = Screen(ui, [item.get("role") if isinstance(item, dict) else None for item in api])
        talk = Talk(self._draft, self._client, screen.typed)
        for index, message in enumerate(api):
            self._asides(screen, index)
            if not isinstance(message, dict):
                self._draft.note_omission(
                    "skipped-record", f"message {index}", "a message that is no object"
                )
                continue
            self._message(message, index, screen, talk)
        for index in sorted(index for index in screen.asides if index >= len(api)):
            self._asides(screen, index)
        for kind, count in screen.other.items():
            for _ in range(count):
                self._draft.note_omission("panel-only", UI, f"item {kind}")
        talk.providers.set_provider(self._draft.conversation)

    def _asides(self, screen: Screen, index: int) -> None:
        for data, ts in screen.asides.get(index, ()):
            self._draft.add_annotation(data, actor=self._client, ts=ts)

    def _message(self, message: dict[str, Any], index: int, screen: Screen, talk: Talk) -> None:
        role, place = message.get("role"), f"message {index}"
        # Forks keep the time with the message.
        ts = from_epoch(message.get("ts"), 0.001) or screen.ts(index)
        if message.get("isSummary") is True:
            words = parse_content(message.get("content") or "")
            said = self._draft.add_message(
                "user", words, self._client, ts=ts, visibility="internal"
            )
            self._draft.add_annotation({"kind": "compaction"}, parent=said, ts=ts)
        elif role == "user":
            talk.user(message.get("content"), ts)
        elif role == "assistant":
            request = screen.requests.get(index, {})
            talk.assistant(message, request, ts, place)
            self._request(request, talk.model_actor(), ts)
        else:
            self._draft.note_omission("unknown-role", place, f"role {format_kind(role)}")

    def _request(self, request: dict[str, Any], actor: str, ts: str | None) -> None:
        """What the panel knows of the request behind an answer."""
        cost = request.get("cost")
        if type(cost) in (int, float) and cost:
            self._draft.add_annotation({"kind": "cost", "cost_usd": cost}, actor=actor, ts=ts)
        facts = {
            "reason": as_text(request.get("cancelReason")),
            "message": as_text(request.get("streamingFailedMessage")),
        }
        if data := pick_fields(facts, *facts):
            self._draft.add_annotation({"kind": "aborted", **data}, actor=actor, ts=ts)


def _first_ts(items: list[Any]) -> str | None:
    return from_epoch(items[0].get("ts"), 0.001) if items and isinstance(items[0], dict) else None
