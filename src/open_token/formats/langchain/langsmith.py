"""Read runs of LangSmith: model inputs and outputs, tools, and each message once."""

from dataclasses import dataclass, field
from typing import Any

from open_token.builder.draft import MISSING_RESULT, Draft
from open_token.formats.langchain.langsmith_content import (
    RunContent,
    read_inputs,
    read_outputs,
    read_tool_call,
    read_tool_result,
)
from open_token.formats.langchain.langsmith_runs import (
    Run,
    build_trees,
    get_unknown_places,
    list_threads,
)
from open_token.formats.shared.fields import as_text
from open_token.formats.shared.messages import Message, ToolCallPart, ToolResultPart
from open_token.formats.shared.notes import format_kind, note_tool_definitions
from open_token.formats.shared.providers import identify_provider
from open_token.formats.shared.repeated_history import HistoryWriter, MessageContext
from open_token.model.document import Event
from open_token.sources.source import Source

_TOOL_KINDS = ("tool", "retriever")


def read(source: Source, draft: Draft) -> None:
    """Read the runs into the draft, in calling order."""
    roots = build_trees(source)
    if roots:
        threads = list_threads(source)
        if source.conversation:
            draft.conversation["id"] = source.conversation
        elif len(threads) == 1:
            draft.conversation["id"] = threads[0].id
        started_at = roots[0].get_time("start_time")
        if started_at:
            draft.conversation["started_at"] = started_at
    for place in get_unknown_places(source):
        draft.note_omission("unknown-record", place, "something that is no run")
    _RunReader(draft).read(roots)


@dataclass(slots=True)
class _OpenTool:
    """A run of a tool being read: its call, and the span of the agent in it."""

    call: str
    arguments: Any
    """The arguments that the model gave."""
    span: str | None = None


@dataclass(slots=True)
class _Scope:
    """The agent that the runs being read belong to."""

    span: str | None = None
    history: object = None
    """Messages are repeated within one history; a subagent has a history of its own."""
    name: str = "assistant"
    actor: str | None = None
    user: str | None = None
    pending: list[Message] = field(default_factory=list)
    """What the root run was given, until its first model call has recorded its own prompt."""


