"""Read the events of the OpenHands SDK, from a conversation folder, a stream or a list."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import PurePath
from typing import Any

from open_token.agents.openhands.detect import (
    EVENT_FILES,
    find_files,
    flatten,
    is_sdk_event,
    is_state,
    sort_event_files,
)
from open_token.agents.openhands.usage import UsageTracker
from open_token.builder.draft import Draft
from open_token.errors import InputError
from open_token.formats.shared.fields import (
    as_dicts,
    as_text,
    drop_nulls,
    parse_arguments,
    pick_fields,
)
from open_token.formats.shared.notes import format_kind, note_tool_definitions
from open_token.formats.shared.providers import identify_provider
from open_token.formats.shared.reasoning import ReasoningText, list_reasoning, split_think_tag
from open_token.jsontools.media import build_media_url_block
from open_token.jsontools.timestamps import to_utc
from open_token.model.document import Role, Visibility
from open_token.sources.source import Source

Body = dict[str, Any]
_ABANDONED = {
    "kind": "abandoned_branch",
    "detail": "the conversation went on from an earlier event",
}
_MAX_FACT_LENGTH = 200
_MESSAGE_FIELDS = (
    "content",
    "tool_calls",
    "reasoning_content",
    "thinking_blocks",
    "responses_reasoning_item",
)
_SHELL_FIELDS = ("username", "hostname", "py_interpreter_path")
_RISKS = ("LOW", "MEDIUM", "HIGH")
_READ_RESULT_FIELDS = frozenset(
    (
        "content",
        "is_error",
        "exit_code",
        "timeout",
        "metadata",
        "kind",
        "command",
        "output",
        "text",
        "error",
    )
)


def read_conversation(source: Source, draft: Draft) -> None:
    """Read the conversation into the draft."""
    state, files = _find_parts(source)
    reader = EventReader(draft)
    if state is not None:
        reader.read_state(state)
    if files is not None:
        events = _iterate_files(files, draft)
    else:
        events = _iterate_records(source)
    read_events(draft, reader, events, state)


def read_events(
    draft: Draft,
    reader: "EventReader",
    events: Iterable[tuple[str, Any]],
    state: Body | None = None,
) -> None:
    """Read events with their positions, and drop the branches that were abandoned."""
    draft.conversation["source_runtime"] = "cli"
    branches = _BranchTracker(state)
    for position, event in events:
        first = draft.count
        if is_sdk_event(event) or (isinstance(event, dict) and isinstance(event.get("kind"), str)):
            reader.read(event, position)
            branches.add(event, first, draft.count)
        elif not is_state(event):
            draft.note_omission("unknown-record", position, "record that is not an event")
    reader.finish()
    for positions in branches.find_abandoned():
        draft.drop_branch(positions.start, positions.stop, dict(_ABANDONED), reader.runtime)


def _find_parts(source: Source) -> tuple[Body | None, list[Source] | None]:
    """Return the state if there is one, and the files of a folder.

    The files are None if the source itself holds the events.
    """
    if source.shape == "folder":
        state = _read_state_file(source.find_files("base_state.json"))
        return state, sort_event_files(find_files(source, EVENT_FILES))
    sample = flatten(source.sample)
    if len(sample) == 1 and is_state(sample[0]):
        return source.document, sort_event_files(source.find_siblings(EVENT_FILES[0]))
    if len(sample) == 1 and source.shape in ("document", "lines"):
        # One event file of a folder stands for the whole folder.
        files = sort_event_files(source.find_siblings(EVENT_FILES[1]))
        if any(file.path == source.path for file in files):
            files = [source if file.path == source.path else file for file in files]
            return _read_state_file(source.find_siblings("../base_state.json")), files
    state_file = source.open_sibling("base_state.json")
    return _read_state_file([state_file] if state_file else []), None


def _read_state_file(files: list[Source]) -> Body | None:
    for file in files:
        if file.sample and is_state(file.sample[0]):
            state: Body = file.document
            return state
    return None


def _iterate_records(source: Source) -> Iterator[tuple[str, Any]]:
    unit = "record" if source.shape == "document" else "line"
    for number, event in source.records():
        yield f"{unit} {number}", event


def _iterate_files(files: list[Source], draft: Draft) -> Iterator[tuple[str, Any]]:
    for number, file in enumerate(files, 1):
        position = PurePath(file.name).name
        if file.shape == "empty":
            draft.note_omission("empty-file", position, "event file without content")
            continue
        try:
            event = file.document
        except InputError as problem:
            # Only the last file may be incomplete: it may still be being written.
            if problem.code != "input.json" or number < len(files):
                raise
            draft.note_omission(
                "half-line", position, "the last event was not complete and is left out"
            )
            continue
        for _ in file.repaired:
            draft.note_omission(
                "lone-surrogate", position, "text that is not valid Unicode was replaced by U+FFFD"
            )
        yield position, event


class _BranchTracker:
    """Finds the events that were abandoned when a conversation went on from an earlier one."""

    def __init__(self, state: Body | None) -> None:
        self._leaf = state.get("leaf_event_id") if state else None
        self._parents: dict[str, str | None] = {}
        self._positions: dict[str, range] = {}

    def add(self, event: Body, first: int, end: int) -> None:
        """Add an event and the positions that it has in the draft."""
        event_id = event.get("id")
        if not isinstance(event_id, str):
            return
        parent_id = event.get("parent_id")
        self._parents[event_id] = parent_id if isinstance(parent_id, str) else None
        if first < end:
            self._positions[event_id] = range(first, end)

    def find_abandoned(self) -> list[range]:
        """Return the positions of abandoned events, adjacent ones joined."""
        active = self._find_active()
        if not active:
            return []
        abandoned: list[range] = []
        for event_id, positions in self._positions.items():
            # Events without a parent, such as the system prompt, belong to all branches.
            if event_id in active or self._parents[event_id] not in self._parents:
                continue
            if abandoned and abandoned[-1].stop == positions.start:
                abandoned[-1] = range(abandoned[-1].start, positions.stop)
            else:
                abandoned.append(positions)
        return abandoned

    def _find_active(self) -> set[str]:
        """Return the branch of the last event, unless the state names another leaf."""
        active: set[str] = set()
        for event_id, parent_id in reversed(self._parents.items()):
            if parent_id:
                active = self._collect_ancestors(event_id)
                break
        if isinstance(self._leaf, str) and self._leaf in self._parents:
            if self._leaf not in active:
                active = self._collect_ancestors(self._leaf)
        return active

    def _collect_ancestors(self, event_id: str | None) -> set[str]:
        ancestors: set[str] = set()
        while event_id is not None and event_id in self._parents and event_id not in ancestors:
            ancestors.add(event_id)
            event_id = self._parents[event_id]
        return ancestors


class EventReader:
    """Reads events one by one; knows the current model and its usage."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self.runtime = draft.get_actor("system", "OpenHands")
        self._usage = UsageTracker()
        self._model: str | None = None
        self._model_actor: str | None = None
        self._last_response: tuple[str | None, Any] = (None, None)
        """The id and the content of the last response: parallel calls repeat the content."""
        self._started_calls: set[str] = set()
        self._handlers: dict[str, Callable[[Body, str, str | None], None]] = {
            "SystemPromptEvent": self._read_system_prompt,
            "MessageEvent": self._read_message,
            "ActionEvent": self._read_action,
            "ObservationEvent": self._read_observation,
            "UserRejectObservation": self._read_rejection,
            "AgentErrorEvent": self._read_agent_error,
            "ConversationErrorEvent": self._read_conversation_error,
            # Three names of versions for one thing: earlier events give way to a summary.
            "Condensation": self._read_condensation,
            "CondensationEvent": self._read_condensation,
            "CondensationSummaryEvent": self._read_condensation,
            "PauseEvent": self._read_interruption,
            "InterruptEvent": self._read_interruption,
            "ConversationStateUpdateEvent": self._read_state_update,
            "ACPToolCallEvent": self._read_acp_call,
        }

    def read_state(self, state: Body) -> None:
        """Read the id, directory, model, tools and usage from the state of the conversation."""
        conversation_id = as_text(state.get("id"))
        if conversation_id:
            self._draft.conversation["id"] = conversation_id
        agent = state.get("agent")
        if not isinstance(agent, dict):
            agent = {}
        llm = agent.get("llm")
        self._set_model(llm.get("model") if isinstance(llm, dict) else None)
        workspace = state.get("workspace")
        cwd = workspace.get("working_dir") if isinstance(workspace, dict) else None
        facts = {
            "cwd": as_text(cwd),
            "model": self._model,
            "status": as_text(state.get("execution_status")),
        }
        self._annotate({"kind": "context"} | drop_nulls(facts))
        names = [as_text(tool.get("name")) for tool in as_dicts(agent.get("tools"))]
        names = [name for name in names if name]
        if names:
            self._annotate({"kind": "tools", "names": names})
            note_tool_definitions(self._draft.note_omission, agent.get("tools"), "base_state.json")
        self._usage.add_stats(state.get("stats"))

    def set_model(self, model: str | None, metrics: Any) -> None:
        """Set the model and its metrics, where there is no state."""
        self._set_model(model)
        if isinstance(metrics, dict):
            self._usage.add_metrics("agent", metrics)

    def read(self, event: Body, position: str) -> None:
        """Read one event."""
        kind = event["kind"]
        # The SDK writes local times without a zone: no UTC time can be derived from them.
        timestamp = event.get("timestamp")
        ts = to_utc(timestamp)
        if ts is None and isinstance(timestamp, str):
            self._draft.note_omission("time-without-zone", position, "time without a time zone")
        # Kinds of later versions are noted, not guessed.
        handler = self._handlers.get(kind)
        if handler is None:
            self._draft.note_omission("skipped-record", position, f"kind {format_kind(kind)}")
        else:
            handler(event, position, ts)

    def finish(self) -> None:
        """Annotate the totals, with the usage that no event has."""
        totals = self._usage.get_totals()
        if totals:
            data = {"kind": "usage", "by": totals}
            usage = self._usage.get_unattributed()
            self._draft.add_annotation(data, actor=self.runtime, usage=usage)

    def _set_model(self, model: Any) -> None:
        self._model = as_text(model) or self._model
        self._model_actor = None
        provider = identify_provider(self._model)
        if provider:
            self._draft.conversation.setdefault("provider", provider)

    def _get_model_actor(self) -> str:
        if self._model_actor is None:
            self._model_actor = self._draft.get_actor(
                "model", "agent", provider=identify_provider(self._model), model=self._model
            )
        return self._model_actor

    def _annotate(self, data: Body, ts: str | None = None) -> None:
        self._draft.add_annotation(data, actor=self.runtime, ts=ts)

    def _add_message(
        self,
        role: Role,
        blocks: Any,
        actor: str,
        ts: str | None,
        visibility: Visibility | None = None,
        response_id: Any = None,
    ) -> None:
        """Add a message unless it is empty."""
        content = _convert_content(blocks)
        if content:
            usage = self._usage.take(response_id)
            self._draft.add_message(role, content, actor, ts=ts, visibility=visibility, usage=usage)

    def _add_response(self, blocks: Any, ts: str | None, response_id: Any) -> None:
        actor = self._get_model_actor()
        self._add_message("assistant", blocks, actor, ts, response_id=response_id)

    def _add_injected(self, blocks: Any, ts: str | None) -> None:
        self._add_message("user", blocks, self.runtime, ts, "internal")

    def _add_reasoning(self, reasoning: list[ReasoningText], ts: str | None) -> None:
        for text, is_summary in reasoning:
            self._draft.add_reasoning(text, self._get_model_actor(), ts=ts, summary=is_summary)

    def _read_system_prompt(self, event: Body, position: str, ts: str | None) -> None:
        self._add_message("system", event.get("system_prompt"), self.runtime, ts)
        self._add_message("system", event.get("dynamic_context"), self.runtime, ts)
        definitions = [tool.get("function", tool) for tool in as_dicts(event.get("tools"))]
        names = []
        for definition in as_dicts(definitions):
            # A definition in the form of the API has a name, one of the SDK a title or a class.
            candidates = [as_text(definition.get(key)) for key in ("name", "title", "kind")]
            name = next(filter(None, candidates), None)
            if name:
                names.append(name)
        if names:
            self._annotate({"kind": "tools", "names": names}, ts)
            note_tool_definitions(self._draft.note_omission, definitions, position)

    def _read_message(self, event: Body, position: str, ts: str | None) -> None:
        message = event.get("llm_message")
        if not isinstance(message, dict) or message.keys().isdisjoint(_MESSAGE_FIELDS):
            self._draft.note_omission("empty-message", position, "message without content")
            return
        role = message.get("role")
        if role == "assistant":
            self._read_response(event, message, ts)
        elif role == "system":
            self._add_message("system", message.get("content"), self.runtime, ts)
        else:
            self._read_prompt(event, message, ts)
        self._add_injected(event.get("extended_content"), ts)
        skills = event.get("activated_skills")
        if skills:
            self._annotate({"kind": "message_facts", "activated_skills": skills}, ts)

    def _read_response(self, event: Body, message: Body, ts: str | None) -> None:
        content = _convert_content(message.get("content"))
        # Some models repeat their reasoning in the text, in a <think> element.
        content, reasoning = split_think_tag(content, list_reasoning(message))
        self._add_reasoning(reasoning, ts)
        self._add_response(content, ts, event.get("llm_response_id"))
        for call in as_dicts(message.get("tool_calls")):
            call_id = as_text(call.get("id"))
            given = parse_arguments(call.get("arguments"))
            self._add_call(call_id, call.get("name"), given, event, ts)

    def _read_prompt(self, event: Body, message: Body, ts: str | None) -> None:
        """Read a user message of the person, another agent, or the runtime itself."""
        # Agents can send messages to each other.
        sender = as_text(event.get("sender"))
        content = message.get("content")
        if sender:
            actor = self._draft.get_actor("model", sender)
            self._add_message("user", content, actor, ts, "internal")
        elif event.get("source") == "user":
            self._add_message("user", content, self._draft.get_actor("human", "user"), ts)
        else:
            self._add_injected(content, ts)

    def _read_action(self, event: Body, position: str, ts: str | None) -> None:
        response_id = as_text(event.get("llm_response_id"))
        content, reasoning = split_think_tag(
            _convert_content(event.get("thought")), list_reasoning(event)
        )
        response = (response_id, [content, reasoning])
        # Each parallel call repeats the text and reasoning of its response.
        if not response_id or response != self._last_response:
            self._add_reasoning(reasoning, ts)
            self._add_response(content, ts, response_id)
            self._last_response = response
        call = event.get("tool_call")
        if not isinstance(call, dict):
            call = None
        action = event.get("action")
        if isinstance(action, dict) and action.get("kind") == "FinishAction":
            # The final response of a conversation is an argument of this call.
            self._add_response(action.get("message"), ts, response_id)
        # What the model wrote is in the call; without one, the action has the parsed arguments.
        given = parse_arguments(call.get("arguments")) if call is not None else None
        if given is None:
            given = {}
            if isinstance(action, dict):
                given = {name: value for name, value in action.items() if name != "kind"}
        name = event.get("tool_name")
        call_id = as_text(event.get("tool_call_id"))
        if call is not None:
            name = name or call.get("name")
            call_id = call_id or as_text(call.get("id"))
        self._add_call(call_id, name, given, event, ts)

    def _add_call(
        self, call_id: str | None, name: Any, given: Any, event: Body, ts: str | None
    ) -> None:
        risk = event.get("security_risk")
        response_id = event.get("llm_response_id")
        self._draft.add_tool_call(
            call_id,
            as_text(name) or "tool",
            given,
            self._get_model_actor(),
            ts=ts,
            usage=self._usage.take(response_id),
            group=as_text(response_id),
            extra={"security_risk": risk} if risk in _RISKS else None,
        )

    def _read_observation(self, event: Body, position: str, ts: str | None) -> None:
        observation = event.get("observation")
        tool = as_text(event.get("tool_name"))
        call_id = as_text(event.get("tool_call_id"))
        if not isinstance(observation, dict):
            output = "" if observation is None else observation
            self._draft.add_tool_result(call_id, output, ts=ts, tool=tool)
            return
        facts = _get_result_facts(observation)
        if call_id is None or not self._draft.is_call_open(call_id):
            # The call is missing: only this field says what was called.
            facts |= pick_fields(observation, "command")
        for name, value in observation.items():
            if name in _READ_RESULT_FIELDS or value in (None, "", [], {}, False):
                continue
            if _is_small_fact(value):
                facts.setdefault(name, value)
            else:
                self._draft.note_omission(
                    "skipped-field", position, f"field {format_kind(name)} of an observation"
                )
        metadata = observation.get("metadata")
        if isinstance(metadata, dict) and any(metadata.get(name) for name in _SHELL_FIELDS):
            self._draft.note_omission(
                "skipped-field", position, "user, host and interpreter of a shell"
            )
        output = _get_output(observation)
        self._draft.add_tool_result(call_id, output, ts=ts, tool=tool, facts=facts)
        self._add_injected(event.get("extended_content"), ts)

    def _read_rejection(self, event: Body, position: str, ts: str | None) -> None:
        facts: Body = {"rejected": True}
        source = as_text(event.get("rejection_source"))
        if source:
            facts["rejection_source"] = source
        self._add_failure(event, event.get("rejection_reason"), facts, ts)

    def _read_agent_error(self, event: Body, position: str, ts: str | None) -> None:
        error = event.get("error")
        if as_text(event.get("tool_call_id")):
            self._add_failure(event, error, {"is_error": True}, ts)
        else:
            self._annotate({"kind": "error", "error": error}, ts)

    def _add_failure(self, event: Body, output: Any, facts: Body, ts: str | None) -> None:
        self._draft.add_tool_result(
            as_text(event.get("tool_call_id")),
            "" if output is None else output,
            ts=ts,
            tool=as_text(event.get("tool_name")),
            facts=facts,
        )

    def _read_conversation_error(self, event: Body, position: str, ts: str | None) -> None:
        self._annotate({"kind": "error"} | pick_fields(event, "code", "detail"), ts)

    def _read_condensation(self, event: Body, position: str, ts: str | None) -> None:
        self._add_injected(event.get("summary"), ts)
        data: Body = {"kind": "compaction"}
        forgotten = event.get("forgotten_event_ids")
        if isinstance(forgotten, list):
            data["forgotten_events"] = len(forgotten)
        usage = self._usage.take(event.get("llm_response_id"))
        self._draft.add_annotation(data, actor=self.runtime, ts=ts, usage=usage)

    def _read_interruption(self, event: Body, position: str, ts: str | None) -> None:
        data: Body = {"kind": "interrupted"} | pick_fields(event, "reason")
        if event["kind"] == "PauseEvent":
            data["paused"] = True
        self._draft.add_annotation(data, actor=self._draft.get_actor("human", "user"), ts=ts)

    def _read_state_update(self, event: Body, position: str, ts: str | None) -> None:
        # Updates repeat parts of the state, of which only the statistics are used.
        key = event.get("key")
        value = event.get("value")
        if key == "stats":
            self._set_model(self._usage.add_stats(value))
        elif key == "full_state" and isinstance(value, dict):
            self._set_model(self._usage.add_stats(value.get("stats")))
        else:
            self._draft.note_omission(
                "skipped-record", position, f"state update {format_kind(key)}"
            )

    def _read_acp_call(self, event: Body, position: str, ts: str | None) -> None:
        """Read a call of an agent behind ACP: one event when it starts, one when it ends."""
        call_id = as_text(event.get("tool_call_id"))
        tool = as_text(event.get("tool_kind")) or as_text(event.get("title")) or "tool"
        if call_id is None or call_id not in self._started_calls:
            given = event.get("raw_input")
            key = self._draft.add_tool_call(
                call_id,
                tool,
                {} if given is None else given,
                self._get_model_actor(),
                ts=ts,
                extra=pick_fields(event, "title", "parent_tool_call_id"),
            )
            self._started_calls.add(key)
            call_id = call_id or key
        status = event.get("status")
        if status not in ("completed", "failed"):
            return
        output = event.get("raw_output")
        if output is None:
            output = _convert_content(event.get("content"))
        is_error = event.get("is_error") is True or status == "failed"
        facts = {"is_error": True} if is_error else None
        self._draft.add_tool_result(call_id, output, ts=ts, tool=tool, facts=facts)


