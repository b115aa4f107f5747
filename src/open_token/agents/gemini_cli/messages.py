"""What people, models and tools said in a Gemini CLI file: its messages, patches and rewinds as
draft verbs."""

from collections.abc import Callable
from typing import Any

from open_token.agents.gemini_cli.repeated_history import History
from open_token.formats.shared import gemini_contents as wire
from open_token.formats.shared.fields import as_text, pick_fields
from open_token.formats.shared.gemini_tool_outputs import (
    build_result_facts,
    get_function_call,
    get_function_response,
    list_content_parts,
    select_message_parts,
    unwrap_output,
)
from open_token.formats.shared.notes import format_kind
from open_token.formats.shared.thread import Thread
from open_token.formats.shared.token_usage import build_usage
from open_token.jsontools.timestamps import to_utc
from open_token.model.document import Event, Usage

_MODELS = ("gemini", "qwen")
_NOTICES = ("info", "warning", "error")
_CANCELLED = "Request cancelled."
# The client asks the model to go on, or tells it where it is, in the person's place.
_CLIENT_MADE = ("System: Please continue.", "System: Potential loop detected.", "<session_context>")
_SESSION_KIND = "session_kind"
_CONTEXT = {"projectHash": "project_hash", "kind": _SESSION_KIND, "directories": "directories"}
_KNOWN = frozenset((*_CONTEXT, "sessionId", "startTime", "lastUpdated", "summary", "messages"))
Body = dict[str, Any]
Agent = Callable[["File", str, Body, str], None]


