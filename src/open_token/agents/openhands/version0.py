"""Read OpenHands conversations of version 0: actions and observations in a list or in files."""

from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import PurePath
from typing import Any, NamedTuple

from open_token.agents.openhands.detect import (
    VERSION0_FILES,
    find_files,
    flatten,
    is_version0_event,
    sort_event_files,
)
from open_token.agents.openhands.usage import UsageTracker
from open_token.builder.draft import Draft
from open_token.formats.shared.chat_messages import parse_usage
from open_token.formats.shared.fields import as_dicts, as_text, parse_arguments, pick_fields
from open_token.formats.shared.notes import format_kind, note_tool_definitions
from open_token.formats.shared.providers import identify_provider
from open_token.formats.shared.reasoning import list_reasoning, split_think_tag
from open_token.jsontools.media import build_media_url_block
from open_token.jsontools.timestamps import to_utc
from open_token.model.document import Role, Usage, Visibility
from open_token.sources.source import Source

Body = dict[str, Any]
_CLIENT_ARGUMENTS = frozenset(
    (
        "thought",
        "hidden",
        "confirmation_state",
        "security_risk",
        "blocking",
        "is_confirmed",
        "translated_ipython_code",
        "keep_prompt",
    )
)
"""Arguments that OpenHands adds to those of the model."""
_STATE_KINDS = ("change_agent_state", "agent_state_changed", "null", "")
_RECALL_KINDS = ("recall", "microagent", "workspace_context")
_READ_EXTRAS = frozenset(
    (
        "command",
        "metadata",
        "exit_code",
        "command_id",
        "hidden",
        "path",
        "url",
        "name",
        "code",
        "screenshot",
        "image_urls",
    )
)


def read_conversation(source: Source, draft: Draft) -> None:
    """Read the conversation into the draft."""
    read_events(draft, _iterate_events(source))


def read_events(
    draft: Draft, events: Iterable[tuple[str, Any]], model: str | None = None, metrics: Any = None
) -> None:
    """Read actions and observations with their positions.

    The model and its metrics are given where they are stored apart from the events.
    """
    draft.conversation["source_runtime"] = "cli"
    reader = _EventReader(draft, model, metrics)
    for position, event in events:
        if is_version0_event(event) or (
            isinstance(event, dict) and ("action" in event or "observation" in event)
        ):
            reader.read(event, position)
        else:
            draft.note_omission(
                "unknown-record", position, "record that is neither an action nor an observation"
            )
    reader.finish()


def _iterate_events(source: Source) -> Iterator[tuple[str, Any]]:
    if source.shape == "folder":
        for file in sort_event_files(find_files(source, VERSION0_FILES)):
            yield PurePath(file.name).name, file.document
    elif source.shape == "document":
        document = source.document
        events = flatten([document] if isinstance(document, list) else [[document]])
        for number, event in enumerate(events, 1):
            yield f"record {number}", event
    else:
        for number, event in source.records():
            yield f"line {number}", event


class _Delegate(NamedTuple):
    """An agent at work for another one: its span, the key of the call, its name."""

    span: str
    call: str
    name: str


