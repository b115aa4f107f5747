"""What each kind of event of the OpenHands SDK is in the record."""

from collections.abc import Callable, Iterator
from typing import Any

from open_token.agents.openhands.usage import Spending
from open_token.builder.draft import Draft
from open_token.formats.shared.fields import as_dicts, as_text, parse_arguments, pick_fields
from open_token.formats.shared.notes import format_kind, note_tool_definitions
from open_token.formats.shared.providers import identify_provider
from open_token.formats.shared.reasoning import ReasoningText, list_reasoning, split_think_tag
from open_token.jsontools.media import build_media_url_block
from open_token.jsontools.timestamps import to_utc
from open_token.model.document import Role, Visibility

Body = dict[str, Any]
_SMALL = 200
_SAID = (
    "content",
    "tool_calls",
    "reasoning_content",
    "thinking_blocks",
    "responses_reasoning_item",
)
_SHELL = ("username", "hostname", "py_interpreter_path")
_RISKS = ("LOW", "MEDIUM", "HIGH")
_TOLD_OF_A_RESULT = frozenset(
    "content is_error exit_code timeout metadata kind command output text error".split()
)


class Talk:
    """Tells events one by one; knows who speaks and what was spent."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self.runtime = draft.get_actor("system", "OpenHands")
        self._spending = Spending()
        self._model: str | None = None
        self._actor: str | None = None
        self._said: tuple[str | None, Any] = (None, None)
        """The answer of the model that spoke last, and what it said: parallel calls repeat it."""
        self._started: set[str] = set()
        self._kinds: dict[str, Callable[[Body, str, str | None], None]] = {
            "SystemPromptEvent": self._prompt,
            "MessageEvent": self._message,
            "ActionEvent": self._action,
            "ObservationEvent": self._observation,
            "UserRejectObservation": self._rejection,
            "AgentErrorEvent": self._error,
            "ConversationErrorEvent": self._failure,
            "Condensation": self._condensation,
            "CondensationEvent": self._condensation,
            "CondensationSummaryEvent": self._condensation,
            "PauseEvent": self._interrupt,
            "InterruptEvent": self._interrupt,
            "ConversationStateUpdateEvent": self._update,
            "ACPToolCallEvent": self._outside_call,
        }

    def meet(self, state: Body) -> None:
        """What the state tells of the whole: its id, its folder, its model, what each answer
        cost."""
        if name := as_text(state.get("id")):
            self._draft.conversation["id"] = name
        agent = state.get("agent")
        llm = agent.get("llm") if isinstance(agent, dict) else None
        self._speak(llm.get("model") if isinstance(llm, dict) else None)
        workspace = state.get("workspace")
        folder = workspace.get("working_dir") if isinstance(workspace, dict) else None
        facts = {
            "cwd": as_text(folder),
            "model": self._model,
            "status": as_text(state.get("execution_status")),
        }
        known = {name: value for name, value in facts.items() if value}
        self._draft.add_annotation({"kind": "context"} | known, actor=self.runtime)
        tools = (
            [name for tool in as_dicts(agent.get("tools")) if (name := as_text(tool.get("name")))]
            if agent
            else []
        )
        if agent and tools:
            self._draft.add_annotation({"kind": "tools", "names": tools}, actor=self.runtime)
            note_tool_definitions(self._draft.note_omission, agent.get("tools"), "base_state.json")
        self._spending.take(state.get("stats"))

    def ask(self, model: str | None, spent: Any) -> None:
        """The model that is asked, and its figures, where they do not stand in a state."""
        self._speak(model)
        if isinstance(spent, dict):
            self._spending.add("agent", spent)

    def tell(self, event: Body, place: str) -> None:
        """One event."""
        kind = event["kind"]
        stamp = event.get("timestamp")
        ts = to_utc(stamp)
        if ts is None and isinstance(stamp, str):
            self._draft.note_omission("time-without-zone", place, "a time without a zone")
        tell = self._kinds.get(kind)
        if tell is None:
            self._draft.note_omission("skipped-record", place, f"kind {format_kind(kind)}")
        else:
            tell(event, place, ts)

    def finish(self) -> None:
        """What was spent on nothing that was told."""
        if totals := self._spending.totals():
            data = {"kind": "usage", "by": totals}
            self._draft.add_annotation(data, actor=self.runtime, usage=self._spending.rest())

    def _speak(self, model: Any) -> None:
        self._model = as_text(model) or self._model
        self._actor = None
        if provider := identify_provider(self._model):
            self._draft.conversation.setdefault("provider", provider)

    @property
    def _agent(self) -> str:
        if self._actor is None:
            self._actor = self._draft.get_actor(
                "model", "agent", provider=identify_provider(self._model), model=self._model
            )
        return self._actor

    def _say(
        self,
        role: Role,
        words: Any,
        actor: str,
        ts: str | None,
        visibility: Visibility | None = None,
        spent: Any = None,
    ) -> None:
        """Words, when there are any."""
        if said := content(words):
            usage = self._spending.of(spent) if spent else None
            self._draft.add_message(role, said, actor, ts=ts, visibility=visibility, usage=usage)

    def _think(self, found: list[ReasoningText], ts: str | None) -> None:
        for text, summary in found:
            self._draft.add_reasoning(text, self._agent, ts=ts, summary=summary)

    def _prompt(self, event: Body, place: str, ts: str | None) -> None:
        self._say("system", event.get("system_prompt"), self.runtime, ts)
        self._say("system", event.get("dynamic_context"), self.runtime, ts)
        functions = [tool.get("function", tool) for tool in as_dicts(event.get("tools"))]
        named = [
            as_text(made.get("name")) or as_text(made.get("title")) or as_text(made.get("kind"))
            for made in functions
            if isinstance(made, dict)
        ]
        if names := [name for name in named if name]:
            self._draft.add_annotation({"kind": "tools", "names": names}, actor=self.runtime, ts=ts)
            note_tool_definitions(self._draft.note_omission, functions, place)

    def _message(self, event: Body, place: str, ts: str | None) -> None:
        message = event.get("llm_message")
        if not isinstance(message, dict) or message.keys().isdisjoint(_SAID):
            self._draft.note_omission("empty-message", place, "a message without content")
            return
        if message.get("role") == "assistant":
            said, found = split_think_tag(content(message.get("content")), list_reasoning(message))
            self._think(found, ts)
            self._say("assistant", said, self._agent, ts, spent=event.get("llm_response_id"))
            for call in as_dicts(message.get("tool_calls")):
                self._call(
                    as_text(call.get("id")),
                    call.get("name"),
                    parse_arguments(call.get("arguments")),
                    event,
                    ts,
                )
        elif message.get("role") == "system":
            self._say("system", message.get("content"), self.runtime, ts)
        else:
            self._ask(event, message, ts)
        self._say("user", event.get("extended_content"), self.runtime, ts, "internal")
        if skills := event.get("activated_skills"):
            self._draft.add_annotation(
                {"kind": "message_facts", "activated_skills": skills}, actor=self.runtime, ts=ts
            )

    def _ask(self, event: Body, message: Body, ts: str | None) -> None:
        """In the user's place: the person, another agent, or the runtime itself."""
        sender = as_text(event.get("sender"))
        if event.get("source") == "user" and not sender:
            self._say("user", message.get("content"), self._draft.get_actor("human", "user"), ts)
        else:
            actor = self._draft.get_actor("model", sender) if sender else self.runtime
            self._say("user", message.get("content"), actor, ts, "internal")

    def _action(self, event: Body, place: str, ts: str | None) -> None:
        answer = as_text(event.get("llm_response_id"))
        said, found = split_think_tag(content(event.get("thought")), list_reasoning(event))
        if not answer or (answer, [said, found]) != self._said:
            self._think(found, ts)
            self._say("assistant", said, self._agent, ts, spent=answer)
            self._said = answer, [said, found]
        call, action = event.get("tool_call"), event.get("action")
        given = parse_arguments(call.get("arguments")) if isinstance(call, dict) else None
        if given is None:
            given = (
                {name: value for name, value in action.items() if name != "kind"}
                if isinstance(action, dict)
                else {}
            )
        if isinstance(action, dict) and action.get("kind") == "FinishAction":
            # The last word of a conversation is the argument of this call.
            self._say("assistant", action.get("message"), self._agent, ts, spent=answer)
        name = event.get("tool_name") or (call.get("name") if isinstance(call, dict) else None)
        native = as_text(event.get("tool_call_id")) or (
            as_text(call.get("id")) if isinstance(call, dict) else None
        )
        self._call(native, name, given, event, ts)

    def _call(self, native: str | None, name: Any, given: Any, event: Body, ts: str | None) -> None:
        risk = event.get("security_risk")
        extra = {"security_risk": risk} if risk in _RISKS else None
        answer = event.get("llm_response_id")
        usage = self._spending.of(answer)
        self._draft.add_tool_call(
            native,
            as_text(name) or "tool",
            given,
            self._agent,
            ts=ts,
            usage=usage,
            group=as_text(answer),
            extra=extra,
        )

    def _observation(self, event: Body, place: str, ts: str | None) -> None:
        seen = event.get("observation")
        tool, native = as_text(event.get("tool_name")), as_text(event.get("tool_call_id"))
        if not isinstance(seen, dict):
            self._draft.add_tool_result(native, "" if seen is None else seen, ts=ts, tool=tool)
            return
        facts = _facts(seen)
        if native is None or not self._draft.is_call_open(native):
            facts |= pick_fields(seen, "command")  # nothing else tells what was called
        for name, value in seen.items():
            if name in _TOLD_OF_A_RESULT or value in (None, "", [], {}, False):
                continue
            if isinstance(value, int | float) or (isinstance(value, str) and len(value) <= _SMALL):
                facts.setdefault(name, value)
            else:
                self._draft.note_omission(
                    "skipped-field", place, f"field {format_kind(name)} of an observation"
                )
        if isinstance(about := seen.get("metadata"), dict) and any(
            about.get(name) for name in _SHELL
        ):
            self._draft.note_omission(
                "skipped-field", place, "who and where the shell of an observation was"
            )
        self._draft.add_tool_result(native, _output(seen), ts=ts, tool=tool, facts=facts)
        self._say("user", event.get("extended_content"), self.runtime, ts, "internal")

    def _rejection(self, event: Body, place: str, ts: str | None) -> None:
        facts: Body = {"rejected": True}
        if source := as_text(event.get("rejection_source")):
            facts["rejection_source"] = source
        output = event.get("rejection_reason")
        native, tool = as_text(event.get("tool_call_id")), as_text(event.get("tool_name"))
        self._draft.add_tool_result(
            native, "" if output is None else output, ts=ts, tool=tool, facts=facts
        )

    def _error(self, event: Body, place: str, ts: str | None) -> None:
        native = as_text(event.get("tool_call_id"))
        if native is None:
            self._draft.add_annotation(
                {"kind": "error", "error": event.get("error")}, actor=self.runtime, ts=ts
            )
            return
        output, tool = event.get("error"), as_text(event.get("tool_name"))
        self._draft.add_tool_result(
            native, "" if output is None else output, ts=ts, tool=tool, facts={"is_error": True}
        )

    def _failure(self, event: Body, place: str, ts: str | None) -> None:
        self._draft.add_annotation(
            {"kind": "error"} | pick_fields(event, "code", "detail"), actor=self.runtime, ts=ts
        )

    def _condensation(self, event: Body, place: str, ts: str | None) -> None:
        self._say("user", event.get("summary"), self.runtime, ts, "internal")
        forgotten = event.get("forgotten_event_ids")
        data: Body = {"kind": "compaction"}
        if isinstance(forgotten, list):
            data["forgotten_events"] = len(forgotten)
        self._draft.add_annotation(
            data, actor=self.runtime, ts=ts, usage=self._spending.of(event.get("llm_response_id"))
        )

    def _interrupt(self, event: Body, place: str, ts: str | None) -> None:
        data: Body = {"kind": "interrupted"} | pick_fields(event, "reason")
        if event["kind"] == "PauseEvent":
            data["paused"] = True
        self._draft.add_annotation(data, actor=self._draft.get_actor("human", "user"), ts=ts)

    def _update(self, event: Body, place: str, ts: str | None) -> None:
        key, value = event.get("key"), event.get("value")
        if key == "stats":
            self._speak(self._spending.take(value))
        elif key == "full_state" and isinstance(value, dict):
            self._speak(self._spending.take(value.get("stats")))
        else:
            self._draft.note_omission("skipped-record", place, f"state update {format_kind(key)}")

    def _outside_call(self, event: Body, place: str, ts: str | None) -> None:
        """A call that an agent behind ACP made: told when it starts, answered when it ends."""
        native = as_text(event.get("tool_call_id"))
        tool = as_text(event.get("tool_kind")) or as_text(event.get("title")) or "tool"
        if native is None or native not in self._started:
            given = event.get("raw_input")
            extra = pick_fields(event, "title", "parent_tool_call_id")
            key = self._draft.add_tool_call(
                native, tool, {} if given is None else given, self._agent, ts=ts, extra=extra
            )
            self._started.add(key)
            native = native or key
        if event.get("status") in ("completed", "failed"):
            output = event.get("raw_output")
            output = content(event.get("content")) if output is None else output
            facts = (
                {"is_error": True}
                if event.get("is_error") is True or event.get("status") == "failed"
                else None
            )
            self._draft.add_tool_result(native, output, ts=ts, tool=tool, facts=facts)


