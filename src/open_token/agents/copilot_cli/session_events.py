"""Read the events of a Copilot CLI session that are no messages.

They say where it runs and with which model, what went wrong, what was compacted and what it cost.
"""

from collections import Counter
from typing import Any, NamedTuple

from open_token.builder.draft import Draft
from open_token.formats.shared.fields import as_text, drop_nulls, pick_fields
from open_token.formats.shared.inline_subagents import InlineAgent
from open_token.formats.shared.token_usage import build_usage
from open_token.model.document import Event

Data = dict[str, Any]
_CONTEXT_FIELDS = {
    "cwd": "cwd",
    "gitRoot": "git_root",
    "branch": "git_branch",
    "headCommit": "head_commit",
    "baseCommit": "base_commit",
    "repository": "repository",
}
_TRUNCATION_FIELDS = {
    "performedBy": "performed_by",
    "reason": "reason",
    "tokenLimit": "token_limit",
    "preTruncationTokensInMessages": "pre_tokens",
    "postTruncationTokensInMessages": "post_tokens",
    "tokensRemovedDuringTruncation": "tokens_removed",
    "messagesRemovedDuringTruncation": "messages_removed",
    "droppedTokens": "tokens_removed",
}
_COMPACTION_FIELDS = {
    "success": "success",
    "error": "error",
    "preCompactionTokens": "pre_tokens",
    "postCompactionTokens": "post_tokens",
    "tokensRemoved": "tokens_removed",
    "messagesRemoved": "messages_removed",
    "summaryContent": "summary",
    "checkpointPath": "checkpoint_path",
}
_TOTAL_FIELDS = {
    "shutdownType": "shutdown_type",
    "errorReason": "error",
    "totalPremiumRequests": "premium_requests",
    "totalApiDurationMs": "api_duration_ms",
    "codeChanges": "code_changes",
    "modelMetrics": "models",
}