class _EventReader:
    """Reads events; matches an observation with its action by call id, cause, or order."""

    def __init__(self, draft: Draft, model: str | None, metrics: Any) -> None:
        self._draft = draft
        self._runtime = draft.get_actor("system", "OpenHands")
        self._usage = UsageTracker()
        if isinstance(metrics, dict):
            self._usage.add_metrics("agent", metrics)
        self._model = model
        self._response_id: str | None = None
        self._call_keys: dict[Any, str | None] = {}
        """The keys of calls by the ids of actions; None for actions that no model took."""
        self._open_calls: deque[str] = deque()
        self._delegates: list[_Delegate] = []
        self._skipped_delegate: str | None = None
        """The call of a delegate whose events are not exported."""
        self._skipped_count = 0

    def read(self, event: Body, position: str) -> None:
        """Read one action or observation."""
        timestamp = event.get("timestamp")
        ts = to_utc(timestamp)
        if ts is None and isinstance(timestamp, str):
            self._draft.note_omission("time-without-zone", position, "time without a time zone")
        metrics = event.get("llm_metrics")
        if isinstance(metrics, dict):
            self._usage.add_metrics("agent", metrics)
        if self._skipped_delegate and not self._is_delegate_end(event):
            self._skipped_count += 1
        elif isinstance(event.get("action"), str):
            self._read_action(event, event["action"], position, ts)
        else:
            self._read_observation(event, position, ts)

    def _is_delegate_end(self, event: Body) -> bool:
        if event.get("observation") != "delegate":
            return False
        return self._find_call(event) == self._skipped_delegate

    def finish(self) -> None:
        """Annotate the totals, with the usage that no event has."""
        totals = self._usage.get_totals()
        if totals:
            data = {"kind": "usage", "by": totals}
            unattributed = self._usage.get_unattributed()
            self._draft.add_annotation(data, actor=self._runtime, usage=unattributed)

    @property
    def _span(self) -> str | None:
        return self._delegates[-1].span if self._delegates else None

    def _get_model_actor(self) -> str:
        name = self._delegates[-1].name if self._delegates else "agent"
        provider = identify_provider(self._model)
        return self._draft.get_actor("model", name, provider=provider, model=self._model)

    def _add_message(
        self,
        role: Role,
        content: Any,
        actor: str,
        ts: str | None,
        visibility: Visibility | None = None,
        usage: Usage | None = None,
    ) -> None:
        """Add a message unless it is empty; messages of delegates are internal."""
        if not content:
            return
        if not isinstance(content, str | list):
            content = [content]
        if self._delegates:
            visibility = "internal"
        self._draft.add_message(
            role, content, actor, ts=ts, span=self._span, visibility=visibility, usage=usage
        )

    def _add_response(self, content: Any, ts: str | None, usage: Usage | None = None) -> None:
        self._add_message("assistant", content, self._get_model_actor(), ts, usage=usage)

    def _add_injected(self, content: Any, ts: str | None) -> None:
        self._add_message("user", content, self._runtime, ts, "internal")

    def _read_action(self, event: Body, kind: str, position: str, ts: str | None) -> None:
        args = _get_object(event, "args")
        is_from_model = event.get("source") == "agent"
        # The runtime recalls knowledge for a prompt: the observation holds what it found.
        if kind in _STATE_KINDS or (kind == "recall" and not is_from_model):
            self._call_keys[_get_id(event)] = None
            self._draft.note_omission("skipped-record", position, f"action {format_kind(kind)}")
        elif kind == "system":
            self._read_system_prompt(args, position, ts)
        elif kind in ("condensation", "condense"):
            self._add_injected(args.get("summary"), ts)
            self._draft.add_annotation(
                {"kind": "compaction"}, actor=self._runtime, ts=ts, span=self._span
            )
        elif kind in ("pause", "resume", "stop"):
            data = {"kind": "interrupted", "action": kind}
            self._draft.add_annotation(data, actor=self._runtime, ts=ts)
        elif is_from_model:
            self._read_model_action(event, kind, args, ts)
        else:
            self._read_other_action(event, kind, args, ts)

    def _read_system_prompt(self, args: Body, position: str, ts: str | None) -> None:
        self._add_message("system", args.get("content"), self._runtime, ts)
        # A definition is wrapped as the chat API wants it, or bare.
        definitions = [tool.get("function", tool) for tool in as_dicts(args.get("tools"))]
        names: list[str] = []
        for definition in as_dicts(definitions):
            name = as_text(definition.get("name"))
            if name:
                names.append(name)
        if names:
            data = {"kind": "tools", "names": names}
            self._draft.add_annotation(data, actor=self._runtime, ts=ts)
            note_tool_definitions(self._draft.note_omission, definitions, position)

    def _read_other_action(self, event: Body, kind: str, args: Body, ts: str | None) -> None:
        """Read an action of the person or the runtime."""
        self._call_keys[_get_id(event)] = None
        content: Any
        if kind == "message":
            content = _build_message_content(args)
        else:
            content = [{"type": "action", "action": kind, "arguments": args}]
        if event.get("source") == "user":
            user = self._draft.get_actor("human", "user")
            self._add_message("user", content, user, ts, "public")
        else:
            self._add_injected(content, ts)

    def _read_model_action(self, event: Body, kind: str, args: Body, ts: str | None) -> None:
        """Read an action of the model: its reasoning and text, then the call."""
        metadata = _get_object(event, "tool_call_metadata")
        usage = self._read_response(metadata, args, ts)
        if kind == "message":
            self._add_response(_build_message_content(args), ts, usage)
            return
        if kind == "finish":
            # The final response of a conversation is an argument of this call.
            final = args.get("final_thought") or args.get("message") or event.get("message")
            self._add_response(final, ts)
        call_id = as_text(metadata.get("tool_call_id"))
        given = _find_arguments(metadata, call_id)
        if given is None:
            given = {
                name: value
                for name, value in args.items()
                if name not in _CLIENT_ARGUMENTS or kind == "think"
            }
        risk = as_text(args.get("security_risk"))
        key = self._draft.add_tool_call(
            call_id,
            as_text(metadata.get("function_name")) or kind,
            given,
            self._get_model_actor(),
            ts=ts,
            span=self._span,
            usage=usage,
            group=self._response_id,
            extra={"security_risk": risk} if risk else None,
        )
        self._call_keys[_get_id(event)] = key
        self._open_calls.append(key)
        if kind == "delegate":
            self._start_delegate(key, args, ts)

    def _start_delegate(self, key: str, args: Body, ts: str | None) -> None:
        """Start the span of a delegate: until its call is answered, all events are its own."""
        if self._draft.subagents != "inline":
            self._skipped_delegate = key
            self._skipped_count = 0
        if self._draft.subagents == "none":
            return
        data: Body = {"kind": "subagent"}
        if args.get("agent"):
            data["subagent_type"] = args["agent"]
        if args.get("inputs"):
            data["spawn_reason"] = args["inputs"]
        span = self._draft.start_span(data, self._get_model_actor(), ts=ts, call=key)
        self._delegates.append(_Delegate(span, key, as_text(args.get("agent")) or "delegate"))

    def _end_delegate(self, key: str | None, position: str, ts: str | None) -> None:
        if self._skipped_delegate and self._draft.subagents == "none":
            self._draft.note_omission(
                "subagent", position, "what a subagent did is left out (subagents=none)"
            )
        if self._delegates and self._delegates[-1].call == key:
            span = self._delegates.pop().span
            data = {"records": self._skipped_count} if self._skipped_delegate else {}
            self._draft.end_span(span, data, ts=ts, call=key)
        self._skipped_delegate = None

    def _read_response(self, metadata: Body, args: Body, ts: str | None) -> Usage | None:
        """Read the reasoning and text of a response with its first action.

        Return the usage of the response if no event has it yet.
        """
        response = _get_object(metadata, "model_response")
        self._model = as_text(response.get("model")) or self._model
        provider = identify_provider(self._model)
        if provider:
            self._draft.conversation.setdefault("provider", provider)
        response_id = as_text(response.get("id"))
        # Parallel calls of one response: its text was read with the first.
        if response_id and response_id == self._response_id:
            return None
        self._response_id = response_id
        reasoning = list_reasoning(_get_message(response))
        text, reasoning = split_think_tag(as_text(args.get("thought")) or "", reasoning)
        actor = self._get_model_actor()
        for thought, is_summary in reasoning:
            self._draft.add_reasoning(thought, actor, ts=ts, span=self._span, summary=is_summary)
        response_usage = self._usage.take(response_id)
        if response_usage is None:
            response_usage = parse_usage(response.get("usage"))
            if response_usage:
                self._usage.mark_attributed(response_usage)
        if not text:
            return response_usage
        self._add_response(text, ts, response_usage)
        return None

    def _read_observation(self, event: Body, position: str, ts: str | None) -> None:
        kind = event.get("observation")
        output = event.get("content")
        extras = _get_object(event, "extras")
        key = self._find_call(event)
        # Changes of the agent's state are events too; nobody said or did anything.
        if kind in _STATE_KINDS or (kind == "error" and key is None and not output):
            self._draft.note_omission(
                "skipped-record", position, f"observation {format_kind(kind)}"
            )
            return
        # The runtime recalls microagents and facts of the workspace, for the model alone.
        if kind in _RECALL_KINDS:
            blocks: list[Any] = []
            if isinstance(output, str) and output:
                blocks.append({"type": "text", "text": output})
            facts = {name: value for name, value in extras.items() if value}
            self._add_injected([*blocks, {"type": kind, **facts}], ts)
            return
        if kind == "delegate":
            self._end_delegate(key, position, ts)
        if key is None and kind == "error":
            data = {"kind": "error", "error": output}
            self._draft.add_annotation(data, actor=self._runtime, ts=ts, span=self._span)
            return
        # The output of a command that the person ran is no result of the model's call.
        if key is None and self._answers_other_action(event):
            self._add_injected(output, ts)
            return
        self._add_result(key, kind, event, extras, ts)
        for name, value in extras.items():
            if name not in _READ_EXTRAS and value:
                self._draft.note_omission(
                    "skipped-field", position, f"field {format_kind(name)} of an observation"
                )

    def _add_result(
        self, key: str | None, kind: Any, event: Body, extras: Body, ts: str | None
    ) -> None:
        output = event.get("content")
        if output is None:
            output = ""
        urls = [extras.get("screenshot"), *_get_list(extras, "image_urls")]
        images = [
            build_media_url_block(url, "image") for url in urls if isinstance(url, str) and url
        ]
        if images:
            text = [{"type": "text", "text": output}] if output else []
            output = [*text, *images]
        facts: Body = {}
        # Older observations have the exit code beside the metadata, newer ones in it.
        metadata = extras.get("metadata")
        fields = metadata if isinstance(metadata, dict) else extras
        if type(fields.get("exit_code")) is int:
            facts["exit_code"] = fields["exit_code"]
        if event.get("success") is False or kind == "error":
            facts["is_error"] = True
        if kind == "user_rejected":
            facts["rejected"] = True
        self._draft.add_tool_result(
            key, output, ts=ts, span=self._span, facts=facts, tool=as_text(kind)
        )

    def _find_call(self, event: Body) -> str | None:
        """Return the key of the call that an observation answers."""
        call_id = as_text(_get_object(event, "tool_call_metadata").get("tool_call_id"))
        if call_id:
            return call_id
        # The cause is the id of the action.
        cause = event.get("cause")
        if isinstance(cause, int | str):
            return self._call_keys.get(cause)
        # Without call ids and causes, observations are in the order of the actions.
        while self._open_calls and not self._draft.is_call_open(self._open_calls[0]):
            self._open_calls.popleft()
        return self._open_calls[0] if self._open_calls else None

    def _answers_other_action(self, event: Body) -> bool:
        """Return whether an observation answers an action of the person or the runtime."""
        cause = event.get("cause")
        return isinstance(cause, int | str) and cause in self._call_keys


