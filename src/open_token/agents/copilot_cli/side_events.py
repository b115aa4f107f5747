"""What Copilot CLI logs beside the talk: where it runs, with which model, what went wrong, what was
spent."""

from collections import Counter
from typing import Any, NamedTuple

from open_token.builder.draft import Draft
from open_token.formats.shared.fields import as_text, pick_fields
from open_token.formats.shared.inline_subagents import InlineAgent
from open_token.formats.shared.token_usage import build_usage
from open_token.model.document import Event

Data = dict[str, Any]
_PLACE = {
    "cwd": "cwd",
    "gitRoot": "git_root",
    "branch": "git_branch",
    "headCommit": "head_commit",
    "baseCommit": "base_commit",
    "repository": "repository",
}
_TRUNCATION = {
    "performedBy": "performed_by",
    "reason": "reason",
    "tokenLimit": "token_limit",
    "preTruncationTokensInMessages": "pre_tokens",
    "postTruncationTokensInMessages": "post_tokens",
    "tokensRemovedDuringTruncation": "tokens_removed",
    "messagesRemovedDuringTruncation": "messages_removed",
    "droppedTokens": "tokens_removed",
}
_COMPACTION = {
    "success": "success",
    "error": "error",
    "preCompactionTokens": "pre_tokens",
    "postCompactionTokens": "post_tokens",
    "tokensRemoved": "tokens_removed",
    "messagesRemoved": "messages_removed",
    "summaryContent": "summary",
    "checkpointPath": "checkpoint_path",
}
_TOTALS = {
    "shutdownType": "shutdown_type",
    "errorReason": "error",
    "totalPremiumRequests": "premium_requests",
    "totalApiDurationMs": "api_duration_ms",
    "codeChanges": "code_changes",
    "modelMetrics": "models",
}