class _RunReader:
    """Walks the trees of runs and adds what they hold to the draft."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._history = HistoryWriter(draft)
        self._scopes = [_Scope()]
        self._open_tools: dict[str, _OpenTool] = {}

    def read(self, roots: list[Run]) -> None:
        calling = _find_calling(roots)
        for root in roots:
            # Depth first without recursion: a run is visited before and after its children.
            stack = [(root, True)]
            while stack:
                run, is_start = stack.pop()
                if not is_start:
                    self._end(run, run is root)
                    continue
                stack.append((run, False))
                if self._start(run, run is root, run.id in calling):
                    stack += ((child, True) for child in reversed(run.children))

    def _start(self, run: Run, is_root: bool, calls_model: bool) -> bool:
        """Read the start of a run; return whether its children are read too."""
        if run.kind == "llm":
            self._read_model_run(run)
        elif run.kind in _TOOL_KINDS:
            return self._start_tool(run, calls_model and bool(run.children))
        elif is_root:
            content = read_inputs(run)
            self._scopes[-1].pending = content.messages
            self._annotate_rest(run, "inputs", content, run.get_time("start_time"))
        else:
            self._draft.note_omission(
                "inner-run", run.place, f"a run {format_kind(run.kind)} inside another"
            )
        return True

    def _end(self, run: Run, is_root: bool) -> None:
        if run.kind == "llm":
            return
        if run.kind in _TOOL_KINDS:
            self._end_tool(run)
            return
        if is_root:
            ended_at = run.get_time("end_time")
            self._add_pending(run)
            content = read_outputs(run)
            if content.messages:
                self._history.add_history(content.messages, self._build_stage(run, ended_at))
            self._annotate_rest(run, "outputs", content, ended_at)
        self._annotate_error(run)

    def _build_stage(self, run: Run, ts: str | None) -> MessageContext:
        scope = self._scopes[-1]
        if not scope.actor:
            scope.actor = self._draft.get_actor("model", scope.name)
        return MessageContext(
            scope.actor,
            run.place,
            span=scope.span,
            ts=ts,
            scope=scope.history,
            user=scope.user,
        )

    def _annotate_rest(self, run: Run, side: str, content: RunContent, ts: str | None) -> None:
        """Add the inputs or outputs that are no messages."""
        if content.rest:
            data = {"kind": "run", "name": run.name, "run_type": run.kind, side: content.rest}
            self._draft.add_annotation(data, ts=ts, span=self._scopes[-1].span)

    def _add_pending(self, run: Run) -> None:
        scope = self._scopes[-1]
        pending = scope.pending
        scope.pending = []
        if pending:
            self._history.add_history(pending, self._build_stage(run, None))

    def _read_model_run(self, run: Run) -> None:
        inputs = read_inputs(run)
        outputs = read_outputs(run)
        scope = self._scopes[-1]
        scope.actor = self._get_model_actor(run, scope.name, inputs, outputs)
        stage = self._build_stage(run, run.get_time("end_time"))
        self._history.add_history(inputs.messages, stage)
        self._annotate_rest(run, "inputs", inputs, run.get_time("start_time"))
        self._add_pending(run)
        if inputs.tools:
            self._draft.add_annotation({"kind": "tools", "names": inputs.tools}, span=stage.span)
            note_tool_definitions(self._draft.note_omission, inputs.definitions, run.place)
        self._read_answer(run, outputs, stage)
        self._annotate_error(run)

    def _get_model_actor(self, run: Run, name: str, inputs: RunContent, outputs: RunContent) -> str:
        # Tracers of the SDK set these names; runs that were posted by hand often lack them.
        named_model = as_text(run.metadata.get("ls_model_name"))
        named_provider = as_text(run.metadata.get("ls_provider"))
        model = named_model or outputs.model or inputs.model
        provider = identify_provider(model, named_provider)
        if provider:
            self._draft.conversation.setdefault("provider", provider)
        return self._draft.get_actor("model", name, provider=provider, model=model)

    def _read_answer(self, run: Run, outputs: RunContent, stage: MessageContext) -> None:
        stage.usage = outputs.usage
        if outputs.usage and outputs.usage.get("reasoning_tokens"):
            self._draft.without_thoughts = "unavailable"
        if outputs.messages:
            answer = outputs.messages[0]
            event: Event | None = self._history.add_message(answer, stage)
            self._history.close(stage)
            self._history.add_facts(event, stage, answer.facts)
        else:
            self._history.close(stage)
        self._annotate_rest(run, "outputs", outputs, stage.ts)
        for number, message in enumerate(outputs.messages[1:], 2):
            self._add_alternative(number, message, stage)

    def _add_alternative(self, number: int, message: Message, stage: MessageContext) -> None:
        first = self._draft.count
        self._history.add_message(message, stage)
        for part in message.parts:
            if isinstance(part, ToolCallPart) and part.id and self._draft.is_call_open(part.id):
                self._draft.add_tool_result(part.id, dict(MISSING_RESULT))
        data = {"kind": "abandoned_branch", "branch": "alternative", "choice": number}
        self._draft.drop_branch(first, self._draft.count, data, stage.actor)

    def _start_tool(self, run: Run, is_subagent: bool) -> bool:
        """Read the start of a tool; return whether its children are read too."""
        self._add_pending(run)
        call = read_tool_call(run)
        stage = self._build_stage(run, run.get_time("start_time"))
        # Usually an answer of the model has the call; a tool may also be run without one.
        known = self._history.find_open_call(call)
        if known is None:
            known = self._history.add_tool_call(call, stage), call.arguments
        key, given = known
        open_tool = _OpenTool(key, given)
        self._open_tools[run.id] = open_tool
        if not is_subagent:
            return True
        if self._draft.subagents == "none":
            self._draft.note_omission(
                "subagent", run.place, "what a subagent did is left out (subagents=none)"
            )
            return False
        data: dict[str, Any] = {"kind": "subagent", "name": run.name, "run_id": run.id}
        if self._draft.subagents == "reference":
            data["reference"] = run.id
        # The run of a subagent names no model: the first request within it does.
        model_run = _find_model_run(run)
        inputs = read_inputs(model_run)
        outputs = read_outputs(model_run)
        actor = self._get_model_actor(model_run, run.name, inputs, outputs)
        open_tool.span = self._draft.start_span(data, actor, ts=stage.ts, call=key)
        self._scopes.append(_Scope(open_tool.span, run.id, run.name, user=stage.actor))
        return self._draft.subagents == "inline"

    def _end_tool(self, run: Run) -> None:
        open_tool = self._open_tools.pop(run.id)
        key = open_tool.call
        ended_at = run.get_time("end_time")
        if open_tool.span:
            self._scopes.pop()
            self._draft.end_span(open_tool.span, ts=ended_at, call=key)
        result = read_tool_result(run)
        if result is None:
            return
        facts = dict(result.facts or {})
        given = read_tool_call(run).arguments
        if given != open_tool.arguments:
            facts["arguments"] = given
        stage = self._build_stage(run, ended_at)
        # The next prompt repeats the result under the id of the call; keys with \0 are no ids.
        native_id = result.id if key.startswith("\0") else key
        self._history.mark_seen(ToolResultPart(native_id, result.output, result.tool), stage)
        self._draft.add_tool_result(
            key,
            result.output,
            ts=ended_at,
            span=stage.span,
            tool=result.tool,
            facts=facts or None,
        )

    def _annotate_error(self, run: Run) -> None:
        error = as_text(run.body.get("error"))
        if error:
            self._draft.add_annotation(
                {"kind": "error", "run": run.name, "error": error},
                ts=run.get_time("end_time"),
                span=self._scopes[-1].span,
            )


def _find_model_run(root: Run) -> Run:
    """Return the first call of a model below a run."""
    stack = [root]
    while stack:
        run = stack.pop()
        if run.kind == "llm":
            return run
        stack += reversed(run.children)
    return root


def _find_calling(roots: list[Run]) -> set[str]:
    """Return the ids of all runs that are, or contain, a call of a model."""
    order: list[Run] = []
    stack = list(roots)
    while stack:
        run = stack.pop()
        order.append(run)
        stack += run.children
    calling: set[str] = set()
    # Children come before their parents in this direction.
    for run in reversed(order):
        if run.kind == "llm" or any(child.id in calling for child in run.children):
            calling.add(run.id)
    return calling
