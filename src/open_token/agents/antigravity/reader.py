"""Read transcripts of Antigravity: steps of the person, the model, tools and the client."""

import re
from pathlib import PurePath

import msgspec

from open_token.agents.antigravity.detect import split_user_input
from open_token.builder.draft import Draft
from open_token.errors import InputError
from open_token.formats.shared.fields import JsonObject, get_dict, get_text
from open_token.formats.shared.notes import format_kind
from open_token.formats.shared.providers import ProviderTracker
from open_token.formats.shared.thread import Thread
from open_token.jsontools.timestamps import to_utc
from open_token.sources.source import Source

_FULL_FILE = "transcript_full.jsonl"
_MODEL_CHANGE = re.compile(r"`Model Selection` from [^\n]{1,200}? to ([^\n]{1,200})")
_FAILURES = ("ERROR", "FAILED")


class TranscriptReader:
    """Reads one transcript."""

    def __init__(self, source: Source, draft: Draft) -> None:
        self._source = source
        self._draft = draft
        self._client = draft.get_actor("system", "Antigravity")
        self._providers = ProviderTracker()
        self._thread = Thread(draft, self._client, self._find_provider)
        self._open_calls: list[str] = []
        """The calls of the last step of the model that have no result yet, in their order."""
        self._full = self._open_full_file()

    def _find_provider(self, model: str) -> str | None:
        return self._providers.add_model(None, model or None)

    def _open_full_file(self) -> Source | None:
        """Return the file with the same steps in which nothing is cut short."""
        if PurePath(self._source.name).name == _FULL_FILE:
            return None
        return self._source.open_sibling(_FULL_FILE)

    def read(self) -> None:
        """Read everything into the draft."""
        draft = self._draft
        session_id = _find_session_id(self._source.name)
        if session_id:
            draft.conversation["id"] = session_id
        for number, record in self._source.records():
            if type(record) is not dict:
                draft.note_omission("skipped-record", f"line {number}", "line is not a JSON object")
                continue
            self._read_step(self._complete(record, number), number)
        if draft.first_ts:
            draft.conversation.setdefault("started_at", draft.first_ts)
        draft.conversation["source_runtime"] = "cli"
        self._providers.set_provider(draft.conversation)

    def _complete(self, record: JsonObject, number: int) -> JsonObject:
        """Return a step with the texts that the agent cut short taken from the full file."""
        cut = record.get("truncated_fields")
        if not isinstance(cut, list) or not cut:
            return record
        full = self._read_full_step(record, number)
        remaining = [name for name in cut if not isinstance(name, str) or name not in full]
        if remaining:
            self._draft.note_omission(
                "stored-cut-short", f"line {number}", "text that the agent stored cut short"
            )
        found = {name: full[name] for name in cut if isinstance(name, str) and name in full}
        return {**record, **found}

    def _read_full_step(self, record: JsonObject, number: int) -> JsonObject:
        if self._full is None:
            return {}
        try:
            full = self._full.record_at(number)
        except (InputError, LookupError):
            return {}
        same = ("step_index", "type")
        if type(full) is not dict or any(full.get(name) != record.get(name) for name in same):
            return {}
        return full if not full.get("truncated_fields") else {}

    def _read_step(self, record: JsonObject, number: int) -> None:
        kind = record.get("type")
        ts = to_utc(record.get("created_at"))
        content = record.get("content")
        if kind == "USER_INPUT":
            self._read_input(record, ts, number)
        elif kind == "PLANNER_RESPONSE" or "tool_calls" in record or "thinking" in record:
            self._read_response(record, ts, number)
        elif record.get("source") == "MODEL":
            self._read_result(record, ts)
        elif content in (None, "") and "error" not in record:
            self._draft.note_omission(
                "bookkeeping", f"line {number}", f"step {format_kind(kind)} without content"
            )
        else:
            self._read_client_text(record, ts)

    def _read_client_text(self, record: JsonObject, ts: str | None) -> None:
        """Read what the client said to the model: a checkpoint, a notice, why a call was refused."""
        content = record.get("content")
        error = get_text(record, "error")
        if content not in (None, ""):
            text = content if isinstance(content, str) else [{"type": "json", "value": content}]
            event = self._thread.add_injected_message(text, ts=ts)
            if record.get("type") == "CHECKPOINT":
                self._thread.add_annotation({"kind": "compaction_summary"}, parent=event, ts=ts)
        # The text mostly has the error in it.
        if error and error not in str(content):
            self._thread.add_injected_message(error, ts=ts)

    def _read_input(self, record: JsonObject, ts: str | None, number: int) -> None:
        content = record.get("content")
        if not isinstance(content, str) or not content.strip():
            self._draft.note_omission("empty-message", f"line {number}", "message without text")
            return
        typed, added = split_user_input(content)
        model = _MODEL_CHANGE.search(added)
        if model:
            self._thread.set_model(model[1].rstrip(". "))
        if typed:
            self._thread.add_message("user", typed, self._thread.get_user_actor(), ts=ts)
        if added:
            self._thread.add_injected_message(added, ts=ts)

    def _read_response(self, record: JsonObject, ts: str | None, number: int) -> None:
        if not self._thread.model_actor:
            self._thread.set_model(None)
        # Results of earlier calls do not come after the model went on.
        self._open_calls = []
        thinking = get_text(record, "thinking")
        content = get_text(record, "content")
        if thinking:
            self._thread.add_reasoning(thinking, ts=ts)
        if content:
            self._thread.add_message("assistant", content, self._thread.model_actor, ts=ts)
        calls = record.get("tool_calls")
        for call in calls if isinstance(calls, list) else []:
            name = get_text(call, "name")
            if name is None:
                self._draft.note_omission("unknown-call", f"line {number}", "call without a name")
                continue
            key = self._thread.add_tool_call(
                None, name, _decode_arguments(get_dict(call, "args")), ts=ts, group=number
            )
            self._open_calls.append(key)
        if not (thinking or content or calls):
            self._draft.note_omission("empty-message", f"line {number}", "answer without text")

    def _read_result(self, record: JsonObject, ts: str | None) -> None:
        key = self._open_calls.pop(0) if self._open_calls else None
        status = record.get("status")
        facts: JsonObject = {"step": format_kind(record.get("type"))}
        if status not in (None, "DONE"):
            facts["status"] = status
        if status in _FAILURES:
            facts["is_error"] = True
        if get_text(record, "error"):
            facts["error"] = record["error"]
        output = record.get("content")
        self._thread.add_tool_result(key, "" if output is None else output, ts=ts, facts=facts)


def _find_session_id(name: str) -> str | None:
    """Return the name of the folder of a conversation: brain/ID/.system_generated/logs/FILE."""
    parts = PurePath(name).parts
    if len(parts) >= 4 and parts[-3] == ".system_generated":
        return parts[-4]
    return None


def _decode_arguments(args: JsonObject) -> JsonObject:
    """Return arguments whose values are each JSON in a string, decoded; others as they are."""
    decoded: JsonObject = {}
    for name, value in args.items():
        if not isinstance(value, str):
            return args
        try:
            decoded[name] = msgspec.json.decode(value)
        except (msgspec.DecodeError, RecursionError):
            return args
    return decoded


def read(source: Source, draft: Draft) -> None:
    """Read the transcript into the draft."""
    TranscriptReader(source, draft).read()