def _is_small_fact(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) <= _MAX_FACT_LENGTH
    return isinstance(value, int | float)


def _get_output(observation: Body) -> Any:
    """Return the output of a tool, which older kinds of observations hold in other fields."""
    if "content" in observation:
        return _convert_content(observation["content"])
    for name in ("output", "text", "error", "message"):
        if isinstance(observation.get(name), str):
            return observation[name]
    return {name: value for name, value in observation.items() if name != "kind"}


def _get_result_facts(observation: Body) -> Body:
    facts: Body = {}
    metadata = observation.get("metadata")
    if not isinstance(metadata, dict):
        metadata = {}
    if observation.get("is_error") is True:
        facts["is_error"] = True
    exit_code = observation.get("exit_code")
    if exit_code is None:
        exit_code = metadata.get("exit_code")
    # -1 stands for a command that is still running.
    if type(exit_code) is int and exit_code != -1:
        facts["exit_code"] = exit_code
    if observation.get("timeout") is True:
        facts["timeout"] = True
    # The model sees these around the output.
    for name in ("working_dir", "prefix", "suffix"):
        value = as_text(metadata.get(name))
        if value:
            facts[name] = value
    return facts


def _convert_content(blocks: Any) -> str | list[Any]:
    """Return a single text as a string, other content as a list of blocks."""
    if isinstance(blocks, str):
        return blocks
    if isinstance(blocks, dict):
        blocks = [blocks]
    if not isinstance(blocks, list):
        return ""
    converted: list[Any] = []
    for block in blocks:
        if block is not None:
            converted += _convert_block(block)
    if len(converted) == 1:
        block = converted[0]
        if isinstance(block, dict) and block.get("type") == "text":
            text = block.get("text")
            if isinstance(text, str):
                return text
    return converted or ""


def _convert_block(block: Any) -> list[Any]:
    """Return a block as a list: an image block of OpenHands may hold several images."""
    if isinstance(block, str):
        return [{"type": "text", "text": block}]
    kind = block.get("type") if isinstance(block, dict) else None
    if kind == "text" and isinstance(block.get("text"), str):
        return [{"type": "text", "text": block["text"]}]
    if kind == "image" and isinstance(block.get("image_urls"), list):
        return [_convert_image(url) for url in block["image_urls"]]
    return [block]


def _convert_image(url: Any) -> Body:
    return (
        build_media_url_block(url, "image")
        if isinstance(url, str)
        else {"type": "image", "url": url}
    )
