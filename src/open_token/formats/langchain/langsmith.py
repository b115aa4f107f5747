"""Tells runs of LangSmith: what models were asked and answered, what tools did, each message
once."""

from dataclasses import dataclass, field
from typing import Any

from open_token.builder.draft import MISSING_RESULT, Draft
from open_token.formats.langchain.langsmith_content import (
    Told,
    answered,
    asked,
    tool_call,
    tool_result,
)
from open_token.formats.langchain.langsmith_runs import Run, found, odd_in, owner, trees
from open_token.formats.shared.fields import as_text
from open_token.formats.shared.messages import Message, ToolCallPart, ToolResultPart
from open_token.formats.shared.notes import format_kind, note_tool_definitions
from open_token.formats.shared.providers import identify_provider
from open_token.formats.shared.repeated_history import HistoryWriter, MessageContext
from open_token.model.document import Event, Found
from open_token.sources.source import Source

_TOOLS = ("tool", "retriever")


def conversations(source: Source) -> list[Found]:
    """The threads of a file, or its traces where they have none."""
    return found(source)


def belongs(source: Source, at: str, value: Any) -> str | None:
    """The conversation of a record."""
    return owner(source, value)


def read(source: Source, draft: Draft) -> None:
    """Tell the runs in the order in which they were called."""
    draft.conversation["source_runtime"] = "api"
    draft.without_thoughts = "unknown"
    roots = trees(source)
    if roots:
        if source.conversation:
            draft.conversation["id"] = source.conversation
        elif len(chosen := found(source)) == 1:
            draft.conversation["id"] = chosen[0].id
        if begun := roots[0].time("start_time"):
            draft.conversation["started_at"] = begun
    for place in odd_in(source):
        draft.note_omission("unknown-record", place, "something that is no run")
    _Runs(draft).tell(roots)


@dataclass(slots=True)
class _Open:
    """A run of a tool that is under way: the call it serves, and the span of the agent that it
    is."""

    call: str
    arguments: Any
    span: str | None = None


@dataclass(slots=True)
class _Around:
    """What a run stands in: the span of a subagent, what counts as one history, who speaks."""

    span: str | None = None
    scope: object = None
    name: str = "assistant"
    actor: str | None = None
    user: str | None = None
    waiting: list[Message] = field(default_factory=list)
    """What the outermost run was given, until its first model has heard its own prompt."""


