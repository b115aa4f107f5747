"""What people, models and tools said in a Copilot CLI session, as draft verbs."""

from typing import Any

import msgspec

from open_token.builder.draft import Draft
from open_token.formats.shared.fields import as_text, parse_arguments, pick_fields
from open_token.formats.shared.inline_subagents import InlineAgent
from open_token.formats.shared.providers import ProviderTracker
from open_token.formats.shared.token_usage import build_usage
from open_token.formats.shared.user_shell_commands import add_command_output, add_user_command
from open_token.jsontools.media import build_media_block
from open_token.model.document import Event, Usage

Data = dict[str, Any]
_REQUEST_FACTS = {
    "mcpServerName": "server_name",
    "toolTitle": "title",
    "intentionSummary": "intention",
}
_RESULT = ("content", "contents", "detailedContent")


class Talk:
    """Tells messages, thoughts, calls and results."""

    def __init__(self, draft: Draft, client: str, providers: ProviderTracker) -> None:
        self._draft = draft
        self._client = client
        self.providers = providers
        self._prompts: dict[str, str] = {}
        """By role: the prompt that was told last."""
        self._called: set[str] = set()
        self._run_by_person: set[str] = set()
        self._counted: set[str] = set()
        self.counted = 0
        """Output tokens that messages were given."""
        self.answers: set[str] = set()
        """The requests that were answered."""
        self.is_recorded = False
        """Whether requests are counted one by one, as 1.0.102 does."""
        self._unanswered: dict[str, Usage] = {}
        """What requests took, until their answer comes."""
        self._assets: dict[str, str] = {}
        """The bytes of pictures, which are logged once, before whoever shows them."""
        self.last_output: Any = None

    def speaker(self, agent: InlineAgent) -> str:
        """The actor of the model that speaks as this agent."""
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

    def _hear(self, agent: InlineAgent, data: Data) -> str:
        """The actor of an answer, which may name its model."""
        model = as_text(data.get("model"))
        if model and model != agent.model:
            agent.model, agent.actor = model, ""
        return self.speaker(agent)

    def system(self, data: Data, agent: InlineAgent, ts: str | None, place: str) -> None:
        """The whole prompt, which is logged anew for every turn: told when it is another one."""
        role, words = data.get("role"), _text(data.get("content"))
        if self._prompts.get(str(role)) == words:
            self._draft.note_omission(
                "repeated-prompt", place, "a system prompt that was told already"
            )
            return
        self._prompts[str(role)] = words
        self._draft.add_message(
            "developer" if role == "developer" else "system",
            words,
            self._client,
            ts=ts,
            span=agent.span,
        )

    def notification(self, data: Data, agent: InlineAgent, ts: str | None, place: str) -> None:
        """What the runtime tells the model on its own."""
        words, about = _text(data.get("content")), data.get("kind")
        said = self._draft.add_message(
            "user", words, self._client, ts=ts, visibility="internal", span=agent.span
        )
        if isinstance(about, dict) and about:
            facts = {name: value for name, value in about.items() if name != "type"}
            self._draft.add_annotation(
                {"kind": "notice", "subtype": about.get("type"), **facts}, parent=said, ts=ts
            )

    def skill(self, data: Data, agent: InlineAgent, ts: str | None, place: str) -> None:
        """A skill whose text went into the talk."""
        words = _text(data.get("content"))
        said = self._draft.add_message(
            "user", words, self._client, ts=ts, visibility="internal", span=agent.span
        )
        facts = {"skill": as_text(data.get("name")), "path": as_text(data.get("path"))}
        self._draft.add_annotation(
            {"kind": "message_facts", **pick_fields(facts, *facts)}, parent=said, ts=ts
        )

    def user(self, data: Data, agent: InlineAgent, ts: str | None, place: str) -> None:
        """What was typed; the model got another text, with the date and reminders around it."""
        typed, sent = _text(data.get("content")), as_text(data.get("transformedContent"))
        blocks = [self._attached(item) for item in _list(data.get("attachments"))]
        by_person = (
            bool(typed or blocks)
            and as_text(data.get("source")) in (None, "user")
            and not agent.call
        )
        if not typed and not blocks and sent:
            # Autopilot asks for more in the person's place.
            typed, sent = sent, None
        if not typed and not blocks and "content" not in data:
            self._draft.note_omission("no-content", place, "a prompt without content")
        said = self._draft.add_message(
            "user",
            [{"type": "text", "text": typed}, *blocks] if blocks else typed,
            self._draft.get_actor("human", "user") if by_person else self._client,
            ts=ts,
            visibility="public" if by_person else "internal",
            span=agent.span,
        )
        if sent and sent != typed:
            self._draft.add_annotation({"kind": "sent_text", "text": sent}, parent=said, ts=ts)

    def reasoning(self, data: Data, agent: InlineAgent, ts: str | None, place: str) -> None:
        """A thought in a line of its own; the answer that follows may hold it again."""
        if words := as_text(data.get("content")):
            agent.thought = (words, ts)

    def finish_thought(self, agent: InlineAgent) -> str | None:
        """Tell the thought that no answer has come to yet; gives its words."""
        if agent.thought is None:
            return None
        (words, ts), agent.thought = agent.thought, None
        self._draft.add_reasoning(words, self.speaker(agent), ts=ts, span=agent.span)
        return words

    def assistant(self, data: Data, agent: InlineAgent, ts: str | None, place: str) -> None:
        """An answer: thought, words, calls."""
        actor, spent = self._hear(agent, data), self._spent(data)
        self.answers.add(as_text(data.get("apiCallId")) or as_text(data.get("messageId")) or place)
        last = self._think(data, agent, actor, ts)
        if "content" not in data and not _list(data.get("toolRequests")):
            self._draft.note_omission("no-content", place, "an answer without content")
        if words := as_text(data.get("content")):
            self._draft.add_message(
                "assistant",
                words,
                actor,
                ts=ts,
                visibility=agent.visibility,
                span=agent.span,
                usage=spent,
            )
            spent = None
        for request in _list(data.get("toolRequests")):
            if not (
                isinstance(request, dict) and (request.get("toolCallId") or request.get("name"))
            ):
                self._draft.note_omission(
                    "odd-value", place, "a tool request without an id and a name"
                )
                continue
            self._call(request, request.get("name"), actor, agent, ts, place, spent)
            spent = None
        if spent and last is not None:
            self._draft.set_usage(last, spent)
        elif spent:
            self._draft.add_annotation(
                {"kind": "usage"}, actor=actor, ts=ts, span=agent.span, usage=spent
            )

    def _think(self, data: Data, agent: InlineAgent, actor: str, ts: str | None) -> Event | None:
        told = self.finish_thought(agent)
        words = as_text(data.get("reasoningText"))
        is_sealed = bool(data.get("reasoningOpaque") or data.get("encryptedContent"))
        if (words and words != told) or (is_sealed and not words and not told):
            return self._draft.add_reasoning(words, actor, ts=ts, span=agent.span)
        return None

    def spending(self, data: Data, agent: InlineAgent, ts: str | None, place: str) -> None:
        """What a request took; its answer comes after it."""
        self.is_recorded = True
        if spent := _usage(data.get("usage")):
            self._unanswered[as_text(_inside(data, "usage", "apiCallId")) or place] = spent

    def finish_spending(self, agent: InlineAgent) -> None:
        """Tell what requests took whose answer never came."""
        for spent in self._unanswered.values():
            self._draft.add_annotation({"kind": "usage"}, actor=self.speaker(agent), usage=spent)

    def _spent(self, data: Data) -> Usage | None:
        """What an answer took, once for all its parts; where no request is counted, only its output
        is."""
        name, count = (
            as_text(data.get("apiCallId")) or as_text(data.get("messageId")),
            data.get("outputTokens"),
        )
        if spent := self._unanswered.pop(name or "", None):
            self._counted.add(name or "")
            return spent
        if type(count) is not int or count <= 0 or (name and name in self._counted):
            return None
        if name:
            self._counted.add(name)
        self.counted += count
        return build_usage(output_tokens=count)

    def _call(
        self,
        request: Data,
        tool: Any,
        actor: str,
        agent: InlineAgent,
        ts: str | None,
        place: str,
        spent: Usage | None = None,
    ) -> None:
        name = as_text(request.get("toolCallId"))
        if name:
            self._called.add(name)
        extra = {
            ours: request[key] for key, ours in _REQUEST_FACTS.items() if as_text(request.get(key))
        }
        self._draft.add_tool_call(
            name,
            as_text(tool) or "tool",
            parse_arguments(request.get("arguments")),
            actor,
            ts=ts,
            span=agent.span,
            usage=spent,
            group=place,
            extra=extra or None,
        )

    def user_requested(self, data: Data, agent: InlineAgent, ts: str | None, place: str) -> None:
        """The person ran a tool: no call of the model."""
        tool, given = (
            as_text(data.get("toolName")) or "tool",
            parse_arguments(data.get("arguments")),
        )
        command = given.get("command") if isinstance(given, dict) else given
        if not isinstance(command, str):
            command = f"{tool} {msgspec.json.encode(given).decode()}"
        add_user_command(
            self._draft,
            command,
            self._draft.get_actor("human", "user"),
            {"tool": tool},
            ts=ts,
            span=agent.span,
        )
        if name := as_text(data.get("toolCallId")):
            self._run_by_person.add(name)

    def started(self, data: Data, agent: InlineAgent, ts: str | None, place: str) -> None:
        """A call is carried out; it is told only when no answer asked for it."""
        name = as_text(data.get("toolCallId"))
        if name is None or (name not in self._called and name not in self._run_by_person):
            self._call(data, data.get("toolName"), self._hear(agent, data), agent, ts, place)

    def completed(self, data: Data, agent: InlineAgent, ts: str | None, place: str) -> None:
        """The result: what the model got, and not the longer text that the person was shown."""
        name, result, error = as_text(data.get("toolCallId")), data.get("result"), data.get("error")
        output = self._output(result)
        if not error and (
            result.keys().isdisjoint(_RESULT) if isinstance(result, dict) else result is None
        ):
            self._draft.note_omission("no-content", place, "a result without content")
        facts: Data = {"is_error": True} if data.get("success") is False or error else {}
        if error:
            facts |= pick_fields(error, "code") if isinstance(error, dict) else {}
            message = error.get("message") if isinstance(error, dict) else error
            output = output or _text(message)
        self.last_output = output
        if type(took := _inside(data.get("toolTelemetry"), "metrics", "durationMs")) in (
            int,
            float,
        ):
            facts["duration_ms"] = took
        if name in self._run_by_person:
            add_command_output(self._draft, output, self._client, ts=ts, span=agent.span)
        else:
            self._draft.add_tool_result(name, output, ts=ts, span=agent.span, facts=facts or None)
        detailed = result.get("detailedContent") if isinstance(result, dict) else None
        if detailed and detailed != output:
            self._draft.note_omission(
                "side-data", place, "the detailed view of a result, which the model did not see"
            )

    def asset(self, data: Data, agent: InlineAgent, ts: str | None, place: str) -> None:
        """The bytes of a picture."""
        if (name := as_text(data.get("assetId"))) and isinstance(data.get("data"), str):
            self._assets[name] = data["data"]
        else:
            self._draft.note_omission("no-content", place, "an asset without bytes")

    def _attached(self, item: Any) -> Any:
        """An attachment as a block; the bytes of a picture in the form that all media have."""
        if not isinstance(item, dict) or "mimeType" not in item:
            return item
        held = item.get("data", self._assets.get(str(item.get("assetId"))))
        if not isinstance(held, str):
            return item
        rest = {
            name: value for name, value in item.items() if name not in ("type", "data", "mimeType")
        }
        return (
            build_media_block(as_text(item["mimeType"]), held, as_text(item.get("type")) or "blob")
            | rest
        )

    def _output(self, result: Any) -> str | list[Any]:
        """What the model got; pictures and sounds that came with it stand behind the text."""
        if not isinstance(result, dict):
            return _text(result)
        text = _text(result.get("content"))
        blocks = [
            block
            for block in _list(result.get("contents"))
            if isinstance(block, dict) and "data" in block
        ]
        blocks += _list(result.get("binaryResultsForLlm"))
        return [{"type": "text", "text": text}, *map(self._attached, blocks)] if blocks else text


def _usage(used: Any) -> Usage | None:
    """The figures of a request; its input counts what was cached."""
    if not isinstance(used, dict):
        return None
    return build_usage(
        input_tokens=used.get("inputTokens"),
        output_tokens=used.get("outputTokens"),
        reasoning_tokens=used.get("reasoningTokens"),
        cache_read_tokens=used.get("cacheReadTokens"),
        cache_write_tokens=used.get("cacheWriteTokens"),
    )


def _text(value: Any) -> str:
    """A text; what is none, as JSON, so that nothing is lost."""
    if isinstance(value, str):
        return value
    return "" if value is None else msgspec.json.encode(value).decode()


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _inside(value: Any, *names: str) -> Any:
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value
