"""What people, models, tools and the client said in a Qwen Code file: its records as draft
verbs."""

from array import array
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

from open_token.agents.qwen_code.records import body, parts_of
from open_token.agents.qwen_code.subagent_displays import tell_display
from open_token.formats.shared import gemini_contents as wire
from open_token.formats.shared.fields import as_text, pick_fields
from open_token.formats.shared.gemini_tool_outputs import (
    build_result_facts,
    get_function_call,
    get_function_response,
    parse_usage,
    select_message_parts,
    unwrap_output,
)
from open_token.formats.shared.notes import format_kind
from open_token.formats.shared.thread import Thread
from open_token.jsontools.timestamps import to_utc

_TYPED = (None, "mid_turn_user_message", "realtime_message")
_HOOK = "<qwen:user-prompt-submit-context>"
_CONTEXT = {
    "cwd": "cwd",
    "gitBranch": "git_branch",
    "version": "version",
    "sessionId": "session_id",
}
# Records that Qwen Code hangs beside the talk: none of them is where the conversation stands.
_BESIDE = ("session_artifact_event", "session_artifact_snapshot", "session_sources_snapshot")
_NOTICES = {
    "agent_launch_prompt": ("displayText",),
    "agent_retry": ("attempt",),
    "at_command": ("userText", "filesRead", "status", "message"),
    "background_task_completed": ("displayText", "backgroundTask"),
    "goal_state": ("snapshot",),
    "parent_session": ("parentSessionId",),
    "rewind": ("truncatedCount",),
    "session_approval_mode": ("mode", "prePlanMode"),
    "session_model": ("modelId", "authType"),
    "session_source": ("sourceType", "sourceId"),
    "turn_result": ("state", "stopReason", "error"),
}
Body = dict[str, Any]
Agent = Callable[["File", str | None], bool]