class SessionEventReader:
    """Adds annotations for events about the session."""

    def __init__(self, draft: Draft, client: str, main: InlineAgent) -> None:
        self._draft = draft
        self._client = client
        self._main = main
        self._context: Data = {}
        self._runs: list[_Run] = []

    def _annotate(self, data: Data, ts: str | None, span: str | None = None) -> Event:
        return self._draft.add_annotation(data, actor=self._client, ts=ts, span=span)

    def set_model(self, model: str | None) -> None:
        """Set the model of the main agent; with `auto` the answers name it."""
        if model and model != "auto" and model != self._main.model:
            self._main.model = model
            self._main.actor = ""

    def update_context(self, context: Any, facts: Data, ts: str | None) -> None:
        """Annotate where the session runs, when that is first seen and when it changes."""
        fields = _pick(context, _CONTEXT_FIELDS)
        changed = {
            name: value for name, value in fields.items() if self._context.get(name) != value
        }
        self._context |= fields
        data = drop_nulls(facts) | changed
        if data:
            self._annotate({"kind": "context", **data}, ts)

    def read_context_change(
        self, data: Data, agent: InlineAgent, ts: str | None, position: str
    ) -> None:
        """Read that the session moved to another folder or branch."""
        self.update_context(data, {}, ts)

    def read_model_change(
        self, data: Data, agent: InlineAgent, ts: str | None, position: str
    ) -> None:
        """Read another model, or another effort of the same."""
        names = {
            "newModel": "model",
            "previousModel": "previous_model",
            "reasoningEffort": "reasoning_effort",
        }
        self.set_model(as_text(data.get("newModel")))
        self._annotate({"kind": "settings", **_pick(data, names)}, ts)

    def read_mode_change(
        self, data: Data, agent: InlineAgent, ts: str | None, position: str
    ) -> None:
        """Read another mode: interactive, plan or autopilot."""
        names = {"newMode": "mode", "previousMode": "previous_mode"}
        self._annotate({"kind": "settings", **_pick(data, names)}, ts)

    def read_notice(self, data: Data, agent: InlineAgent, ts: str | None, position: str) -> None:
        """Read a message of the runtime to the person."""
        subtype = as_text(data.get("infoType")) or as_text(data.get("warningType"))
        facts = {"subtype": subtype, "text": as_text(data.get("message"))}
        self._annotate({"kind": "notice", **drop_nulls(facts)}, ts)

    def read_handoff(self, data: Data, agent: InlineAgent, ts: str | None, position: str) -> None:
        """Read that the session was continued from elsewhere."""
        names = {
            "sourceType": "source",
            "summary": "text",
            "context": "context",
            "remoteSessionId": "from_session",
        }
        self._annotate({"kind": "notice", "subtype": "handoff", **_pick(data, names)}, ts)

    def read_error(self, data: Data, agent: InlineAgent, ts: str | None, position: str) -> None:
        """Read an error; its stack trace is left out."""
        names = {"errorType": "type", "message": "message", "statusCode": "status"}
        self._annotate({"kind": "error", **_pick(data, names)}, ts, agent.span)
        if data.get("stack"):
            self._draft.note_omission("side-data", position, "stack trace of an error")

    def read_abort(self, data: Data, agent: InlineAgent, ts: str | None, position: str) -> None:
        """Read that the turn was stopped."""
        self._annotate({"kind": "aborted", **pick_fields(data, "reason")}, ts, agent.span)

    def read_truncation(
        self, data: Data, agent: InlineAgent, ts: str | None, position: str
    ) -> None:
        """Read that old messages are no longer sent to the model."""
        facts = _pick(data, _TRUNCATION_FIELDS)
        annotation = {"kind": "compaction", "method": "truncation", **facts}
        self._annotate(annotation, ts, agent.span)

    def read_compaction(
        self, data: Data, agent: InlineAgent, ts: str | None, position: str
    ) -> None:
        """Read that old messages were replaced by a summary, with the usage of making it."""
        tokens = data.get("compactionTokensUsed")
        if not isinstance(tokens, dict):
            tokens = {}
        usage = build_usage(
            input_tokens=tokens.get("input", tokens.get("inputTokens")),
            output_tokens=tokens.get("output", tokens.get("outputTokens")),
            cache_read_tokens=tokens.get("cachedInput", tokens.get("cacheReadTokens")),
        )
        annotation = {"kind": "compaction", **_pick(data, _COMPACTION_FIELDS)}
        self._draft.add_annotation(
            annotation, actor=self._client, ts=ts, span=agent.span, usage=usage
        )

    def add_task_complete(
        self, data: Data, last_output: Any, span: str | None, ts: str | None
    ) -> None:
        """Add that the agent called its task done; the summary usually repeats its last output."""
        facts = pick_fields(data, "success", "outcome", "summary")
        if data.get("summary") == last_output:
            facts.pop("summary", None)
        self._annotate({"kind": "task_complete", **facts}, ts, span)

    def add_shutdown(self, data: Data, ts: str | None, answers: int, output_tokens: int) -> None:
        """Add the end of a run with its totals, and how much was exported by then."""
        event = self._annotate({"kind": "session_totals", **_pick(data, _TOTAL_FIELDS)}, ts)
        totals = _sum_model_metrics(data.get("modelMetrics"))
        self._runs.append(_Run(event, totals, answers, output_tokens))

    def assign_totals(self) -> None:
        """Assign to each run the usage that no answer has: input is only counted at its end."""
        before = _Run({}, Counter(), 0, 0)
        for run in self._runs:
            totals = run.totals
            if run.is_cumulative(before):
                totals = totals - before.totals
            if totals["inputTokens"]:
                exported = run.output_tokens - before.output_tokens
                usage = build_usage(
                    input_tokens=totals["inputTokens"],
                    output_tokens=max(0, totals["outputTokens"] - exported),
                    cache_read_tokens=totals["cacheReadTokens"],
                    cache_write_tokens=totals["cacheWriteTokens"],
                )
                self._draft.set_usage(run.event, usage or {})
            before = run


class _Run(NamedTuple):
    """The state at the end of a run of the session; it has several if it was resumed."""

    event: Event
    totals: Counter[str]
    answers: int
    output_tokens: int

    def is_cumulative(self, before: "_Run") -> bool:
        """Return whether the totals include the run before: in 1.0.86 they do, in 1.0.48 not."""
        is_more = all(self.totals[name] >= count for name, count in before.totals.items())
        return is_more and self.totals["requests"] >= self.answers


def _sum_model_metrics(models: Any) -> Counter[str]:
    """Return the counts of all models together."""
    totals: Counter[str] = Counter()
    if not isinstance(models, dict):
        return totals
    for metrics in models.values():
        if not isinstance(metrics, dict):
            continue
        usage = metrics.get("usage")
        requests = metrics.get("requests")
        figures = dict(usage) if isinstance(usage, dict) else {}
        figures["requests"] = requests.get("count") if isinstance(requests, dict) else None
        totals.update(
            {name: count for name, count in figures.items() if type(count) is int and count > 0}
        )
    return totals


def _pick(data: Any, names: dict[str, str]) -> Data:
    """Return the fields that are present, under our names."""
    if type(data) is not dict:
        return {}
    return {name: data[key] for key, name in names.items() if data.get(key) is not None}