class File:
    """Tells the records of one file."""

    def __init__(self, strand: Thread, agent: Agent) -> None:
        self.strand = strand
        self.header: Body = {}
        """What the header and the patches say of the whole."""
        self._agent = agent
        self._context: Body = {}
        self._is_moved = False
        """The context may have changed since it was told."""
        self._starts: dict[str, int] = {}
        """Where the events of each message that was not rewound begin."""
        self._history: set[str] = set()
        """The messages that the client still holds."""
        self._spoken = History()
        self._left: list[range] = []
        self._described: set[int] = set()

    def record(self, value: Any, place: str) -> None:
        """Tell one record, whatever it is."""
        if not isinstance(value, dict):
            self.strand.note_omission("skipped-record", place, "a record that is no object")
        elif isinstance(target := value.get("$rewindTo"), str):
            self._rewind(target)
        elif isinstance(patch := value.get("$set"), dict):
            self._patch(patch, place)
        elif "sessionId" in value and "projectHash" in value:
            self._patch({name: item for name, item in value.items() if name != "messages"}, place)
        else:
            self._message(value, place)

    def finish(self) -> None:
        """No record is left: what was rewound is left out, or wrapped."""
        data = {"kind": "abandoned_branch", "detail": "the conversation was rewound to before it"}
        for places in self._left:
            self.strand.draft.drop_branch(places.start, places.stop, data, self.strand.client)

    def _rewind(self, target: str) -> None:
        """All from a message on is taken back; all messages, when there is none of that name."""
        end = self.strand.draft.count
        start = self._starts.get(target, next(iter(self._starts.values()), end))
        while self._starts and next(reversed(self._starts.values())) >= start:
            self._starts.popitem()
        while self._left and self._left[-1].start >= start:
            self._left.pop()
        self._left.append(range(start, end))

    def _patch(self, patch: Body, place: str) -> None:
        began = self.header.get("startTime")
        self.header |= {
            name: value for name, value in patch.items() if name != "messages" and value is not None
        }
        if began:
            # A resumed session has a header for each start (0.61).
            self.header["startTime"] = began
        self._is_moved = self._is_moved or not _CONTEXT.keys().isdisjoint(patch)
        for name in patch:
            if name not in _KNOWN:
                self.strand.note_omission(
                    "skipped-field", place, f"field {format_kind(name)} of the session"
                )
        if isinstance(messages := patch.get("messages"), list):
            self._snapshot(messages, place)

    def _snapshot(self, messages: list[Any], place: str) -> None:
        """The client put another history in place of its own: what is new in it is a summary of
        what is gone."""
        held = [message for message in messages if isinstance(message, dict)]
        names = {name for message in held if (name := as_text(message.get("id")))}
        if held and all(
            _is_client_made(list_content_parts(message.get("content"))) for message in held
        ):
            # The client begins, anew after a resume (0.61): the rest of its history follows.
            names |= self._history
        gone, self._history = len(self._history - names), names
        if gone:
            ts = to_utc(self.header.get("lastUpdated"))
            # After a cancelled turn the history is only shorter; a summary is new in it.
            data: Body = {
                "kind": "history_shortened" if names <= self._starts.keys() else "compaction"
            }
            data |= {} if self._spoken.is_again else {"messages_left_out": gone}
            self.strand.add_annotation({**data, "messages_kept": len(held)}, ts=ts)
        self._spoken.is_again = False
        for message in held:
            name = as_text(message.get("id"))
            if name in self._starts:
                continue
            if name:
                self._starts[name] = self.strand.draft.count
            if message.get("type") == "user":
                self._summary(message, place)
            elif message.get("model") or message.get("toolCalls"):
                self._message(message, place)
            elif said := select_message_parts(self._parts(message.get("content"), place)):
                ts = to_utc(message.get("timestamp"))
                self.strand.add_annotation(
                    {"kind": "client_message", "text": wire.build_content(said)}, ts=ts
                )
            else:
                self.strand.note_omission(
                    "skipped-record", place, f"type {format_kind(message.get('type'))} in a history"
                )

    def _summary(self, message: Body, place: str) -> None:
        parts = self._parts(message.get("content"), place)
        self._take_results(parts, message, place)
        if said := select_message_parts(parts):
            ts = to_utc(message.get("timestamp"))
            event = self.strand.add_injected_message(wire.build_content(said), ts=ts)
            if not _is_client_made(said):
                self.strand.add_annotation({"kind": "compaction_summary"}, parent=event, ts=ts)

    def _message(self, message: Body, place: str) -> None:
        kind = message.get("type")
        if self._is_moved:
            self._tell_context(message)
        if isinstance(name := message.get("id"), str):
            self._starts.setdefault(name, self.strand.draft.count)
            self._history.add(name)
        if kind not in _NOTICES and self._spoken.repeats(message):
            self.strand.note_omission(
                "repeated-history", place, "a message that the client wrote down again"
            )
            return
        self.strand.last_ts = to_utc(message.get("timestamp")) or self.strand.last_ts
        if kind == "user":
            self._user(message, place)
        elif kind in _MODELS:
            self._model(message, place)
        elif kind in _NOTICES:
            self._notice(str(kind), message, place)
        else:
            self.strand.note_omission("skipped-record", place, f"type {format_kind(kind)}")

    def _tell_context(self, message: Body) -> None:
        """Where the session runs: an annotation before the first message, and when it changes."""
        self._is_moved = False
        facts = {
            _CONTEXT[name]: value for name, value in pick_fields(self.header, *_CONTEXT).items()
        }
        changed = {name: value for name, value in facts.items() if self._context.get(name) != value}
        if changed:
            self._context = facts
            self.strand.add_annotation(
                {"kind": "context", **changed}, ts=to_utc(message.get("timestamp"))
            )

    def _user(self, message: Body, place: str) -> None:
        """What was sent to the model, and what the person typed where that is something else."""
        ts, strand = to_utc(message.get("timestamp")), self.strand
        parts = self._parts(message.get("content"), place)
        self._take_results(parts, message, place)
        said = (
            self._without_media(parts, place)
            if any(map(get_function_response, parts))
            else select_message_parts(parts)
        )
        if message.get("displayContent") is not None:
            shown = self._parts(message["displayContent"], place)
            self._take_results(shown, message, place)
            typed = select_message_parts(shown)
            if typed:
                strand.add_message(
                    "user", wire.build_content(typed), strand.get_user_actor(), ts=ts
                )
            if said and said != typed:
                strand.add_injected_message(wire.build_content(said), ts=ts)
        elif said:
            if _is_client_made(said):
                strand.add_injected_message(wire.build_content(said), ts=ts)
            else:
                strand.add_message("user", wire.build_content(said), strand.get_user_actor(), ts=ts)

    def _without_media(self, parts: list[Body], place: str) -> list[Body]:
        """Words beside results; a picture there is a result's own, told with its call."""
        said = select_message_parts(parts)
        words = [part for part in said if isinstance(part.get("text"), str)]
        for _ in range(len(said) - len(words)):
            self.strand.note_omission(
                "repeated-result", place, "a picture that stands with the result of a call"
            )
        return words

    def _parts(self, content: Any, place: str) -> list[Body]:
        parts = list_content_parts(content)
        size = len(content) if isinstance(content, list) else 0
        if size > len(parts) or (not parts and content not in (None, "", [])):
            self.strand.note_omission(
                "unknown-part", place, "a part that is neither text nor an object"
            )
        return [part for part in parts if part != {"text": ""}]

    def _take_results(self, parts: list[Body], message: Body, place: str) -> None:
        """Results in the user's place: as a rule their message has them already."""
        media = [
            part for part in select_message_parts(parts) if not isinstance(part.get("text"), str)
        ]
        for part in parts:
            if (answer := get_function_response(part)) is None:
                continue
            key = self.strand.get_call_key(as_text(answer.get("id")))
            if key and self.strand.draft.is_call_open(key):
                output, failed = unwrap_output(answer, media)
                media, ts = [], to_utc(message.get("timestamp"))
                self.strand.add_tool_result(
                    key, output, ts=ts, facts=build_result_facts(None, failed)
                )
            else:
                self.strand.note_omission(
                    "repeated-result", place, "a result that stands with its call already"
                )

    def _model(self, message: Body, place: str) -> None:
        """Thoughts, then words, then calls, then their results, which Gemini CLI keeps in one
        object with the calls."""
        strand, ts = self.strand, to_utc(message.get("timestamp"))
        strand.set_model(message.get("model"))
        spent = _Spent(strand, _usage(message.get("tokens")))
        thoughts = message.get("thoughts")
        for thought in thoughts if isinstance(thoughts, list) else ():
            if isinstance(thought, dict) and (text := _thought(thought)):
                spent.on_thought(
                    strand.add_reasoning(
                        text, ts=to_utc(thought.get("timestamp")) or ts, summary=True
                    )
                )
            else:
                strand.note_omission("unknown-part", place, "a thought without words")
        parts = self._parts(message.get("content"), place)
        if not thoughts:
            self._thoughts_in(parts, ts, spent)
        if said := select_message_parts(parts):
            strand.add_message(
                "assistant", wire.build_content(said), strand.model_actor, ts=ts, usage=spent.take()
            )
        held = message.get("toolCalls")
        held = held if isinstance(held, list) else [] if held is None else [held]
        calls = [
            call for call in held if isinstance(call, dict) and (call.get("id") or call.get("name"))
        ]
        if len(calls) != len(held):
            strand.note_omission("unknown-part", place, "a call without an id and a name")
        known = {as_text(call.get("id")) for call in calls}
        calls += [
            call
            for part in parts
            if (call := get_function_call(part)) and as_text(call.get("id")) not in known
        ]
        self._calls(calls, message.get("id") or place, ts, spent)
        spent.close(ts)

    def _thoughts_in(self, parts: list[Body], ts: str | None, spent: "_Spent") -> None:
        for part in parts:
            if part.get("thought") is True and (text := as_text(part.get("text"))):
                spent.on_thought(self.strand.add_reasoning(text, ts=ts, summary=True))

    def _calls(self, calls: list[Body], group: object, ts: str | None, spent: "_Spent") -> None:
        strand, keys = self.strand, []
        for call in calls:
            given, before = call.get("args"), strand.draft.count
            key = strand.add_tool_call(
                as_text(call.get("id")),
                as_text(call.get("name")) or "tool",
                {} if given is None else given,
                ts=ts,
                usage=spent.usage,
                group=str(group),
                extra=self._beside(call),
            )
            if strand.draft.count > before:
                spent.take()
            keys.append(key)
        for key, call in zip(keys, calls, strict=True):
            if agent_id := as_text(call.get("agentId")):
                self._agent(self, agent_id, call, key)
            if call.get("result") is not None:
                self._result(key, call)

    def _beside(self, call: Body) -> Body:
        """What else is known of a call: how it stood when no result came, and a description, each
        only once.

        The older form has the tool's own description there, the newer one what this very call is
        for."""
        extra: Body = {}
        status, description = as_text(call.get("status")), as_text(call.get("description"))
        if status and status != "success" and call.get("result") is None:
            extra["status"] = status
        given = call.get("args")
        if description and not (isinstance(given, dict) and description in given.values()):
            mark = hash((as_text(call.get("name")), description))
            if mark not in self._described:
                self._described.add(mark)
                extra["description"] = description
        return extra

    def _result(self, key: str, call: Body) -> None:
        """The result's own time is the call's timestamp: it was written when the call was done."""
        parts = list_content_parts(call["result"])
        answers = [found for part in parts if (found := get_function_response(part)) is not None]
        # After a history snapshot a result may hold those of its siblings too.
        own = (found for found in answers if found.get("id") == call.get("id"))
        answer = next(own, answers[0] if answers else {})
        output, failed = unwrap_output(
            answer, [part for part in parts if get_function_response(part) is None]
        )
        if not answer and not parts:
            output = call["result"]
        self.strand.add_tool_result(
            key,
            output,
            ts=to_utc(call.get("timestamp")),
            facts=build_result_facts(call.get("status"), failed),
        )

    def _notice(self, level: str, message: Body, place: str) -> None:
        """What the client told the person; it never was in the talk."""
        text = wire.build_content(self._parts(message.get("content"), place))
        data: Body = {"kind": "notice", "level": level, "text": text}
        if level == "error":
            data = {"kind": "error", "error": text}
        elif text == _CANCELLED:
            data = {"kind": "interrupted", "text": text}
        self.strand.add_annotation(data, ts=to_utc(message.get("timestamp")))


