"""Tells SWE-agent trajectories: who said what stands in the history, what was run and when in the
steps."""

from collections import deque
from typing import Any

import msgspec

from open_token.builder.draft import Draft
from open_token.formats.shared import chat_messages as wire
from open_token.formats.shared.fields import as_dicts, as_text, parse_arguments, pick_fields
from open_token.formats.shared.notes import format_kind
from open_token.formats.shared.providers import identify_provider
from open_token.formats.shared.reasoning import list_reasoning
from open_token.formats.shared.token_usage import build_usage
from open_token.model.document import Event, Role

Body = dict[str, Any]
_LONG = 2000


def tell(document: Body, draft: Draft) -> None:
    """Tell the run; where it was tried several times, the attempts that were not handed in are
    branches."""
    draft.conversation["source_runtime"] = "cli"
    draft.without_thoughts = "unknown"
    runtime = draft.get_actor("system", "SWE-agent")
    model = _context(document, draft, runtime)
    for number, attempt in enumerate(as_dicts(document.get("attempts")), 1):
        if attempt.get("history") != document.get("history"):
            first = draft.count
            _Run(attempt, draft, runtime, model, f"attempt {number}, ").tell()
            draft.drop_branch(
                first, draft.count, {"kind": "abandoned_branch", "attempt": number}, runtime
            )
    _Run(document, draft, runtime, model).tell()
    outcome(document, draft, runtime)


def _context(document: Body, draft: Draft, runtime: str) -> str | None:
    """What the configuration tells: the model, the task, the environment."""
    config = document.get("replay_config")
    if isinstance(config, str):
        config = parse_arguments(config)
    agent = config.get("agent") if isinstance(config, dict) else None
    model = agent.get("model") if isinstance(agent, dict) else None
    problem = config.get("problem_statement") if isinstance(config, dict) else None
    facts = {
        "environment": as_text(document.get("environment")),
        "model": as_text(model.get("name")) if isinstance(model, dict) else None,
        "problem_id": as_text(problem.get("id")) if isinstance(problem, dict) else None,
    }
    known = {name: value for name, value in facts.items() if value}
    if known:
        draft.add_annotation({"kind": "context"} | known, actor=runtime)
    if title := known.get("problem_id"):
        draft.conversation["title"] = title
    if provider := identify_provider(known.get("model")):
        draft.conversation["provider"] = provider
    if config:
        draft.note_omission("skipped-field", "replay_config", "the configuration of the run")
    return known.get("model")


def outcome(document: Body, draft: Draft, runtime: str) -> None:
    """How the run ended, what was handed in, what it cost."""
    info = document.get("info")
    if not isinstance(info, dict):
        return
    told = {
        name: value
        for name, value in info.items()
        if value and name not in ("model_stats", "config")
    }
    if told:
        draft.add_annotation({"kind": "outcome"} | told, actor=runtime)
    stats = info.get("model_stats")
    if isinstance(stats, dict):
        usage = build_usage(
            input_tokens=stats.get("tokens_sent"), output_tokens=stats.get("tokens_received")
        )
        facts = pick_fields(stats, "api_calls") | {"cost_usd": stats.get("instance_cost")}
        if any(facts.values()) or (usage and any(usage.values())):
            draft.add_annotation({"kind": "usage"} | facts, actor=runtime, usage=usage)


