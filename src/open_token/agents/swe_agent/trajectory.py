"""Read SWE-agent trajectories: the history holds the messages, the steps what was run and when."""

from collections import deque
from typing import Any

import msgspec

from open_token.builder.draft import Draft
from open_token.formats.shared import chat_messages as chat
from open_token.formats.shared.fields import (
    as_dicts,
    as_text,
    drop_nulls,
    parse_arguments,
    pick_fields,
)
from open_token.formats.shared.notes import format_kind
from open_token.formats.shared.providers import identify_provider
from open_token.formats.shared.reasoning import list_reasoning
from open_token.formats.shared.token_usage import build_usage
from open_token.model.document import Role

Body = dict[str, Any]
_MAX_STATE_SIZE = 2000
_MAX_STEPS_AHEAD = 64


def read_trajectory(document: Body, draft: Draft) -> None:
    """Read the run into the draft; attempts that were not submitted become branches."""
    draft.conversation["source_runtime"] = "cli"
    draft.without_thoughts = "unknown"
    runtime = draft.get_actor("system", "SWE-agent")
    model = _read_context(document, draft, runtime)
    for number, attempt in enumerate(as_dicts(document.get("attempts")), 1):
        # The document repeats the attempt that was submitted.
        if attempt.get("history") == document.get("history"):
            continue
        first = draft.count
        _AttemptReader(attempt, draft, runtime, model, f"attempt {number}, ").read()
        data = {"kind": "abandoned_branch", "attempt": number}
        draft.drop_branch(first, draft.count, data, runtime)
    _AttemptReader(document, draft, runtime, model).read()
    annotate_outcome(document, draft, runtime)


def _read_context(document: Body, draft: Draft, runtime: str) -> str | None:
    """Read the environment, the model and the task; return the model."""
    config = document.get("replay_config")
    # The configuration is JSON text in some versions.
    if isinstance(config, str):
        config = parse_arguments(config)
    model = as_text(_get_inner(config, "agent", "model", "name"))
    problem_id = as_text(_get_inner(config, "problem_statement", "id"))
    facts = {
        "environment": as_text(document.get("environment")),
        "model": model,
        "problem_id": problem_id,
    }
    data = drop_nulls(facts)
    if data:
        draft.add_annotation({"kind": "context"} | data, actor=runtime)
    if problem_id:
        draft.conversation["title"] = problem_id
    provider = identify_provider(model)
    if provider:
        draft.conversation["provider"] = provider
    if config:
        draft.note_omission("skipped-field", "replay_config", "the configuration of the run")
    return model


def _get_inner(value: Any, *names: str) -> Any:
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def annotate_outcome(document: Body, draft: Draft, runtime: str) -> None:
    """Annotate how the run ended, what was submitted, and what it cost."""
    info = document.get("info")
    if not isinstance(info, dict):
        return
    outcome = {
        name: value
        for name, value in info.items()
        if value and name not in ("model_stats", "config")
    }
    if outcome:
        draft.add_annotation({"kind": "outcome"} | outcome, actor=runtime)
    stats = info.get("model_stats")
    if not isinstance(stats, dict):
        return
    usage = build_usage(
        input_tokens=stats.get("tokens_sent"), output_tokens=stats.get("tokens_received")
    )
    facts = pick_fields(stats, "api_calls") | {"cost_usd": stats.get("instance_cost")}
    if any(facts.values()) or (usage and any(usage.values())):
        draft.add_annotation({"kind": "usage"} | facts, actor=runtime, usage=usage)


