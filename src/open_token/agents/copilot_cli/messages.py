"""Read messages, reasoning, tool calls and results of a Copilot CLI session."""

from typing import Any

import msgspec

from open_token.builder.draft import Draft
from open_token.formats.shared.fields import as_text, drop_nulls, parse_arguments, pick_fields
from open_token.formats.shared.inline_subagents import InlineAgent
from open_token.formats.shared.providers import ProviderTracker
from open_token.formats.shared.token_usage import build_usage
from open_token.formats.shared.user_shell_commands import add_command_output, add_user_command
from open_token.jsontools.media import build_media_block
from open_token.model.document import Event, Usage

Data = dict[str, Any]
_REQUEST_FIELDS = {
    "mcpServerName": "server_name",
    "toolTitle": "title",
    "intentionSummary": "intention",
}
_RESULT_FIELDS = ("content", "contents", "detailedContent")


class MessageReader:
    """Adds the events of people, models and tools to the draft.

    Each method that reads an event takes its data, the agent that it belongs to, its time and its
    position for notes.
    """

    def __init__(self, draft: Draft, client: str, providers: ProviderTracker) -> None:
        self._draft = draft
        self._client = client
        self.providers = providers
        self._prompts: dict[str, str] = {}
        """The last prompt of each role."""
        self._calls: set[str] = set()
        self._user_calls: set[str] = set()
        """Tools that the person ran."""
        self._counted: set[str] = set()
        """Requests whose usage was assigned."""
        self.output_tokens = 0
        """Output tokens that were assigned to messages."""
        self.answers: set[str] = set()
        """The requests that were answered."""
        self.has_request_usage = False
        """Whether usage is recorded for each request, as 1.0.102 does."""
        self._pending_usage: dict[str, Usage] = {}
        """Usage of requests whose answer has not come yet."""
        self._assets: dict[str, str] = {}
        """The bytes of images, which are logged once, before the first event that shows them."""
        self.last_output: Any = None

    def get_actor(self, agent: InlineAgent) -> str:
        """Return the actor of the model that speaks as this agent."""
        if not agent.actor:
            provider = self.providers.add_model(None, agent.model)
            agent.actor = self._draft.get_actor(
                "model",
                agent.name,
                provider=provider,
                model=agent.model,
                instance_id=agent.instance,
            )
        return agent.actor

    def _get_answering_actor(self, agent: InlineAgent, data: Data) -> str:
        """Return the actor of an answer, which may name another model."""
        model = as_text(data.get("model"))
        if model and model != agent.model:
            agent.model = model
            agent.actor = ""
        return self.get_actor(agent)

    def read_system(self, data: Data, agent: InlineAgent, ts: str | None, position: str) -> None:
        """Read the system prompt, which is logged for every turn and exported when it changes."""
        role = data.get("role")
        text = _to_text(data.get("content"))
        if self._prompts.get(str(role)) == text:
            self._draft.note_omission("repeated-prompt", position, "repeated system prompt")
            return
        self._prompts[str(role)] = text
        self._draft.add_message(
            "developer" if role == "developer" else "system",
            text,
            self._client,
            ts=ts,
            span=agent.span,
        )

    def read_notification(
        self, data: Data, agent: InlineAgent, ts: str | None, position: str
    ) -> None:
        """Read a message of the runtime to the model."""
        message = self._add_internal(_to_text(data.get("content")), agent, ts)
        kind = data.get("kind")
        if isinstance(kind, dict) and kind:
            facts = {name: value for name, value in kind.items() if name != "type"}
            self._draft.add_annotation(
                {"kind": "notice", "subtype": kind.get("type"), **facts}, parent=message, ts=ts
            )

    def read_skill(self, data: Data, agent: InlineAgent, ts: str | None, position: str) -> None:
        """Read a skill whose text was sent to the model."""
        message = self._add_internal(_to_text(data.get("content")), agent, ts)
        facts = {"skill": as_text(data.get("name")), "path": as_text(data.get("path"))}
        self._draft.add_annotation(
            {"kind": "message_facts", **drop_nulls(facts)}, parent=message, ts=ts
        )

    def _add_internal(self, text: str, agent: InlineAgent, ts: str | None) -> Event:
        return self._draft.add_message(
            "user", text, self._client, ts=ts, visibility="internal", span=agent.span
        )

    def read_user(self, data: Data, agent: InlineAgent, ts: str | None, position: str) -> None:
        """Read a prompt as typed; what was sent, with date and reminders, is annotated."""
        typed = _to_text(data.get("content"))
        sent = as_text(data.get("transformedContent"))
        blocks = [self._normalize_media(block) for block in _to_list(data.get("attachments"))]
        is_empty = not typed and not blocks
        is_from_user = as_text(data.get("source")) in (None, "user")
        # The prompt of a subagent is one of the user too, but belongs to a call.
        is_typed = not is_empty and is_from_user and not agent.call
        if is_empty and sent:
            # In autopilot mode the runtime asks the model to continue.
            typed = sent
            sent = None
        elif is_empty and "content" not in data:
            self._draft.note_omission("no-content", position, "prompt without content")
        content: str | list[Any] = typed
        if blocks:
            content = [{"type": "text", "text": typed}, *blocks]
        message = self._draft.add_message(
            "user",
            content,
            self._draft.get_actor("human", "user") if is_typed else self._client,
            ts=ts,
            visibility="public" if is_typed else "internal",
            span=agent.span,
        )
        # The model got the prompt with the date and reminders around it.
        if sent and sent != typed:
            self._draft.add_annotation({"kind": "sent_text", "text": sent}, parent=message, ts=ts)

    def read_reasoning(self, data: Data, agent: InlineAgent, ts: str | None, position: str) -> None:
        """Read reasoning in an event of its own; the next answer may repeat it."""
        text = as_text(data.get("content"))
        if text:
            agent.thought = (text, ts)

    def flush_reasoning(self, agent: InlineAgent) -> str | None:
        """Add reasoning that waits for its answer, and return its text."""
        if agent.thought is None:
            return None
        text, ts = agent.thought
        agent.thought = None
        self._draft.add_reasoning(text, self.get_actor(agent), ts=ts, span=agent.span)
        return text

    def read_assistant(self, data: Data, agent: InlineAgent, ts: str | None, position: str) -> None:
        """Read an answer: reasoning, text and calls."""
        actor = self._get_answering_actor(agent, data)
        usage = self._take_usage(data)
        # 1.0.102 names the request of an answer; earlier versions only the message.
        request_id = as_text(data.get("apiCallId")) or as_text(data.get("messageId"))
        self.answers.add(request_id or position)
        reasoning = self._add_reasoning(data, agent, actor, ts)
        requests = _to_list(data.get("toolRequests"))
        if "content" not in data and not requests:
            self._draft.note_omission("no-content", position, "answer without content")
        text = as_text(data.get("content"))
        if text:
            self._draft.add_message(
                "assistant",
                text,
                actor,
                ts=ts,
                visibility=agent.visibility,
                span=agent.span,
                usage=usage,
            )
            usage = None
        for request in requests:
            if not _is_tool_request(request):
                self._draft.note_omission(
                    "odd-value", position, "tool request with neither id nor name"
                )
                continue
            self._add_call(request, request.get("name"), actor, agent, ts, position, usage)
            usage = None
        if usage and reasoning is not None:
            self._draft.set_usage(reasoning, usage)
        elif usage:
            self._draft.add_annotation(
                {"kind": "usage"}, actor=actor, ts=ts, span=agent.span, usage=usage
            )

    def _add_reasoning(
        self, data: Data, agent: InlineAgent, actor: str, ts: str | None
    ) -> Event | None:
        """Add the reasoning of an answer, unless the event before it held the same."""
        earlier = self.flush_reasoning(agent)
        text = as_text(data.get("reasoningText"))
        is_encrypted = bool(data.get("reasoningOpaque") or data.get("encryptedContent"))
        if text:
            is_new = text != earlier
        else:
            # Reasoning that is only encrypted is that of the event before it, if there was one.
            is_new = is_encrypted and not earlier
        if not is_new:
            return None
        return self._draft.add_reasoning(text, actor, ts=ts, span=agent.span)

    def read_usage(self, data: Data, agent: InlineAgent, ts: str | None, position: str) -> None:
        """Read the usage of a request, which is logged before its answer."""
        self.has_request_usage = True
        usage = _parse_usage(data.get("usage"))
        if usage:
            request = as_text(_get_nested(data, "usage", "apiCallId"))
            self._pending_usage[request or position] = usage

    def flush_usage(self, agent: InlineAgent) -> None:
        """Add the usage of requests without an answer."""
        for usage in self._pending_usage.values():
            self._draft.add_annotation({"kind": "usage"}, actor=self.get_actor(agent), usage=usage)

    def _take_usage(self, data: Data) -> Usage | None:
        """Return the usage of an answer once for all its parts.

        Older versions record no requests; there only the output tokens are known.
        """
        request = as_text(data.get("apiCallId")) or as_text(data.get("messageId"))
        usage = self._pending_usage.pop(request or "", None)
        if usage:
            self._counted.add(request or "")
            return usage
        count = data.get("outputTokens")
        if type(count) is not int or count <= 0 or (request and request in self._counted):
            return None
        if request:
            self._counted.add(request)
        self.output_tokens += count
        return build_usage(output_tokens=count)

    def _add_call(
        self,
        request: Data,
        tool: Any,
        actor: str,
        agent: InlineAgent,
        ts: str | None,
        position: str,
        usage: Usage | None = None,
    ) -> None:
        call_id = as_text(request.get("toolCallId"))
        if call_id:
            self._calls.add(call_id)
        extra = {
            name: request[key] for key, name in _REQUEST_FIELDS.items() if as_text(request.get(key))
        }
        self._draft.add_tool_call(
            call_id,
            as_text(tool) or "tool",
            parse_arguments(request.get("arguments")),
            actor,
            ts=ts,
            span=agent.span,
            usage=usage,
            group=position,
            extra=extra or None,
        )

    def read_user_requested(
        self, data: Data, agent: InlineAgent, ts: str | None, position: str
    ) -> None:
        """Read a tool that the person ran: no call of the model."""
        tool = as_text(data.get("toolName")) or "tool"
        given = parse_arguments(data.get("arguments"))
        # A shell command is shown as it is, any other tool with its arguments.
        command = given.get("command") if isinstance(given, dict) else given
        if not isinstance(command, str):
            command = f"{tool} {msgspec.json.encode(given).decode()}"
        person = self._draft.get_actor("human", "user")
        add_user_command(self._draft, command, person, {"tool": tool}, ts=ts, span=agent.span)
        call_id = as_text(data.get("toolCallId"))
        if call_id:
            self._user_calls.add(call_id)

    def read_start(self, data: Data, agent: InlineAgent, ts: str | None, position: str) -> None:
        """Read the start of an execution; it is a call if no answer requested it."""
        # Usually the answer has the arguments already: the same call must not be added twice.
        call_id = as_text(data.get("toolCallId"))
        if call_id is None or (call_id not in self._calls and call_id not in self._user_calls):
            actor = self._get_answering_actor(agent, data)
            self._add_call(data, data.get("toolName"), actor, agent, ts, position)

    def read_completion(
        self, data: Data, agent: InlineAgent, ts: str | None, position: str
    ) -> None:
        """Read a result as the model got it, not the longer text that the person was shown."""
        call_id = as_text(data.get("toolCallId"))
        result = data.get("result")
        error = data.get("error")
        output = self._build_output(result)
        if not error and not _has_content(result):
            self._draft.note_omission("no-content", position, "result without content")
        facts: Data = {}
        if data.get("success") is False or error:
            facts["is_error"] = True
        if isinstance(error, dict):
            facts |= pick_fields(error, "code")
            output = output or _to_text(error.get("message"))
        elif error:
            output = output or _to_text(error)
        self.last_output = output
        # How long a tool ran is known from its telemetry alone.
        duration = _get_nested(data.get("toolTelemetry"), "metrics", "durationMs")
        if type(duration) in (int, float):
            facts["duration_ms"] = duration
        if call_id in self._user_calls:
            add_command_output(self._draft, output, self._client, ts=ts, span=agent.span)
        else:
            self._draft.add_tool_result(
                call_id, output, ts=ts, span=agent.span, facts=facts or None
            )
        detailed = result.get("detailedContent") if isinstance(result, dict) else None
        if detailed and detailed != output:
            self._draft.note_omission(
                "side-data", position, "detailed view of a result, which the model did not see"
            )

    def read_asset(self, data: Data, agent: InlineAgent, ts: str | None, position: str) -> None:
        """Read the bytes of an image."""
        asset_id = as_text(data.get("assetId"))
        if asset_id and isinstance(data.get("data"), str):
            self._assets[asset_id] = data["data"]
        else:
            self._draft.note_omission("no-content", position, "asset without bytes")

    def _normalize_media(self, block: Any) -> Any:
        """Return an attachment with its bytes in the export's form for media."""
        if not isinstance(block, dict) or "mimeType" not in block:
            return block
        data = block.get("data", self._assets.get(str(block.get("assetId"))))
        if not isinstance(data, str):
            return block
        kind = as_text(block.get("type")) or "blob"
        media = build_media_block(as_text(block["mimeType"]), data, kind)
        for name, value in block.items():
            if name not in ("type", "data", "mimeType"):
                media[name] = value
        return media

    def _build_output(self, result: Any) -> str | list[Any]:
        """Return what the model got: the text, and images and sounds after it."""
        if not isinstance(result, dict):
            return _to_text(result)
        text = _to_text(result.get("content"))
        blocks = [
            block
            for block in _to_list(result.get("contents"))
            if isinstance(block, dict) and "data" in block
        ]
        # Binary results may be in either field.
        blocks += _to_list(result.get("binaryResultsForLlm"))
        if not blocks:
            return text
        return [{"type": "text", "text": text}, *map(self._normalize_media, blocks)]


def _is_tool_request(request: Any) -> bool:
    return isinstance(request, dict) and bool(request.get("toolCallId") or request.get("name"))


def _has_content(result: Any) -> bool:
    if isinstance(result, dict):
        return not result.keys().isdisjoint(_RESULT_FIELDS)
    return result is not None


def _parse_usage(usage: Any) -> Usage | None:
    """Return the usage of a request; its input includes cached tokens."""
    if not isinstance(usage, dict):
        return None
    return build_usage(
        input_tokens=usage.get("inputTokens"),
        output_tokens=usage.get("outputTokens"),
        reasoning_tokens=usage.get("reasoningTokens"),
        cache_read_tokens=usage.get("cacheReadTokens"),
        cache_write_tokens=usage.get("cacheWriteTokens"),
    )


def _to_text(value: Any) -> str:
    """Return a text as it is, anything else as JSON, so that nothing is lost."""
    if isinstance(value, str):
        return value
    return "" if value is None else msgspec.json.encode(value).decode()


def _to_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _get_nested(value: Any, *names: str) -> Any:
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value