def _output(seen: Body) -> Any:
    """What the tool gave back; older kinds of observations have names of their own for it."""
    if "content" in seen:
        return content(seen["content"])
    for name in ("output", "text", "error", "message"):
        if isinstance(seen.get(name), str):
            return seen[name]
    return {name: value for name, value in seen.items() if name != "kind"}


def _facts(seen: Body) -> Body:
    facts: Body = {}
    about = seen.get("metadata")
    about = about if isinstance(about, dict) else {}
    if seen.get("is_error") is True:
        facts["is_error"] = True
    code = seen.get("exit_code")
    code = about.get("exit_code") if code is None else code
    if type(code) is int and code != -1:
        facts["exit_code"] = code
    if seen.get("timeout") is True:
        facts["timeout"] = True
    # The runtime shows these to the model around the output.
    return facts | {
        name: about[name]
        for name in ("working_dir", "prefix", "suffix")
        if as_text(about.get(name))
    }


def content(blocks: Any) -> str | list[Any]:
    """One text as it is; several texts or an image as a list of blocks."""
    if isinstance(blocks, str):
        return blocks
    if isinstance(blocks, dict):
        blocks = [blocks]
    made = (
        [part for block in blocks if block is not None for part in _parts(block)]
        if isinstance(blocks, list)
        else []
    )
    if len(made) == 1 and isinstance(made[0], dict) and made[0].get("type") == "text":
        text = made[0].get("text")
        if isinstance(text, str):
            return text
    return made or ""


def _parts(block: Any) -> Iterator[Any]:
    """A block; an image block of OpenHands may hold several images."""
    kind = block.get("type") if isinstance(block, dict) else None
    if kind == "text" and isinstance(block.get("text"), str):
        yield {"type": "text", "text": block["text"]}
    elif kind == "image" and isinstance(block.get("image_urls"), list):
        for url in block["image_urls"]:
            yield (
                build_media_url_block(url, "image")
                if isinstance(url, str)
                else {"type": "image", "url": url}
            )
    elif isinstance(block, str):
        yield {"type": "text", "text": block}
    else:
        yield block