class _AttemptReader:
    """Reads one attempt: the history in order, each response joined with its step."""

    def __init__(
        self, attempt: Body, draft: Draft, runtime: str, model: str | None, label: str = ""
    ) -> None:
        self._draft = draft
        self._runtime = runtime
        self._model = model
        self._label = label
        self._history = attempt.get("history")
        self._steps = deque(enumerate(as_dicts(attempt.get("trajectory")), 1))
        self._step: Body = {}
        """The step of the last response; empty if it has none, or after its result."""
        self._open_calls: deque[str] = deque()
        """The calls of the last response that have no result yet."""
        self._has_task = False
        self._agent_name = "agent"

    def read(self) -> None:
        """Read the history, and the steps that are not in it."""
        history = self._history if isinstance(self._history, list) else []
        for number, item in enumerate(history, 1):
            position = f"{self._label}history {number}"
            if not isinstance(item, dict):
                self._draft.note_omission("unknown-record", position, "entry that is not a message")
            elif item.get("is_demo") is True:
                self._read_demonstration(item, position)
            else:
                self._read_message(item, position)
        self._finish_response()
        while self._steps:
            self._read_unmatched_step(*self._steps.popleft())

    def _read_message(self, item: Body, position: str) -> None:
        role = item.get("role")
        if role == "assistant":
            self._read_response(item, position)
        # Without function calls, the output of a command is a user message.
        elif role in ("tool", "function") or (role == "user" and self._open_calls):
            self._read_result(item, position)
        elif role == "user":
            self._read_user_message(item, position)
        elif role == "system":
            content = self._get_content(item, position)
            self._draft.add_message("system", content, self._runtime)
        else:
            self._draft.note_omission("unknown-role", position, f"role {format_kind(role)}")

    def _read_user_message(self, item: Body, position: str) -> None:
        # The first one is the task; later ones are reminders and warnings of the runtime.
        content = self._get_content(item, position)
        if self._has_task:
            self._draft.add_message("user", content, self._runtime, visibility="internal")
        else:
            self._has_task = True
            user = self._draft.get_actor("human", "user")
            self._draft.add_message("user", content, user, visibility="public")

    def _get_content(self, item: Body, position: str) -> str | list[Any]:
        return chat.parse_content(self._draft, item.get("content"), position) or ""

    def _get_model_actor(self) -> str:
        provider = identify_provider(self._model)
        return self._draft.get_actor(
            "model", self._agent_name, provider=provider, model=self._model
        )

    def _read_demonstration(self, item: Body, position: str) -> None:
        """Read an example message for the model, which is not part of the run."""
        content = self._get_content(item, position)
        calls = [
            {"type": "tool_call", "tool_call": call} for call in as_dicts(item.get("tool_calls"))
        ]
        if calls:
            if isinstance(content, str):
                content = [{"type": "text", "text": content}]
            content = [*content, *calls]
        role: Role = "user"
        if item.get("role") in ("system", "assistant"):
            role = item["role"]
        event = self._draft.add_message(role, content, self._runtime, visibility="internal")
        self._draft.add_annotation({"kind": "message_facts", "demonstration": True}, parent=event)

    def _read_response(self, item: Body, position: str) -> None:
        self._finish_response()
        self._has_task = True
        step = self._take_step(item)
        self._agent_name = as_text(item.get("agent")) or self._agent_name
        actor = self._get_model_actor()
        self._add_reasoning(item, actor)
        content = self._get_content(item, position) or as_text(item.get("thought"))
        if content:
            self._draft.add_message("assistant", content, actor)
        calls = as_dicts(item.get("tool_calls"))
        action = as_text(item.get("action"))
        # With function calls the action is the command that the only call was converted to.
        extra = {"action": action} if action and len(calls) == 1 else None
        for call in calls:
            function = call.get("function")
            if not isinstance(function, dict):
                function = call
            key = self._draft.add_tool_call(
                as_text(call.get("id")),
                as_text(function.get("name")) or "tool",
                parse_arguments(function.get("arguments")),
                actor,
                group=position,
                extra=extra,
            )
            self._open_calls.append(key)
        if not calls and action:
            self._open_calls.append(self._add_command(action, actor, position))
        self._step = step

    def _add_reasoning(self, item: Body, actor: str) -> None:
        for text, is_summary in list_reasoning(item):
            self._draft.add_reasoning(text, actor, summary=is_summary)

    def _add_command(self, command: str, actor: str, position: str) -> str:
        return self._draft.add_tool_call(None, "bash", {"command": command}, actor, group=position)

    def _take_step(self, item: Body) -> Body:
        """Return the step of a response, after reading the steps that the history omits."""
        content = item.get("content")
        action = item.get("action")
        for ahead, (_, step) in enumerate(self._steps):
            has_response = bool(content) and step.get("response") == content
            has_action = bool(action) and step.get("action") == action
            if has_response or has_action:
                for _ in range(ahead):
                    self._read_unmatched_step(*self._steps.popleft())
                return self._steps.popleft()[1]
            # A limit, so that a history without any of the steps is read in linear time.
            if ahead >= _MAX_STEPS_AHEAD:
                break
        return {}

    def _read_result(self, item: Body, position: str) -> None:
        # Runs with function calls name the call, in a list that holds one id; in the other modes
        # commands have no ids, and the output is that of the first open command.
        ids = item.get("tool_call_ids")
        call_id = item.get("tool_call_id")
        if isinstance(ids, list) and ids:
            call_id = ids[0]
        key = as_text(call_id)
        if key is None and self._open_calls:
            key = self._open_calls[0]
        # Forget this call, and those before it that have been answered by their ids.
        while self._open_calls:
            first = self._open_calls[0]
            if first != key and self._draft.is_call_open(first):
                break
            self._open_calls.popleft()
        output = self._get_content(item, position)
        facts = self._get_step_facts(self._step, position)
        # The step has the whole observation; the message may have been shortened for the model.
        observation = self._step.get("observation")
        if isinstance(observation, str) and isinstance(output, str):
            if observation.strip() not in output:
                self._draft.note_omission(
                    "unshown-output",
                    position,
                    "full output, of which the model saw a part",
                    what="result",
                    size=len(observation),
                )
        self._draft.add_tool_result(key, output, facts=facts)
        self._step = {}

    def _get_step_facts(self, step: Body, position: str) -> Body:
        """Return the time that a step took, and the state of the environment."""
        facts = pick_fields(step, "execution_time")
        state = step.get("state")
        # The state is JSON text in some versions.
        if isinstance(state, str):
            state = parse_arguments(state.strip())
        if isinstance(state, dict):
            small = {name: value for name, value in state.items() if _is_small(value)}
            if len(small) < len(state):
                self._draft.note_omission(
                    "skipped-field", position, "large values in the state of the environment"
                )
            if small:
                facts["state"] = small
        for name in ("messages", "query", "extra_info"):
            if step.get(name):
                self._draft.note_omission("skipped-field", position, f"field {name} of a step")
        return facts

    def _finish_response(self) -> None:
        """Add a result that only the step holds, as for the last command of a run."""
        observation = self._step.get("observation")
        if self._open_calls and isinstance(observation, str) and observation:
            facts = self._get_step_facts(self._step, "trajectory")
            self._draft.add_tool_result(self._open_calls[0], observation, facts=facts)
        self._open_calls.clear()
        self._step = {}

    def _read_unmatched_step(self, number: int, step: Body) -> None:
        """Read a step that is not in the history."""
        position = f"{self._label}step {number}"
        actor = self._get_model_actor()
        self._add_reasoning(step, actor)
        text = as_text(step.get("response")) or as_text(step.get("thought"))
        if text:
            self._draft.add_message("assistant", text, actor)
        facts = self._get_step_facts(step, position)
        action = as_text(step.get("action"))
        observation = step.get("observation")
        if action:
            key = self._add_command(action, actor, position)
            if observation is not None:
                self._draft.add_tool_result(key, observation, facts=facts)
        elif isinstance(observation, str) and observation:
            self._draft.add_message("user", observation, self._runtime, visibility="internal")


def _is_small(value: Any) -> bool:
    try:
        return len(msgspec.json.encode(value)) <= _MAX_STATE_SIZE
    except (RecursionError, ValueError):
        return False