class _Run:
    """One attempt: the history in order, each answer of the model joined with the step that ran
    it."""

    def __init__(
        self, body: Body, draft: Draft, runtime: str, model: str | None, label: str = ""
    ) -> None:
        self._draft = draft
        self._runtime = runtime
        self._model = model
        self._label = label
        self._history = body.get("history")
        self._steps = deque(enumerate(as_dicts(body.get("trajectory")), 1))
        self._step: Body | None = None
        """The step of the answer that was told last."""
        self._open: deque[str] = deque()
        """The calls of that answer that have no result yet."""
        self._asked = False
        self._name = "agent"

    def tell(self) -> None:
        """Everything, in order."""
        for number, item in enumerate(self._history if isinstance(self._history, list) else [], 1):
            place = f"{self._label}history {number}"
            if not isinstance(item, dict):
                self._draft.note_omission("unknown-record", place, "an entry that is no message")
            elif item.get("is_demo") is True:
                self._demonstrate(item, place)
            else:
                self._tell(item, place)
        self._settle()
        while self._steps:
            self._lone_step(*self._steps.popleft())

    def _tell(self, item: Body, place: str) -> None:
        role = item.get("role")
        if role == "assistant":
            self._answer(item, place)
        elif role in ("tool", "function") or (role == "user" and self._open):
            self._result(item, place)
        elif role == "user":
            # The first is the task; later ones come from the runtime: a reminder of the form, a
            # warning.
            visibility = "internal" if self._asked else "public"
            actor = self._runtime if self._asked else self._draft.get_actor("human", "user")
            self._asked = True
            self._draft.add_message("user", self._words(item, place), actor, visibility=visibility)  # type: ignore[arg-type]
        elif role == "system":
            self._draft.add_message("system", self._words(item, place), self._runtime)
        else:
            self._draft.note_omission("unknown-role", place, f"role {format_kind(role)}")

    def _words(self, item: Body, place: str) -> str | list[Any]:
        return wire.parse_content(self._draft, item.get("content"), place) or ""

    def _actor(self, item: Body) -> str:
        self._name = as_text(item.get("agent")) or self._name
        return self._draft.get_actor(
            "model", self._name, provider=identify_provider(self._model), model=self._model
        )

    def _demonstrate(self, item: Body, place: str) -> None:
        """A message that was given to the model as an example: it never happened."""
        words = self._words(item, place)
        calls = [
            {"type": "tool_call", "tool_call": call} for call in as_dicts(item.get("tool_calls"))
        ]
        if calls:
            words = [
                *([{"type": "text", "text": words}] if isinstance(words, str) else words),
                *calls,
            ]
        given = item.get("role")
        role: Role = given if given in ("system", "assistant") else "user"
        event = self._draft.add_message(role, words, self._runtime, visibility="internal")
        self._draft.add_annotation({"kind": "message_facts", "demonstration": True}, parent=event)

    def _answer(self, item: Body, place: str) -> None:
        self._settle()
        self._asked = True
        step = self._take_step(item)
        actor = self._actor(item)
        for text, summary in list_reasoning(item):
            self._draft.add_reasoning(text, actor, summary=summary)
        if words := self._words(item, place) or as_text(item.get("thought")):
            self._draft.add_message("assistant", words, actor)
        calls, action = as_dicts(item.get("tool_calls")), as_text(item.get("action"))
        # With function calls the action is the command that the one call became.
        extra = {"action": action} if action and len(calls) == 1 else None
        for call in calls:
            function = call.get("function")
            made: Body = function if isinstance(function, dict) else call
            native = as_text(call.get("id"))
            given = parse_arguments(made.get("arguments"))
            tool = as_text(made.get("name")) or "tool"
            self._open.append(
                self._draft.add_tool_call(native, tool, given, actor, group=place, extra=extra)
            )
        if not calls and action:
            self._open.append(
                self._draft.add_tool_call(None, "bash", {"command": action}, actor, group=place)
            )
        self._step = step

    def _take_step(self, item: Body) -> Body | None:
        """The step in which an answer was run; steps before it that the history passes over are
        told here."""
        said, action = item.get("content"), item.get("action")
        for ahead, (_, step) in enumerate(self._steps):
            if (said and step.get("response") == said) or (action and step.get("action") == action):
                for _ in range(ahead):
                    self._lone_step(*self._steps.popleft())
                return self._steps.popleft()[1]
            if ahead >= 64:
                break
        return None

    def _result(self, item: Body, place: str) -> None:
        ids = item.get("tool_call_ids")
        named = (
            as_text(ids[0]) if isinstance(ids, list) and ids else as_text(item.get("tool_call_id"))
        )
        key = named or (self._open[0] if self._open else None)
        while self._open and (self._open[0] == key or not self._draft.is_call_open(self._open[0])):
            self._open.popleft()
        output = self._words(item, place)
        facts = self._facts(place)
        seen = self._step.get("observation") if self._step else None
        if isinstance(seen, str) and isinstance(output, str) and seen.strip() not in output:
            self._draft.note_omission(
                "unshown-output", place, "the whole output of which the model saw a part"
            )
        self._draft.add_tool_result(key, output, facts=facts)
        self._step = None

    def _facts(self, place: str) -> Body:
        """What a step knows beside its words: how long it took, and the state of the
        environment."""
        step = self._step or {}
        state = step.get("state")
        if isinstance(state, str):
            state = parse_arguments(state.strip())
        facts = pick_fields(step, "execution_time")
        if isinstance(state, dict):
            small = {name: value for name, value in state.items() if _is_small(value)}
            if len(small) < len(state):
                self._draft.note_omission(
                    "skipped-field", place, "the state of the environment, as far as it is long"
                )
            facts |= {"state": small} if small else {}
        for name in ("messages", "query", "extra_info"):
            if step.get(name):
                self._draft.note_omission("skipped-field", place, f"field {name} of a step")
        return facts

    def _settle(self) -> None:
        """No result of the last answer stands in the history: the step has it, as with the last
        command of a run."""
        seen = self._step.get("observation") if self._step else None
        if self._open and isinstance(seen, str) and seen:
            self._draft.add_tool_result(self._open[0], seen, facts=self._facts("trajectory"))
        self._open.clear()
        self._step = None

    def _lone_step(self, number: int, step: Body) -> Event | None:
        """A step of which the history has nothing."""
        place = f"{self._label}step {number}"
        actor = self._actor({})
        for text, summary in list_reasoning(step):
            self._draft.add_reasoning(text, actor, summary=summary)
        if words := as_text(step.get("response")) or as_text(step.get("thought")):
            self._draft.add_message("assistant", words, actor)
        self._step = step
        action, seen, facts = (
            as_text(step.get("action")),
            step.get("observation"),
            self._facts(place),
        )
        self._step = None
        if action:
            key = self._draft.add_tool_call(None, "bash", {"command": action}, actor, group=place)
            if seen is not None:
                return self._draft.add_tool_result(key, seen, facts=facts)
        elif as_text(seen):
            return self._draft.add_message("user", str(seen), self._runtime, visibility="internal")
        return None


def _is_small(value: Any) -> bool:
    """Whether a fact is short enough to stand beside a result."""
    try:
        return len(msgspec.json.encode(value)) <= _LONG
    except (RecursionError, ValueError):
        return False