def _get_object(record: Body, name: str) -> Body:
    value = record.get(name)
    return value if isinstance(value, dict) else {}


def _get_list(record: Body, name: str) -> list[Any]:
    value = record.get(name)
    return value if isinstance(value, list) else []


def _get_id(event: Body) -> Any:
    event_id = event.get("id")
    return event_id if isinstance(event_id, int | str) else None


def _get_message(response: Body) -> Body:
    choices = as_dicts(response.get("choices"))
    return _get_object(choices[0], "message") if choices else {}


def _find_arguments(metadata: Body, call_id: str | None) -> Any:
    """Return the arguments as the model wrote them; None if its response is not stored."""
    if call_id is None:
        return None
    message = _get_message(_get_object(metadata, "model_response"))
    for call in as_dicts(message.get("tool_calls")):
        function = call.get("function")
        if call.get("id") == call_id and isinstance(function, dict):
            return parse_arguments(function.get("arguments"))
    return None


def _build_message_content(args: Body) -> str | list[Any]:
    text = args.get("content")
    blocks: list[Any] = []
    for url in _get_list(args, "image_urls"):
        if isinstance(url, str):
            blocks.append(build_media_url_block(url, "image"))
    if args.get("file_urls"):
        blocks.append({"type": "file", **pick_fields(args, "file_urls")})
    if not blocks:
        return text if isinstance(text, str) else []
    if text:
        blocks.insert(0, {"type": "text", "text": text})
    return blocks