class File:
    """Tells the records of one file."""

    def __init__(self, strand: Thread, agent: Agent) -> None:
        self.strand = strand
        self.tree = Tree()
        self.titles: list[tuple[str, str]] = []
        """By the uuid of the record: what the conversation was called."""
        self.entitled: dict[str, str] = {}
        """Where each title was first given."""
        self.context: Body = {}
        self.model: str | None = None
        """The model that speaks where a record names none."""
        self._seen: tuple[Any, ...] = ()
        self._agent = agent

    def record(self, record: Any, place: str) -> None:
        """Tell one record, whatever it is."""
        strand = self.strand
        if not isinstance(record, dict):
            strand.note_omission("skipped-record", place, "a line that is no object")
            return
        ts, kind = to_utc(record.get("timestamp")), record.get("type")
        strand.last_ts = ts or strand.last_ts
        if record.get("subtype") not in _BESIDE:
            self._meet(record, ts)
        start = strand.draft.count
        if kind == "user":
            self._user(record, ts, place)
        elif kind == "assistant":
            self._assistant(record, ts, place)
        elif kind == "tool_result":
            self._results(record, ts, place)
        elif kind == "system":
            self._system(record, ts, place)
        else:
            strand.note_omission("skipped-record", place, f"type {format_kind(kind)}")
        uuid, subtype = as_text(record.get("uuid")), record.get("subtype")
        if uuid and subtype not in _BESIDE:
            places = range(start, strand.draft.count)
            is_rewind = subtype == "rewind"
            self.tree.enter(
                uuid,
                record.get("parentUuid"),
                places,
                is_talk=kind != "system",
                is_rewind=is_rewind,
            )

    def finish(self) -> None:
        """No record is left: what was rewound is left out, or wrapped."""
        data = {"kind": "abandoned_branch", "detail": "the conversation was rewound to before it"}
        for places in self.tree.abandoned():
            self.strand.draft.drop_branch(places.start, places.stop, data, self.strand.client)

    def _meet(self, record: Body, ts: str | None) -> None:
        """Where the session runs: an annotation when that is first seen and when it changes; a
        subagent shares it."""
        seen = (
            record.get("cwd"),
            record.get("gitBranch"),
            record.get("version"),
            record.get("sessionId"),
        )
        if seen == self._seen:
            return
        self._seen = seen
        facts = {
            name: value for key, name in _CONTEXT.items() if (value := as_text(record.get(key)))
        }
        if not facts.items() <= self.context.items():
            self.context |= facts
            if self.strand.span is None:
                self.strand.add_annotation({"kind": "context", **facts}, ts=ts)

    def _parts(self, record: Body, place: str) -> list[Body]:
        parts = wire.list_parts(parts_of(record))
        message = record.get("message")
        is_odd = "parts" not in message if isinstance(message, dict) else message is not None
        if len(parts) != len(parts_of(record)) or is_odd:
            self.strand.note_omission(
                "unknown-part", place, "a part that is neither text nor an object"
            )
        return parts

    def _user(self, record: Body, ts: str | None, place: str) -> None:
        """A record in the user's place: what was typed stands apart from what was put in with
        it."""
        strand, parts, payload = (
            self.strand,
            self._parts(record, place),
            body(record.get("systemPayload")),
        )
        if any(get_function_response(part) for part in parts):
            self._results(record, ts, place)
            return
        said, shown = select_message_parts(parts), payload.get("displayText")
        if record.get("subtype") not in _TYPED or record.get("externalInputKind") is not None:
            if said:
                strand.add_injected_message(wire.build_content(said), ts=ts)
            if isinstance(shown, str) and shown and shown != wire.build_content(said):
                strand.add_annotation(
                    {
                        "kind": "notice",
                        "subtype": format_kind(record.get("subtype")),
                        "text": shown,
                    },
                    ts=ts,
                )
            return
        if isinstance(shown, str):
            typed: list[Body] = [{"text": shown}] if shown else []
            typed += [part for part in said if not isinstance(part.get("text"), str)]
            added = [
                part for part in said if isinstance(part.get("text"), str) and part["text"] != shown
            ]
        else:
            typed = [
                part for part in said if not str(part.get("text", "")).lstrip().startswith(_HOOK)
            ]
            added = [part for part in said if str(part.get("text", "")).lstrip().startswith(_HOOK)]
        hook = as_text(payload.get("hookContext"))
        if hook and not any(hook in str(part.get("text")) for part in said):
            added.append({"text": hook})
        event = (
            strand.add_message("user", wire.build_content(typed), strand.get_user_actor(), ts=ts)
            if typed
            else None
        )
        if refers := pick_fields(payload, "attachmentReferences", "resourceLinks"):
            strand.add_annotation({"kind": "attachment", **refers}, parent=event, ts=ts)
        if added:
            strand.add_injected_message(wire.build_content(added), ts=ts)

    def _assistant(self, record: Body, ts: str | None, place: str) -> None:
        strand, spent, said = self.strand, parse_usage(record.get("usageMetadata")), list[Body]()
        strand.set_model(as_text(record.get("model")) or self.model)
        thought = None
        for part in [*self._parts(record, place), None]:
            call = get_function_call(part)
            is_thought = part is not None and part.get("thought") is True and call is None
            if part is not None and call is None and not is_thought:
                said += [part] if part != {"text": ""} else []
                continue
            if said:
                strand.add_message(
                    "assistant", wire.build_content(said), strand.model_actor, ts=ts, usage=spent
                )
                said, spent = [], None
            if call is not None:
                given, before = call.get("args"), strand.draft.count
                tool, arguments = (
                    as_text(call.get("name")) or "tool",
                    {} if given is None else given,
                )
                group = str(record.get("uuid"))
                strand.add_tool_call(
                    as_text(call.get("id")), tool, arguments, ts=ts, usage=spent, group=group
                )
                spent = spent if strand.draft.count == before else None
            elif is_thought and part is not None and (words := as_text(part.get("text"))):
                event = strand.add_reasoning(words, ts=ts)
                thought = thought or event
        if spent and thought is not None:
            strand.draft.set_usage(thought, spent)
        elif spent:
            strand.add_annotation({"kind": "usage"}, ts=ts, usage=spent)

    def _results(self, record: Body, ts: str | None, place: str) -> None:
        """One or more results; parts beside them (an image that was read) belong to the last."""
        parts, about = self._parts(record, place), body(record.get("toolCallResult"))
        answers = [answer for part in parts if (answer := get_function_response(part))]
        if not answers:
            answers = [{"id": about.get("callId")}]
        others = [part for part in parts if get_function_response(part) is None]
        for answer in answers:
            output, failed = unwrap_output(answer, others if answer is answers[-1] else [])
            native = as_text(answer.get("id")) or as_text(about.get("callId"))
            facts = (
                build_result_facts(about.get("status"), failed or about.get("error") is not None)
                or {}
            )
            if type(about.get("durationMs")) in (int, float):
                facts["duration_ms"] = about["durationMs"]
            self._agents_of(native, about, ts)
            self.strand.add_tool_result(
                native, output, ts=ts, facts=facts or None, tool=as_text(answer.get("name"))
            )

    def _agents_of(self, native: str | None, about: Body, ts: str | None) -> None:
        """What a subagent did stands before the result of its call: from its file, else from what
        the screen showed."""
        shown = about.get("resultDisplay")
        told = self._agent(self, native)
        if not told and isinstance(shown, dict) and shown.get("type") == "task_execution":
            tell_display(self.strand, shown, self.strand.get_call_key(native), ts)

    def _system(self, record: Body, ts: str | None, place: str) -> None:
        strand, subtype, payload = (
            self.strand,
            record.get("subtype"),
            body(record.get("systemPayload")),
        )
        if said := select_message_parts(self._parts(record, place)):
            strand.add_message("system", wire.build_content(said), strand.client, ts=ts)
        if subtype == "custom_title":
            if title := as_text(payload.get("customTitle")):
                self.titles.append((str(record.get("uuid")), title))
                self.entitled.setdefault(title, place)
        elif subtype == "chat_compression":
            self._compression(payload, ts, place)
        elif subtype == "slash_command":
            self._command(payload, ts)
        elif subtype == "ui_telemetry" and (error := _api_error(body(payload.get("uiEvent")))):
            strand.add_annotation({"kind": "api_error", **error}, ts=ts)
        elif isinstance(subtype, str) and subtype in _NOTICES:
            strand.add_annotation(
                {"kind": "notice", "subtype": subtype, **pick_fields(payload, *_NOTICES[subtype])},
                ts=ts,
            )
        elif subtype is not None or not said:
            strand.note_omission("skipped-record", place, f"system {format_kind(subtype)}")

    def _command(self, payload: Body, ts: str | None) -> None:
        """A command that the person typed, or what it showed; the model saw neither."""
        typed = as_text(payload.get("rawCommand"))
        if payload.get("phase") == "invocation" and typed:
            self.strand.add_message(
                "user", typed, self.strand.get_user_actor(), ts=ts, visibility="internal"
            )
        else:
            shown = pick_fields(payload, "rawCommand", "outputHistoryItems")
            self.strand.add_annotation(
                {"kind": "notice", "subtype": "slash_command", **shown}, ts=ts
            )

    def _compression(self, payload: Body, ts: str | None, place: str) -> None:
        """The context was shortened: its first message from now on is the summary, the rest was
        said before."""
        strand, info, history = (
            self.strand,
            body(payload.get("info")),
            payload.get("compressedHistory"),
        )
        contents = (
            [item for item in history if isinstance(item, dict)]
            if isinstance(history, list)
            else []
        )
        said = select_message_parts(wire.list_parts(contents[0])) if contents else []
        names = {"originalTokenCount": "tokens_before", "newTokenCount": "tokens_after"}
        data = {
            "kind": "compaction",
            **{name: info[key] for key, name in names.items() if type(info.get(key)) is int},
        }
        if contents and not said:
            strand.note_omission(
                "unknown-part", place, "a shortened context that begins without words"
            )
        event = strand.add_injected_message(wire.build_content(said), ts=ts) if said else None
        strand.add_annotation(data, parent=event, ts=ts)
        if len(contents) > 1:
            strand.note_omission(
                "kept-history", place, "messages that the shortened context still held stand before"
            )