class _Runs:
    """Walks the trees of runs."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._talk = HistoryWriter(draft)
        self._around = [_Around()]
        self._open: dict[str, _Open] = {}

    def tell(self, roots: list[Run]) -> None:
        asking = _asking(roots)
        for root in roots:
            stack = [(root, True)]
            while stack:
                run, enters = stack.pop()
                if not enters:
                    self._leave(run, run is root)
                    continue
                stack.append((run, False))
                if self._enter(run, run is root, run.id in asking):
                    stack += ((child, True) for child in reversed(run.children))

    def _enter(self, run: Run, is_root: bool, asks: bool) -> bool:
        """Tell how a run begins; gives whether what is in it is told too."""
        if run.kind == "llm":
            self._model(run)
        elif run.kind in _TOOLS:
            return self._tool(run, asks and bool(run.children))
        elif is_root:
            self._outermost(run)
        else:
            self._draft.note_omission(
                "inner-run", run.place, f"a run {format_kind(run.kind)} inside another"
            )
        return True

    def _leave(self, run: Run, is_root: bool) -> None:
        if run.kind in _TOOLS:
            self._tool_done(run)
        elif is_root and run.kind != "llm":
            self._wait_no_more(run)
            told = answered(run)
            if told.messages:
                self._talk.add_history(told.messages, self._stage(run, run.time("end_time")))
            self._rest(run, "outputs", told, run.time("end_time"))
        if run.kind != "llm":
            self._error(run)

    def _stage(self, run: Run, ts: str | None) -> MessageContext:
        around = self._around[-1]
        actor = around.actor = around.actor or self._draft.get_actor("model", around.name)
        return MessageContext(
            actor, run.place, span=around.span, ts=ts, scope=around.scope, user=around.user
        )

    def _outermost(self, run: Run) -> None:
        told = asked(run)
        self._around[-1].waiting = told.messages
        self._rest(run, "inputs", told, run.time("start_time"))

    def _rest(self, run: Run, name: str, told: Told, ts: str | None) -> None:
        if told.rest:
            data = {"kind": "run", "name": run.name, "run_type": run.kind, name: told.rest}
            self._draft.add_annotation(data, ts=ts, span=self._around[-1].span)

    def _wait_no_more(self, run: Run) -> None:
        waiting, self._around[-1].waiting = self._around[-1].waiting, []
        if waiting:
            self._talk.add_history(waiting, self._stage(run, None))

    def _model(self, run: Run) -> None:
        told, answer = asked(run), answered(run)
        around = self._around[-1]
        around.actor = self._speaker(run, around.name, told, answer)
        stage = self._stage(run, run.time("end_time"))
        self._talk.add_history(told.messages, stage)
        self._rest(run, "inputs", told, run.time("start_time"))
        self._wait_no_more(run)
        if told.tools:
            self._draft.add_annotation({"kind": "tools", "names": told.tools}, span=stage.span)
            note_tool_definitions(self._draft.note_omission, told.definitions, run.place)
        self._answer(run, answer, stage)
        self._error(run)

    def _speaker(self, run: Run, name: str, told: Told, answer: Told) -> str:
        model = as_text(run.metadata.get("ls_model_name")) or answer.model or told.model
        provider = identify_provider(model, as_text(run.metadata.get("ls_provider")))
        if provider:
            self._draft.conversation.setdefault("provider", provider)
        return self._draft.get_actor("model", name, provider=provider, model=model)

    def _answer(self, run: Run, answer: Told, stage: MessageContext) -> None:
        stage.usage = answer.usage
        if answer.usage and answer.usage.get("reasoning_tokens"):
            self._draft.without_thoughts = "unavailable"
        event: Event | None = None
        for message in answer.messages[:1]:
            event = self._talk.add_message(message, stage)
        self._talk.close(stage)
        for message in answer.messages[:1]:
            self._talk.add_facts(event, stage, message.facts)
        self._rest(run, "outputs", answer, stage.ts)
        for number, message in enumerate(answer.messages[1:], 2):
            self._alternative(number, message, stage)

    def _alternative(self, number: int, message: Message, stage: MessageContext) -> None:
        first = self._draft.count
        self._talk.add_message(message, stage)
        for call in (part for part in message.parts if isinstance(part, ToolCallPart) and part.id):
            if call.id and self._draft.is_call_open(call.id):
                self._draft.add_tool_result(call.id, dict(MISSING_RESULT))
        data = {"kind": "abandoned_branch", "branch": "alternative", "choice": number}
        self._draft.drop_branch(first, self._draft.count, data, stage.actor)

    def _tool(self, run: Run, holds_agent: bool) -> bool:
        self._wait_no_more(run)
        given = tool_call(run)
        stage = self._stage(run, run.time("start_time"))
        known = self._talk.find_open_call(given)
        key = known[0] if known else self._talk.add_tool_call(given, stage)
        self._open[run.id] = _Open(key, known[1] if known else given.arguments)
        if not holds_agent:
            return True
        if self._draft.subagents == "none":
            self._draft.note_omission(
                "subagent", run.place, "what a subagent did is left out (subagents=none)"
            )
            return False
        data: dict[str, Any] = {"kind": "subagent", "name": run.name, "run_id": run.id}
        if self._draft.subagents == "reference":
            data["reference"] = run.id
        first = _first_asking(run)
        actor = self._speaker(first, run.name, asked(first), answered(first))
        span = self._draft.start_span(data, actor, ts=stage.ts, call=key)
        self._open[run.id].span = span
        self._around.append(_Around(span, run.id, run.name, user=stage.actor))
        return self._draft.subagents == "inline"

    def _tool_done(self, run: Run) -> None:
        state = self._open.pop(run.id)
        ts = run.time("end_time")
        if state.span:
            self._around.pop()
            self._draft.end_span(state.span, ts=ts, call=state.call)
        made = tool_result(run)
        if made is None:
            return
        facts = dict(made.facts or {})
        ran = tool_call(run).arguments
        if ran != state.arguments:
            facts["arguments"] = ran
        stage = self._stage(run, ts)
        # The id by which the next prompt repeats the result is that of the call.
        native = None if state.call.startswith("\0") else state.call
        self._talk.mark_seen(ToolResultPart(native or made.id, made.output, made.tool), stage)
        self._draft.add_tool_result(
            state.call, made.output, ts=ts, span=stage.span, tool=made.tool, facts=facts or None
        )

    def _error(self, run: Run) -> None:
        error = as_text(run.body.get("error"))
        if error and run.kind not in _TOOLS:
            span = self._around[-1].span
            self._draft.add_annotation(
                {"kind": "error", "run": run.name, "error": error},
                ts=run.time("end_time"),
                span=span,
            )


def _first_asking(top: Run) -> Run:
    """The first call of a model below a run."""
    stack = [top]
    while stack:
        run = stack.pop()
        if run.kind == "llm":
            return run
        stack += reversed(run.children)
    return top


def _asking(roots: list[Run]) -> set[str]:
    """The ids of all runs below which a model is asked."""
    order: list[Run] = []
    stack = list(roots)
    while stack:
        run = stack.pop()
        order.append(run)
        stack += run.children
    found: set[str] = set()
    for run in reversed(order):
        if run.kind == "llm" or any(child.id in found for child in run.children):
            found.add(run.id)
    return found
