"""Writer for ATIF (Agent Trajectory Interchange Format): one trajectory, subagents embedded."""

from typing import Any, BinaryIO

import msgspec

from open_token.errors import InputError
from open_token.jsontools.objects import get_data, omit_keys
from open_token.jsontools.timestamps import to_utc
from open_token.model.document import Event, Integrity, Participant, Record
from open_token.model.omissions import Note
from open_token.writers.trajectory import (
    JSON_TEXT_NOTE,
    AgentRun,
    InputMessage,
    JsonObject,
    Losses,
    Media,
    ModelResponse,
    ToolCall,
    build_agent_runs,
    find_actor,
    find_string,
    get_blocks,
    get_text,
    index_participants,
    iter_content,
    to_json_text,
)

_VERSION = "ATIF-v1.8"
_CONTEXT_FIELDS = ("agent", "version", "model", "schema_version", "notes", "extra")
_CALL_FIELDS = ("tool_name", "arguments", "native_call_id")
_SUBAGENT_FIELDS = ("kind", "agent_id", "session_id", "subagent_type", "model", "file")
_TOTAL_METRICS = ("prompt_tokens", "completion_tokens", "cached_tokens")
_METRICS = {
    "prompt_tokens": "input_tokens",
    "completion_tokens": "output_tokens",
    "cached_tokens": "cache_read_tokens",
}
_EXTRA_METRICS = {
    "reasoning_tokens": "reasoning_tokens",
    "cache_creation_input_tokens": "cache_write_tokens",
}
_IMAGE_TYPES = {
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "gif": "image/gif",
    "webp": "image/webp",
}
_AUDIO_TYPES = (
    "audio/wav",
    "audio/mpeg",
    "audio/mp4",
    "audio/aac",
    "audio/ogg",
    "audio/flac",
    "audio/webm",
    "audio/aiff",
)
_SUBAGENT_REF = "subagent_trajectory_ref"


def write(record: Record, integrity: Integrity | None, out: BinaryIO) -> tuple[int, list[Note]]:
    """Write the trajectory; return the byte count and notes on what ATIF cannot hold."""
    losses = Losses("ATIF")
    builder = _TrajectoryBuilder(index_participants(record), losses)
    trajectory = builder.build(build_agent_runs(record, losses))
    if trajectory is None:
        raise InputError(
            "the conversation has no messages",
            help="ATIF requires at least one step",
            code="input.no-messages",
        )
    document: JsonObject = {
        "schema_version": _VERSION,
        "session_id": record.conversation["id"],
        **trajectory,
    }
    origin = {"open_token": _describe_origin(record, integrity)}
    document["extra"] = document.get("extra", {}) | origin
    encoded = msgspec.json.format(msgspec.json.encode(document), indent=2)
    return out.write(encoded + b"\n"), losses.notes


def _describe_origin(record: Record, integrity: Integrity | None) -> JsonObject:
    facts: JsonObject = {}
    for name in ("title", "redaction"):
        if name in record.conversation:
            facts[name] = record.conversation[name]
    if integrity:
        facts["events_hash"] = f"sha256:{integrity['events_hash']}"
    return facts


