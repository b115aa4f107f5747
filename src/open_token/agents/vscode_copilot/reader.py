"""Read chat sessions of VS Code: each request with the parts of its answer, in order."""

from typing import Any

from open_token.agents.vscode_copilot.answer import AnswerReader
from open_token.agents.vscode_copilot.detect import get_prompt, is_patch, parse_folder
from open_token.agents.vscode_copilot.patch_log import PatchLog
from open_token.agents.vscode_copilot.values import (
    build_image_block,
    get_markdown,
    get_path,
    join_rendered,
)
from open_token.builder.draft import Draft
from open_token.errors import InputError
from open_token.formats.shared.conversation_facts import set_conversation_facts
from open_token.formats.shared.fields import (
    JsonObject,
    get_dict,
    get_dicts,
    get_first,
    get_text,
    pick_fields,
)
from open_token.formats.shared.providers import ProviderTracker
from open_token.formats.shared.token_usage import build_usage
from open_token.jsontools.timestamps import from_epoch
from open_token.model.document import Event, Usage
from open_token.sources.source import Source

_CANCELLED, _FAILED = 2, 3
"""Values of the state of an answer."""


class SessionReader:
    """Reads one session."""

    def __init__(self, source: Source, draft: Draft) -> None:
        self._source = source
        self._draft = draft
        self._client = draft.get_actor("system", "VS Code")
        self._providers = ProviderTracker()
        self._person = ""
        self._global_context = ""

    def read(self) -> None:
        """Read the whole session into the draft."""
        session, removed = self._load()
        self._read_session(session)
        requests = session.get("requests")
        if not isinstance(requests, list):
            requests = []
        for number, request in enumerate(requests):
            self._read_removed(removed.get(number, []), number)
            self._read_request(request, f"request {number + 1}")
        for number in sorted(removed):
            if number >= len(requests):
                self._read_removed(removed[number], number)
        self._read_unsent(session)
        self._providers.set_provider(self._draft.conversation)

    def _load(self) -> tuple[JsonObject, dict[int, list[Any]]]:
        first = self._source.sample[0] if self._source.sample else None
        if is_patch(first):
            log = PatchLog(self._draft)
            log.read(self._source)
            return log.session, log.removed
        for number, record in self._source.records():
            if isinstance(record, dict):
                return record, {}
            self._draft.note_omission("skipped-record", f"line {number}", "not a session")
        return {}, {}

    def _read_session(self, session: JsonObject) -> None:
        self._draft.conversation["source_runtime"] = "ide"
        session_id = get_text(session, "sessionId")
        started = from_epoch(session.get("creationDate"), 0.001)
        set_conversation_facts(
            self._draft,
            conversation_id=session_id,
            title=get_text(session, "customTitle") or get_text(session, "name"),
            started_at=started,
        )
        facts = {
            "cwd": self._find_folder(),
            "session_id": session_id,
            "format_version": session.get("version"),
            "responder": get_text(session, "responderUsername"),
            "location": session.get("initialLocation"),
            "repository": get_dict(session, "repoData") or None,
        }
        data = {"kind": "context", **pick_fields(facts, *facts)}
        self._draft.add_annotation(data, actor=self._client, ts=started)

    def _find_folder(self) -> str | None:
        """Return the folder of the workspace, which a file above the session names."""
        for file in self._source.find_siblings("../workspace.json"):
            try:
                workspace = file.document
            except InputError:
                self._draft.note_omission("broken-file", "workspace.json", "it is not JSON")
                continue
            named = get_text(workspace, "folder") or get_text(workspace, "workspace")
            return parse_folder(named)
        return None

    def _read_removed(self, requests: list[Any], number: int) -> None:
        first = self._draft.count
        for request in requests:
            self._read_request(request, f"request {number + 1}")
        data = {"kind": "abandoned_branch", "detail": "the request was undone or edited"}
        self._draft.drop_branch(first, self._draft.count, data, self._client)

    def _read_request(self, request: Any, place: str) -> None:
        if not isinstance(request, dict):
            self._draft.note_omission("skipped-record", place, "it is not a JSON object")
            return
        ts = from_epoch(request.get("timestamp"), 0.001)
        result = get_dict(request, "result")
        metadata = get_dict(result, "metadata")
        self._read_global_context(metadata, ts, place)
        prompt = self._read_prompt(request, ts, place)
        sent = self._join_rendered(metadata.get("renderedUserMessage"), place)
        if sent:
            self._annotate({"kind": "sent_text", "text": sent}, ts, prompt)
        actor = self._get_model(request)
        answer = AnswerReader(self._draft, actor, self._client, request, place)
        answer.read()
        self._read_end(request, result, actor, ts)

    def _join_rendered(self, parts: Any, place: str) -> str:
        return join_rendered(
            parts, lambda detail: self._draft.note_omission("unknown-part", place, detail)
        )

    def _read_global_context(self, metadata: JsonObject, ts: str | None, place: str) -> None:
        context = self._join_rendered(metadata.get("renderedGlobalContext"), place)
        if context and context != self._global_context:
            self._global_context = context
            self._draft.add_message("user", context, self._client, ts=ts, visibility="internal")

    def _read_prompt(self, request: JsonObject, ts: str | None, place: str) -> Event | None:
        """Read what the person typed, and what was attached to it."""
        text = get_prompt(request)
        variables = get_dicts(get_dict(request, "variableData"), "variables")
        images = [image for image in map(build_image_block, variables) if image]
        content: str | list[Any] = text or ""
        if images:
            content = [{"type": "text", "text": text or ""}, *images]
        if not content:
            self._draft.note_omission("empty-message", place, "request without text")
            return None
        self._person = self._person or self._draft.get_actor("human", "user")
        event = self._draft.add_message("user", content, self._person, ts=ts)
        for variable in variables:
            facts = {
                "type": variable.get("kind"),
                "name": get_text(variable, "name"),
                "path": get_path(variable.get("value")),
                "description": get_text(variable, "modelDescription"),
            }
            if facts["path"] is None and not build_image_block(variable):
                facts["value"] = variable.get("value", variable)
            self._annotate({"kind": "attachment", **pick_fields(facts, *facts)}, ts, event)
        for part in get_dicts(get_dict(request, "message"), "parts"):
            if (get_text(part, "text") or "") not in (text or "") or "text" not in part:
                self._draft.note_omission("unknown-part", place, "a part of a prompt without text")
        command = get_text(get_dict(request, "slashCommand"), "name")
        if command:
            self._annotate({"kind": "message_facts", "command": command}, ts, event)
        return event

    def _annotate(self, data: JsonObject, ts: str | None, parent: Event | None) -> None:
        self._draft.add_annotation(data, parent=parent, actor=self._client, ts=ts)

    def _get_model(self, request: JsonObject) -> str:
        """Return the actor of the model, which is named after the service that offers it."""
        named = get_text(request, "modelId")
        model = named.rpartition("/")[2] if named else None
        provider = self._providers.add_model(None, model)
        return self._draft.get_actor("model", "assistant", provider=provider, model=model)

    def _read_end(
        self, request: JsonObject, result: JsonObject, actor: str, ts: str | None
    ) -> None:
        """Read how a request ended: errors, cancellation, follow-ups, votes, counts."""
        draft = self._draft
        error = get_dict(result, "errorDetails")
        state = get_dict(request, "modelState").get("value")
        if error:
            facts = pick_fields(error, "message", "code", "responseIsIncomplete", "level")
            draft.add_annotation({"kind": "api_error", **facts}, actor=self._client, ts=ts)
        elif state == _FAILED:
            draft.add_annotation({"kind": "api_error"}, actor=self._client, ts=ts)
        if request.get("isCanceled") is True or state == _CANCELLED:
            draft.add_annotation({"kind": "interrupted"}, actor=self._client, ts=ts)
        summary = get_dict(get_dict(result, "metadata"), "summary")
        if get_text(summary, "text"):
            event = draft.add_message(
                "user", summary["text"], self._client, visibility="internal", ts=ts
            )
            draft.add_annotation({"kind": "compaction"}, parent=event)
        followups = request.get("followups")
        if isinstance(followups, list) and followups:
            texts = [get_text(item, "message") or item for item in followups]
            data = {"kind": "notice", "followups": texts}
            draft.add_annotation(data, actor=self._client, ts=ts)
        references = [_describe_reference(item) for item in get_dicts(request, "contentReferences")]
        if references:
            draft.add_annotation({"kind": "message_facts", "references": references}, actor=actor)
        facts = {
            "elapsed_ms": get_dict(result, "timings").get("totalElapsed"),
            "detail": get_text(result, "details"),
            "vote": request.get("vote"),
            "vote_reason": request.get("voteDownReason"),
        }
        usage = _parse_usage(request, result)
        facts = pick_fields(facts, *facts)
        if usage or facts:
            draft.add_annotation({"kind": "turn_usage", **facts}, actor=actor, usage=usage)

    def _read_unsent(self, session: JsonObject) -> None:
        """Read what was typed but not sent, and requests that wait for their turn."""
        texts = [get_text(get_dict(session, "inputState"), "inputText")]
        for pending in get_dicts(session, "pendingRequests"):
            texts.append(get_prompt(get_dict(pending, "request")))
        for text in texts:
            if text:
                data = {"kind": "pending_input", "text": text}
                self._draft.add_annotation(data, actor=self._client)


def _describe_reference(item: JsonObject) -> Any:
    reference = item.get("reference")
    return get_path(reference) or get_markdown(reference) or reference


def _parse_usage(request: JsonObject, result: JsonObject) -> Usage | None:
    """Return the token counts of a request, wherever a version has them."""
    metadata = get_dict(result, "metadata")
    for holder in (
        get_dict(result, "usage"),
        get_dict(metadata, "usage"),
        metadata,
        result,
        request,
    ):
        usage = build_usage(
            input_tokens=get_first(holder, "promptTokens", "prompt_tokens"),
            output_tokens=get_first(
                holder, "outputTokens", "completionTokens", "completion_tokens"
            ),
        )
        if usage:
            return usage
    return None


def read(source: Source, draft: Draft) -> None:
    """Read the session into the draft."""
    SessionReader(source, draft).read()