class _Spent:
    """What a message cost: told once, on its first event that is no thought."""

    def __init__(self, strand: Thread, usage: Usage | None) -> None:
        self._strand = strand
        self.usage = usage
        self._thought: Event | None = None

    def on_thought(self, event: Event) -> None:
        self._thought = self._thought or event

    def take(self) -> Usage | None:
        usage, self.usage = self.usage, None
        return usage

    def close(self, ts: str | None) -> None:
        """Nothing but thoughts came, or nothing at all."""
        if self.usage and self._thought is not None:
            self._strand.draft.set_usage(self._thought, self.usage)
        elif self.usage:
            self._strand.add_annotation({"kind": "usage"}, ts=ts, usage=self.usage)


def _is_client_made(parts: list[Body]) -> bool:
    """Whether the client says it: a text that begins as its own do."""
    content = wire.build_content(parts)
    return isinstance(content, str) and content.lstrip().startswith(_CLIENT_MADE)


def _thought(thought: Body) -> str:
    return "\n\n".join(
        text for name in ("subject", "description") if (text := as_text(thought.get(name)))
    )


def _usage(tokens: Any) -> Usage | None:
    """Gemini counts thoughts apart from the answer, and what tools read apart from the prompt."""
    if not isinstance(tokens, dict):
        return None
    return build_usage(
        input_tokens=_sum(tokens, "input", "tool"),
        output_tokens=_sum(tokens, "output", "thoughts"),
        reasoning_tokens=tokens.get("thoughts"),
        cache_read_tokens=tokens.get("cached"),
    )


def _sum(tokens: Body, *names: str) -> int | None:
    found = [count for name in names if type(count := tokens.get(name)) is int]
    return sum(found) if found else None