class _TrajectoryBuilder:
    def __init__(self, participants: dict[str, Participant], losses: Losses) -> None:
        self._participants = participants
        self._losses = losses
        self._trajectory_ids: set[str] = set()

    def build(self, run: AgentRun) -> JsonObject | None:
        """Return the trajectory of a run; None when it has no step."""
        # Subagents come first: a reference to one that has no steps could not be resolved.
        subagents: dict[int, JsonObject] = {}
        for subagent in run.subagents:
            embedded = self._build_subagent(subagent)
            if embedded is not None:
                subagents[id(subagent)] = embedded
        subagent_ids = {key: embedded["trajectory_id"] for key, embedded in subagents.items()}
        steps = StepBuilder(run, self._participants, subagent_ids, self._losses).build()
        if not steps:
            return None
        trajectory: JsonObject = {"agent": self._describe_agent(run), "steps": steps}
        notes = find_string(run.context, "notes")
        if notes:
            trajectory["notes"] = notes
        trajectory["final_metrics"] = _sum_metrics(run, steps, list(subagents.values()))
        extra = run.context.get("extra")
        if isinstance(extra, dict):
            trajectory["extra"] = extra
        if subagents:
            trajectory["subagent_trajectories"] = list(subagents.values())
        return trajectory

    def _build_subagent(self, run: AgentRun) -> JsonObject | None:
        trajectory_id = self._assign_id(run)
        trajectory = self.build(run)
        if trajectory is None:
            if not find_string(run.about, "file"):
                self._losses.report_missing("subagent", run.start, "a subagent without steps")
            return None
        head: JsonObject = {"schema_version": _VERSION, "trajectory_id": trajectory_id}
        session_id = find_string(run.about, "session_id")
        if session_id:
            head["session_id"] = session_id
        return head | trajectory

    def _assign_id(self, run: AgentRun) -> str:
        agent_id = find_string(run.about, "agent_id")
        candidates = (agent_id, run.id, f"{run.id}#{len(self._trajectory_ids)}")
        trajectory_id = next(
            name for name in candidates if name and name not in self._trajectory_ids
        )
        self._trajectory_ids.add(trajectory_id)
        return trajectory_id

    def _describe_agent(self, run: AgentRun) -> JsonObject:
        actor = find_actor(run, self._participants)
        participant: Participant | JsonObject = self._participants.get(actor, {})
        name = find_string(run.about, "subagent_type", "name") or participant.get("name")
        version = find_string(run.context, "version", "cli_version")
        agent: JsonObject = {"name": name or "agent", "version": version or "unknown"}
        model = find_string(run.about, "model") or participant.get("model")
        if model:
            agent["model_name"] = model
        if run.tools:
            agent["tool_definitions"] = [
                {"type": "function", "function": tool} for tool in run.tools
            ]
        extra = collect_extra(run.context, _CONTEXT_FIELDS, "agent_extra")
        if extra:
            agent["extra"] = extra
        return agent


def _sum_metrics(run: AgentRun, steps: list[JsonObject], subagents: list[JsonObject]) -> JsonObject:
    """Return the totals of a run: tokens without its subagents, cost including them."""
    tokens: JsonObject = {}
    for response in run.responses:
        add_tokens(tokens, response.usage)
    totals = {f"total_{name}": tokens[name] for name in _TOTAL_METRICS if name in tokens}
    costs = [run.cost]
    costs += [step.get("metrics", {}).get("cost_usd", 0) for step in steps]
    costs += [subagent["final_metrics"].get("total_cost_usd", 0) for subagent in subagents]
    if any(costs):
        totals["total_cost_usd"] = sum(costs)
    totals["total_steps"] = len(steps)
    if "extra" in tokens:
        totals["extra"] = tokens["extra"]
    return totals


