"""Read sessions of Continue."""

from collections import Counter
from typing import Any

from open_token.agents.continue_dev.detect import get_title
from open_token.builder.draft import Draft
from open_token.formats.shared.chat_logs import ChatLogReader
from open_token.formats.shared.chat_messages import parse_usage
from open_token.formats.shared.fields import (
    JsonObject,
    as_text,
    drop_nulls,
    get_dict,
    get_dicts,
    get_first,
    get_text,
    pick_fields,
)
from open_token.formats.shared.token_usage import build_usage, subtract_usage
from open_token.sources.source import Source

_USUAL_STATES = ("done", "generated", "calling", None)


class SessionReader:
    """Reads one session."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._log = ChatLogReader(draft, "Continue")
        self._answered: set[str | None] = set()
        """The calls whose results are messages of their own."""
        self._counted: Counter[str] = Counter()
        """The token counts of the messages so far."""

    def read(self, session: JsonObject) -> None:
        """Read the whole session into the draft."""
        facts = {
            "cwd": get_text(session, "workspaceDirectory"),
            "session_id": get_text(session, "sessionId"),
            "mode": get_text(session, "mode"),
        }
        self._log.annotate({"kind": "context", **drop_nulls(facts)})
        self._log.set_model(session.get("chatModelTitle"))
        history = session.get("history")
        items = history if isinstance(history, list) else []
        for item in items:
            message = get_dict(item, "message")
            if message.get("role") == "tool":
                self._answered.add(get_text(message, "toolCallId"))
        for number, item in enumerate(items, 1):
            self._read_item(item, f"message {number}")
        self._read_totals(session)
        self._log.finish(get_text(session, "sessionId"), get_title(session), None)

    def _read_item(self, item: Any, place: str) -> None:
        message = get_dict(item, "message")
        if not message:
            self._draft.note_omission("skipped-record", place, "item without a message")
            return
        self._read_model(item, place)
        role = message.get("role")
        # Reasoning is a message of its own, or a field beside the answer.
        if role == "thinking":
            text = as_text(_join_texts(message.get("content")))
            self._draft.add_reasoning(text, self._log.get_model_actor())
            return
        thought = get_text(get_dict(item, "reasoning"), "text")
        if thought:
            self._draft.add_reasoning(thought, self._log.get_model_actor())
        usage = _parse_usage(message.get("usage"))
        if usage:
            self._counted.update(usage)
        event = self._log.read_message(_rename_fields(message), place, usage=usage)
        for context in get_dicts(item, "contextItems"):
            facts = pick_fields(context, "name", "description", "content", "uri")
            data = {"kind": "attachment", **facts}
            self._draft.add_annotation(data, parent=event, actor=self._log.client)
        self._read_states(item, place)
        # A summary is stored with the last message that it covers, which stays in the file.
        summary = get_text(item, "conversationSummary")
        if summary:
            message = {"role": "user", "content": summary}
            event = self._log.read_message(message, place, is_injected=True)
            self._draft.add_annotation({"kind": "compaction"}, parent=event)

    def _read_model(self, item: JsonObject, place: str) -> None:
        """Read which model answered; the rest of a prompt log repeats the conversation."""
        for log in get_dicts(item, "promptLogs"):
            named = get_text(get_dict(log, "completionOptions"), "model")
            self._log.set_model(named or log.get("modelTitle"), log.get("modelProvider"))
            self._draft.note_omission("prompt-log", place, "log of a prompt as it was sent")

    def _read_states(self, item: JsonObject, place: str) -> None:
        """Read results that stand with the state of their calls."""
        # An item has a list of states, or a single one.
        states = get_dicts(item, "toolCallStates")
        if not states and get_dict(item, "toolCallState"):
            states = [item["toolCallState"]]
        for state in states:
            call_id = get_text(state, "toolCallId")
            output = get_dicts(state, "output")
            status = state.get("status")
            if call_id is None:
                self._draft.note_omission("unknown-record", place, "state of an unknown call")
                continue
            if get_dict(state, "processedArgs"):
                detail = "arguments of a call as the client processed them"
                self._draft.note_omission("processed-arguments", place, detail)
            # The result may also be a message of its own, later in the list.
            if output and call_id not in self._answered:
                facts = {"is_error": True} if status == "errored" else None
                self._draft.add_tool_result(call_id, _join_output(output), facts=facts)
            elif status not in _USUAL_STATES:
                data = {"kind": "call_status", "status": status, "native_call_id": call_id}
                self._draft.add_annotation(data, actor=self._log.client)

    def _read_totals(self, session: JsonObject) -> None:
        usage = subtract_usage(_parse_usage(session.get("usage")), self._counted)
        cost = get_dict(session, "usage").get("totalCost")
        if usage or cost:
            facts = {"cost_usd": cost} if cost else {}
            self._log.annotate({"kind": "session_totals", **facts}, usage=usage)


def _rename_fields(message: JsonObject) -> JsonObject:
    """Return a message with the names of the API."""
    renamed = dict(message)
    renamed["tool_calls"] = message.get("toolCalls")
    renamed["tool_call_id"] = message.get("toolCallId")
    content = message.get("content")
    if isinstance(content, list):
        renamed["content"] = [_rename_part(part) for part in content]
    return renamed


def _rename_part(part: Any) -> Any:
    if get_text(part, "type") != "imageUrl":
        return part
    url = get_dict(part, "imageUrl")
    return {"type": "image_url", "image_url": url} if url else part


def _join_output(output: list[JsonObject]) -> Any:
    """Return the texts of context items; all items if one is something else."""
    texts: list[str] = []
    for item in output:
        text = item.get("content")
        if not isinstance(text, str):
            return output
        texts.append(text)
    return "\n\n".join(texts)


def _join_texts(content: Any) -> Any:
    if not isinstance(content, list):
        return content
    return "".join(get_text(part, "text") or "" for part in content)


def _parse_usage(usage: Any) -> Any:
    """Return token counts, under the names of the API or of Continue."""
    if not isinstance(usage, dict):
        return None
    return parse_usage(usage) or build_usage(
        input_tokens=get_first(usage, "promptTokens", "prompt_tokens"),
        output_tokens=get_first(usage, "completionTokens", "completion_tokens"),
    )


def read(source: Source, draft: Draft) -> None:
    """Read the session into the draft."""
    for number, record in source.records():
        if isinstance(record, dict):
            SessionReader(draft).read(record)
            return
        draft.note_omission("skipped-record", f"record {number}", "it is not a JSON object")