def _api_error(event: Body) -> Body:
    """A request that failed for good stands nowhere but in the telemetry (0.24)."""
    if event.get("event.name") != "qwen-code.api_error":
        return {}
    named = {"status_code": "status", "error_type": "error", "error_message": "message"}
    return {name: event[key] for key, name in named.items() if event.get(key) is not None}


class Tree:
    """The records by uuid and parentUuid as hashes, and the places of their events."""

    def __init__(self) -> None:
        self._own = array("q")
        self._parent = array("q")
        self._start = array("q")
        self._end = array("q")
        self._at: dict[int, int] = {}
        self._roots: set[int] = set()
        """The records that say they have no parent."""
        self._rewinds: set[int] = set()
        self._talk: set[int] = set()
        """The records in which someone speaks."""

    def enter(
        self, uuid: str, parent: Any, places: range, *, is_talk: bool, is_rewind: bool
    ) -> None:
        """Take a record whose events stand at these places."""
        number, own = len(self._own), hash(uuid)
        self._own.append(own)
        self._parent.append(hash(parent) if isinstance(parent, str) else 0)
        self._start.append(places.start)
        self._end.append(places.stop)
        self._at[own] = number
        for is_one, group in (
            (parent is None, self._roots),
            (is_rewind, self._rewinds),
            (is_talk, self._talk),
        ):
            if is_one:
                group.add(number)

    def _chain(self) -> tuple[bytearray, int]:
        """The records that lead to the last one, and the first of them."""
        chain, top = bytearray(len(self._own)), -1
        number: int | None = len(self._own) - 1 if self._own else None
        while number is not None and not chain[number]:
            chain[number], top = 1, number
            number = self._at.get(self._parent[number])
        return chain, top

    @cached_property
    def _left(self) -> set[int]:
        """The records of each branch that left the chain and in which someone spoke, once all are
        entered.

        What no chain reaches, for its parent is missing, was not rewound: it stays."""
        chain, top = self._chain()
        branches: dict[int, int] = {}
        restarted = top in self._roots and top in self._rewinds
        for number in range(len(self._own)):
            above = self._at.get(self._parent[number])
            if chain[number]:
                continue
            if above is not None and above < number:
                branches[number] = number if chain[above] else branches.get(above, -1)
            elif restarted and number in self._roots and number < top:
                branches[number] = number
        spoken = {branch for number, branch in branches.items() if number in self._talk} - {-1}
        return {number for number, branch in branches.items() if branch in spoken}

    def abandoned(self) -> Iterator[range]:
        """The places of the events that a rewind left behind."""
        start = end = 0
        for number in sorted(self._left):
            if self._start[number] != end:
                if start < end:
                    yield range(start, end)
                start = self._start[number]
            end = self._end[number]
        if start < end:
            yield range(start, end)

    def is_left(self, uuid: str) -> bool:
        """Whether a record was left behind."""
        return self._at.get(hash(uuid), -1) in self._left