class Asides:
    """Tells the events that are no line of talk."""

    def __init__(self, draft: Draft, client: str, main: InlineAgent) -> None:
        self._draft = draft
        self._client = client
        self._main = main
        self._where: Data = {}
        self._runs: list[_Run] = []

    def _note(self, data: Data, ts: str | None, span: str | None = None) -> Event:
        return self._draft.add_annotation(data, actor=self._client, ts=ts, span=span)

    def choose_model(self, model: str | None) -> None:
        """Who answers from now on; with `auto` the answers tell."""
        if model and model != "auto" and model != self._main.model:
            self._main.model, self._main.actor = model, ""

    def where(self, context: Any, facts: Data, ts: str | None) -> None:
        """Where the session runs: an annotation when that is first seen and when it changes."""
        found = _picked(context, _PLACE)
        changed = {name: value for name, value in found.items() if self._where.get(name) != value}
        self._where |= found
        if data := pick_fields(facts, *facts) | changed:
            self._note({"kind": "context", **data}, ts)

    def context(self, data: Data, agent: InlineAgent, ts: str | None, place: str) -> None:
        """The session moved to another folder or branch."""
        self.where(data, {}, ts)

    def model_change(self, data: Data, agent: InlineAgent, ts: str | None, place: str) -> None:
        """Another model, or another effort of the same."""
        names = {
            "newModel": "model",
            "previousModel": "previous_model",
            "reasoningEffort": "reasoning_effort",
        }
        self.choose_model(as_text(data.get("newModel")))
        self._note({"kind": "settings", **_picked(data, names)}, ts)

    def mode_changed(self, data: Data, agent: InlineAgent, ts: str | None, place: str) -> None:
        """Interactive, plan or autopilot."""
        self._note(
            {
                "kind": "settings",
                **_picked(data, {"newMode": "mode", "previousMode": "previous_mode"}),
            },
            ts,
        )

    def notice(self, data: Data, agent: InlineAgent, ts: str | None, place: str) -> None:
        """What the runtime told the person."""
        kind = as_text(data.get("infoType")) or as_text(data.get("warningType"))
        facts = {"subtype": kind, "text": as_text(data.get("message"))}
        self._note({"kind": "notice", **pick_fields(facts, *facts)}, ts)

    def handoff(self, data: Data, agent: InlineAgent, ts: str | None, place: str) -> None:
        """The session came from elsewhere."""
        names = {
            "sourceType": "source",
            "summary": "text",
            "context": "context",
            "remoteSessionId": "from_session",
        }
        self._note({"kind": "notice", "subtype": "handoff", **_picked(data, names)}, ts)

    def error(self, data: Data, agent: InlineAgent, ts: str | None, place: str) -> None:
        """Something went wrong."""
        names = {"errorType": "type", "message": "message", "statusCode": "status"}
        self._note({"kind": "error", **_picked(data, names)}, ts, agent.span)
        if data.get("stack"):
            self._draft.note_omission("side-data", place, "the stack of an error")

    def abort(self, data: Data, agent: InlineAgent, ts: str | None, place: str) -> None:
        """The turn was stopped."""
        self._note({"kind": "aborted", **pick_fields(data, "reason")}, ts, agent.span)

    def truncation(self, data: Data, agent: InlineAgent, ts: str | None, place: str) -> None:
        """Old messages no longer go to the model."""
        self._note(
            {"kind": "compaction", "method": "truncation", **_picked(data, _TRUNCATION)},
            ts,
            agent.span,
        )

    def compaction(self, data: Data, agent: InlineAgent, ts: str | None, place: str) -> None:
        """Old messages were replaced by a summary, which took a call of its own."""
        spent = data.get("compactionTokensUsed")
        used = spent if isinstance(spent, dict) else {}
        usage = build_usage(
            input_tokens=used.get("input", used.get("inputTokens")),
            output_tokens=used.get("output", used.get("outputTokens")),
            cache_read_tokens=used.get("cachedInput", used.get("cacheReadTokens")),
        )
        about = {"kind": "compaction", **_picked(data, _COMPACTION)}
        self._draft.add_annotation(about, actor=self._client, ts=ts, span=agent.span, usage=usage)

    def task_complete(self, data: Data, last_output: Any, span: str | None, ts: str | None) -> None:
        """The agent called its task done; the words are those of the call before, as a rule."""
        names = (
            ("success", "outcome")
            if data.get("summary") == last_output
            else ("success", "outcome", "summary")
        )
        self._note({"kind": "task_complete", **pick_fields(data, *names)}, ts, span)

    def shutdown(self, data: Data, ts: str | None, answers: int, counted: int) -> None:
        """The end of a run, with what all of it took; so many answers, and tokens of output, were
        told by then."""
        told = self._note({"kind": "session_totals", **_picked(data, _TOTALS)}, ts)
        self._runs.append(_Run(told, _figures(data.get("modelMetrics")), answers, counted))

    def finish(self) -> None:
        """Give each run what it took and no answer was given: input is only counted at its end."""
        before = _Run({}, Counter(), 0, 0)
        for run in self._runs:
            spent = run.spent - before.spent if run.goes_on(before) else run.spent
            if spent["inputTokens"]:
                usage = build_usage(
                    input_tokens=spent["inputTokens"],
                    output_tokens=max(0, spent["outputTokens"] - (run.counted - before.counted)),
                    cache_read_tokens=spent["cacheReadTokens"],
                    cache_write_tokens=spent["cacheWriteTokens"],
                )
                self._draft.set_usage(run.event, usage or {})
            before = run


class _Run(NamedTuple):
    """What was known when a run of the session ended."""

    event: Event
    spent: Counter[str]
    answers: int
    counted: int

    def goes_on(self, before: "_Run") -> bool:
        """Whether its figures hold those of the run before it: so in 1.0.86, while in 1.0.48 each
        run has its own."""
        is_more = all(self.spent[name] >= count for name, count in before.spent.items())
        return is_more and self.spent["requests"] >= self.answers


def _figures(models: Any) -> Counter[str]:
    """The counts of all models together."""
    made: Counter[str] = Counter()
    for model in models.values() if isinstance(models, dict) else ():
        usage, requests = (
            model.get(name) if isinstance(model, dict) else None for name in ("usage", "requests")
        )
        found = dict(usage) if isinstance(usage, dict) else {}
        found["requests"] = requests.get("count") if isinstance(requests, dict) else None
        made.update(
            {name: count for name, count in found.items() if type(count) is int and count > 0}
        )
    return made


def _picked(data: Any, names: dict[str, str]) -> Data:
    """The fields that are there, under our names."""
    found = data if type(data) is dict else {}
    return {ours: found[name] for name, ours in names.items() if found.get(name) is not None}