class StepBuilder:
    """Builds the steps of one run."""

    def __init__(
        self,
        run: AgentRun,
        participants: dict[str, Participant],
        subagent_ids: dict[int, str],
        losses: Losses,
    ) -> None:
        self._run = run
        self._participants: dict[str, Any] = {**participants}
        self._subagent_ids = subagent_ids
        """Trajectory ids of the embedded subagents, by the identity of their runs."""
        self._losses = losses
        names = {
            self._participants[response.actor]["name"]
            for response in run.responses
            if response.actor in participants
        }
        self._has_several_agents = len(names) > 1
        self._steps: list[JsonObject] = []
        self._last_agent_step: JsonObject | None = None
        self._pending_usage: list[dict[str, int]] = []
        """Tokens that were counted before the first step of the agent."""

    def build(self) -> list[JsonObject]:
        """Return all steps in order."""
        for item in self._run.items:
            if isinstance(item, InputMessage):
                self._add_input(item)
            elif isinstance(item, AgentRun):
                refs = self._build_refs([item])
                if refs:
                    self._add_observation(item.start, {_SUBAGENT_REF: refs})
            elif item.is_empty:
                self._add_usage(item.usage)
            else:
                self._add_response(item)
        if any(self._pending_usage):
            # All that is known of the agent is its token usage.
            self._add_response(ModelResponse(""))
        return self._steps

    def _add_step(
        self, event: Event | None, source: str, message: str | list[JsonObject]
    ) -> JsonObject:
        step: JsonObject = {"step_id": len(self._steps) + 1}
        timestamp = to_utc(event.get("ts")) if event is not None else None
        if timestamp:
            step["timestamp"] = timestamp
        step["source"] = source
        step["message"] = message
        self._steps.append(step)
        return step

    def _add_observation(self, event: Event | None, result: JsonObject) -> None:
        """Add a result that belongs to no call of this run, in an empty step of the system."""
        step = self._add_step(event, "system", "")
        step["observation"] = {"results": [result]}

    def _add_input(self, item: InputMessage) -> None:
        event = item.event
        role = event.get("role")
        if event.get("type") == "tool_result":
            self._losses.report_changed(
                "orphan-result", event, "a result without its call, as a separate step"
            )
            self._add_observation(event, {"content": self._build_content(event)})
            return
        source = "user" if role == "user" else "system"
        step = self._add_step(event, source, self._build_content(event))
        extra: JsonObject = {}
        if role not in ("user", "system"):
            extra["role"] = role
        if role == "user" and event.get("visibility") == "internal" and not self._run.id:
            extra["visibility"] = "internal"
        _add_facts(step, item.facts, extra)

    def _add_response(self, response: ModelResponse) -> None:
        content = self._build_content(response.message) if response.message else ""
        # The first event of a response may lack a time, as reasoning does in some formats.
        first_timed = next((event for event in response.events if event.get("ts")), None)
        step = self._add_step(first_timed, "agent", content)
        self._last_agent_step = step
        participant = self._participants.get(response.actor, {})
        model = participant.get("model")
        if model:
            step["model_name"] = model
        if response.thoughts:
            texts = [get_text(thought) or "" for thought in response.thoughts]
            step["reasoning_content"] = "\n\n".join(texts)
        if response.calls:
            step["tool_calls"] = [_build_call(call) for call in response.calls]
        results = [self._build_result(call) for call in response.calls]
        known_results = [result for result in results if result is not None]
        if known_results:
            step["observation"] = {"results": known_results}
        # Steps of the user have no metrics in ATIF: usage from before waits for the first response.
        pending = self._pending_usage
        self._pending_usage = []
        for usage in (*pending, response.usage):
            self._add_usage(usage)
        extra: JsonObject = {}
        if participant and self._has_several_agents:
            extra["agent"] = participant["name"]
        if any(get_data(thought).get("summary") for thought in response.thoughts):
            extra["reasoning_is"] = "summary"
        _add_facts(step, response.facts, extra)

    def _build_result(self, call: ToolCall) -> JsonObject | None:
        """Return the observation of a call; None when there is none."""
        refs = self._build_refs(call.runs)
        if call.result is None and not refs:
            return None
        result: JsonObject = {"source_call_id": call.id}
        if call.result is not None and not (refs and _is_subagent_ref(call.result)):
            result["content"] = self._build_content(call.result)
        if refs:
            result[_SUBAGENT_REF] = refs
        extra: JsonObject = {"missing_result": True}
        if call.result is not None:
            extra = collect_extra(call.facts)
        if extra:
            result["extra"] = extra
        return result

    def _build_refs(self, runs: list[AgentRun]) -> list[JsonObject]:
        """Return references to subagents that are embedded, or whose file is known."""
        refs: list[JsonObject] = []
        for run in runs:
            trajectory_id = self._subagent_ids.get(id(run))
            file = find_string(run.about, "file")
            ref: JsonObject
            if trajectory_id:
                ref = {"trajectory_id": trajectory_id}
            elif file:
                ref = {"trajectory_path": file}
            else:
                continue
            session_id = find_string(run.about, "session_id")
            if session_id:
                ref["session_id"] = session_id
            extra = collect_extra(run.about, _SUBAGENT_FIELDS)
            if extra:
                ref["extra"] = extra
            refs.append(ref)
        return refs

    def _add_usage(self, usage: dict[str, int]) -> None:
        """Count tokens for the last step of the agent, or for the first one to come."""
        step = self._last_agent_step
        if step is None:
            self._pending_usage.append(usage)
        elif usage and "metrics" in step:
            step["llm_call_count"] = step.get("llm_call_count", 1) + 1
            add_tokens(step["metrics"], usage)
        elif usage:
            add_tokens(step.setdefault("metrics", {}), usage)

    def _build_content(self, event: Event) -> str | list[JsonObject]:
        text = get_text(event)
        if text is not None:
            return text
        return [self._build_part(content, event) for content in iter_content(event, self._losses)]

    def _build_part(self, content: str | Media, event: Event) -> JsonObject:
        if isinstance(content, str):
            return {"type": "text", "text": content}
        part = _build_media_part(content)
        if part is not None:
            if "://" not in part["source"]["path"]:
                self._losses.report_changed(
                    "media-path", event, "a file by its path in the source; it is not copied"
                )
            return part
        if content.base64 is None:
            self._losses.report_changed("json-text", event, JSON_TEXT_NOTE)
            return {"type": "text", "text": to_json_text(content.block)}
        self._losses.report_missing(
            "media", event, "the bytes of an image or a file; a text gives type, size and hash"
        )
        return {"type": "text", "text": f"[left out: {_describe_media(content)}]"}


def _describe_media(media: Media) -> str:
    facts = [media.media_type or media.kind]
    size = media.block.get("bytes")
    if type(size) is int:
        facts.append(f"{size} bytes")
    digest = media.block.get("sha256")
    if isinstance(digest, str):
        facts.append(f"sha256 {digest}")
    return ", ".join(facts)


def _build_media_part(media: Media) -> JsonObject | None:
    """Return an image or sound at an address, where ATIF knows its type."""
    if media.address is None or media.address.startswith("data:"):
        return None
    is_url = media.address.startswith(("https://", "http://"))
    if media.base64 and not is_url:
        return None  # a name that only the runtime of the source can resolve
    extension = media.address.partition("?")[0].rpartition(".")[2].lower()
    media_type = media.media_type or _IMAGE_TYPES.get(extension)
    source: JsonObject = {"media_type": media_type, "path": media.address}
    if media.kind == "image" and media_type in _IMAGE_TYPES.values():
        return {"type": "image", "source": source}
    if media.kind != "audio" or media_type not in _AUDIO_TYPES:
        return None
    seconds = media.block.get("duration_sec")
    if isinstance(seconds, int | float) and seconds >= 0:
        source["duration_sec"] = seconds
    return {"type": "audio", "source": source}


def _build_call(call: ToolCall) -> JsonObject:
    arguments = call.arguments
    if not isinstance(arguments, dict):
        arguments = {"arguments": arguments}
    encoded: JsonObject = {
        "tool_call_id": call.id,
        "function_name": call.tool,
        "arguments": arguments,
    }
    extra = collect_extra(get_data(call.event), _CALL_FIELDS)
    if extra:
        encoded["extra"] = extra
    return encoded


def _is_subagent_ref(result: Event) -> bool:
    """Return whether a result holds nothing but references to subagents.

    The ATIF reader produces such results for observations that only refer to a subagent.
    """
    blocks = get_blocks(result)
    return bool(blocks) and all(
        isinstance(block, dict) and block.get("type") == _SUBAGENT_REF for block in blocks
    )


def collect_extra(
    facts: JsonObject, known: tuple[str, ...] = (), extra_name: str = "extra"
) -> JsonObject:
    """Return the facts without a field in ATIF; an existing `extra` object is not nested again."""
    extra = omit_keys(facts, *known)
    if isinstance(extra.get(extra_name), dict):
        existing: JsonObject = extra.pop(extra_name)
        return existing | extra
    return extra


def add_tokens(metrics: JsonObject, usage: dict[str, int]) -> None:
    """Add token usage to metrics, in place."""
    for name, usage_name in _METRICS.items():
        if usage_name in usage:
            metrics[name] = metrics.get(name, 0) + usage[usage_name]
    for name, usage_name in _EXTRA_METRICS.items():
        if usage_name in usage:
            extra = metrics.setdefault("extra", {})
            extra[name] = extra.get(name, 0) + usage[usage_name]


def _add_facts(step: JsonObject, facts: JsonObject, extra: JsonObject) -> None:
    """Add facts about a message to its step: in fields of ATIF where it has them, else as extra."""
    remaining = dict(facts)
    if remaining.get("copied_context") is True:
        step["is_copied_context"] = remaining.pop("copied_context")
    if step["source"] == "agent":
        _move_agent_facts(step, remaining)
    all_extra = collect_extra(remaining) | extra
    if all_extra:
        step["extra"] = all_extra


def _move_agent_facts(step: JsonObject, facts: JsonObject) -> None:
    """Move the facts that only an agent step may have from `facts` into the step."""
    if isinstance(facts.get("reasoning_effort"), str | float):
        step["reasoning_effort"] = facts.pop("reasoning_effort")
    if type(facts.get("cost_usd")) in (int, float):
        step.setdefault("metrics", {})["cost_usd"] = facts.pop("cost_usd")
    if isinstance(facts.get("metrics"), dict):
        metrics = step.setdefault("metrics", {})
        metrics["extra"] = facts.pop("metrics") | metrics.get("extra", {})
    call_count = facts.get("llm_call_count")
    if type(call_count) is not int or call_count < 0:
        return
    # Zero is valid only for a step that no model produced.
    if call_count > 0 or not step.keys() & {"metrics", "reasoning_content"}:
        step["llm_call_count"] = facts.pop("llm_call_count")
