"""Tells OpenHands conversations of version 0: one list of actions and observations, or a folder of
numbered files."""

from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import PurePath
from typing import Any

from open_token.agents.openhands.shapes import OLD_EVENTS, flat, in_order, is_old_event
from open_token.agents.openhands.usage import Spending
from open_token.builder.draft import Draft
from open_token.formats.shared.chat_messages import parse_usage
from open_token.formats.shared.fields import as_dicts, as_text, parse_arguments, pick_fields
from open_token.formats.shared.notes import format_kind, note_tool_definitions
from open_token.formats.shared.providers import identify_provider
from open_token.formats.shared.reasoning import list_reasoning, split_think_tag
from open_token.jsontools.media import build_media_url_block
from open_token.jsontools.timestamps import to_utc
from open_token.model.document import Event, Usage
from open_token.sources.source import Source

Body = dict[str, Any]
_BOOKKEEPING = frozenset(
    "thought hidden confirmation_state security_risk blocking is_confirmed translated_ipython_code keep_prompt".split()
)
_QUIET = ("change_agent_state", "agent_state_changed", "null", "")
_TOLD_EXTRAS = frozenset(
    ("command", "metadata", "exit_code", "command_id", "hidden", "path", "url", "name", "code")
)


def read(source: Source, draft: Draft) -> None:
    """Tell the conversation to the draft, in source order."""
    tell(draft, _events(source))


def tell(
    draft: Draft, events: Iterable[tuple[str, Any]], model: str | None = None, spent: Any = None
) -> None:
    """Tell actions and observations, each with its place; the model and its figures where they
    stand beside them."""
    draft.conversation["source_runtime"] = "cli"
    talk = _Talk(draft, model, spent)
    for place, event in events:
        if is_old_event(event) or (
            isinstance(event, dict) and ("action" in event or "observation" in event)
        ):
            talk.tell(event, place)
        else:
            draft.note_omission(
                "unknown-record", place, "a record that is no action and no observation"
            )
    talk.finish()


def _events(source: Source) -> Iterator[tuple[str, Any]]:
    if source.shape == "folder":
        found = next((files for pattern in OLD_EVENTS if (files := source.find_files(pattern))), [])
        yield from ((PurePath(file.name).name, file.document) for file in in_order(found))
    elif source.shape == "document":
        document = source.document
        events = flat([document] if isinstance(document, list) else [[document]])
        yield from ((f"record {number}", event) for number, event in enumerate(events, 1))
    else:
        yield from ((f"line {number}", event) for number, event in source.records())


class _Talk:
    """Tells events; pairs an observation with its action by the number of its cause, its call id,
    or by order."""

    def __init__(self, draft: Draft, model: str | None, spent: Any) -> None:
        self._draft = draft
        self._runtime = draft.get_actor("system", "OpenHands")
        self._spending = Spending()
        if isinstance(spent, dict):
            self._spending.add("agent", spent)
        self._model = model
        self._answer: str | None = None
        self._keys: dict[Any, str | None] = {}
        """By number of an action, and by call id: the key of its call; None for what no model
        called."""
        self._waiting: deque[str] = deque()
        self._spans: list[tuple[str, str, str]] = []
        """The delegates at work: span, key of the call, name of the agent."""
        self._quiet: str | None = None
        """The call of a delegate that is not to be told, and below how many of its events were
        passed over."""
        self._unheard = 0

    def tell(self, event: Body, place: str) -> None:
        """One action or observation."""
        stamp = event.get("timestamp")
        ts = to_utc(stamp)
        if ts is None and isinstance(stamp, str):
            self._draft.note_omission("time-without-zone", place, "a time without a zone")
        metrics = event.get("llm_metrics")
        if isinstance(metrics, dict):
            self._spending.add("agent", metrics)
        if self._quiet and not (
            event.get("observation") == "delegate" and self._key(event) == self._quiet
        ):
            self._unheard += 1
        elif isinstance(event.get("action"), str):
            self._action(event, event["action"], place, ts)
        else:
            self._observation(event, place, ts)

    def finish(self) -> None:
        """What was spent on nothing that was told."""
        if totals := self._spending.totals():
            data = {"kind": "usage", "by": totals}
            self._draft.add_annotation(data, actor=self._runtime, usage=self._spending.rest())

    @property
    def _span(self) -> str | None:
        return self._spans[-1][0] if self._spans else None

    @property
    def _agent(self) -> str:
        name = self._spans[-1][2] if self._spans else "agent"
        return self._draft.get_actor(
            "model", name, provider=identify_provider(self._model), model=self._model
        )

    def _say(self, role: Any, words: Any, actor: str, ts: str | None, **how: Any) -> None:
        if words:
            how |= {"visibility": "internal"} if self._spans else {}
            said = words if isinstance(words, str | list) else [words]
            self._draft.add_message(role, said, actor, ts=ts, span=self._span, **how)

    def _action(self, event: Body, kind: str, place: str, ts: str | None) -> None:
        given = event.get("args")
        args: Body = given if isinstance(given, dict) else {}
        origin = event.get("source")
        if kind in _QUIET or (kind == "recall" and origin != "agent"):
            self._keys[_number(event)] = None
            self._draft.note_omission("skipped-record", place, f"action {format_kind(kind)}")
        elif kind == "system":
            self._say("system", args.get("content"), self._runtime, ts)
            tools = [tool.get("function", tool) for tool in as_dicts(args.get("tools"))]
            if names := [
                name
                for tool in tools
                if isinstance(tool, dict) and (name := as_text(tool.get("name")))
            ]:
                self._draft.add_annotation(
                    {"kind": "tools", "names": names}, actor=self._runtime, ts=ts
                )
                note_tool_definitions(self._draft.note_omission, tools, place)
        elif kind in ("condensation", "condense"):
            self._say("user", args.get("summary"), self._runtime, ts, visibility="internal")
            self._draft.add_annotation(
                {"kind": "compaction"}, actor=self._runtime, ts=ts, span=self._span
            )
        elif kind in ("pause", "resume", "stop"):
            self._draft.add_annotation(
                {"kind": "interrupted", "action": kind}, actor=self._runtime, ts=ts
            )
        elif origin == "agent":
            self._acts(event, kind, args, ts)
        else:
            self._others(event, kind, args, ts)

    def _others(self, event: Body, kind: str, args: Body, ts: str | None) -> None:
        """What the person or the runtime did, which no model asked for."""
        self._keys[_number(event)] = None
        is_person = event.get("source") == "user"
        actor = self._draft.get_actor("human", "user") if is_person else self._runtime
        words: Any = (
            _with_images(args)
            if kind == "message"
            else [{"type": "action", "action": kind, "arguments": args}]
        )
        self._say("user", words, actor, ts, visibility="public" if is_person else "internal")

    def _acts(self, event: Body, kind: str, args: Body, ts: str | None) -> None:
        """What the model did: its thoughts and words first, then the call."""
        about = event.get("tool_call_metadata")
        meta: Body = about if isinstance(about, dict) else {}
        spent = self._begin(meta, args, ts)
        if kind == "message":
            self._say("assistant", _with_images(args), self._agent, ts, usage=spent)
            return
        if kind == "finish":
            # The last word of a conversation is the argument of this call.
            final = args.get("final_thought") or args.get("message") or event.get("message")
            self._say("assistant", final, self._agent, ts)
        native = as_text(meta.get("tool_call_id"))
        made = _called(meta, native)
        if made is None:
            made = {
                name: value
                for name, value in args.items()
                if name not in _BOOKKEEPING or kind == "think"
            }
        extra = (
            {"security_risk": args["security_risk"]} if as_text(args.get("security_risk")) else None
        )
        tool = as_text(meta.get("function_name")) or kind
        key = self._draft.add_tool_call(
            native,
            tool,
            made,
            self._agent,
            ts=ts,
            span=self._span,
            usage=spent,
            group=self._answer,
            extra=extra,
        )
        self._keys[_number(event)] = key
        self._waiting.append(key)
        if kind == "delegate":
            self._delegate(key, args, ts)

    def _delegate(self, key: str, args: Body, ts: str | None) -> None:
        """Until this call is answered, another agent is at work."""
        if self._draft.subagents != "inline":
            self._quiet, self._unheard = key, 0
        if self._draft.subagents != "none":
            data = {
                "kind": "subagent",
                "subagent_type": args.get("agent"),
                "spawn_reason": args.get("inputs"),
            }
            known = {name: value for name, value in data.items() if value}
            span = self._draft.start_span(known, self._agent, ts=ts, call=key)
            self._spans.append((span, key, as_text(args.get("agent")) or "delegate"))

    def _delegated(self, key: str | None, place: str, ts: str | None) -> None:
        """The other agent is done."""
        if self._quiet and self._draft.subagents == "none":
            self._draft.note_omission(
                "subagent", place, "what a subagent did is left out (subagents=none)"
            )
        if self._spans and self._spans[-1][1] == key:
            span, *_ = self._spans.pop()
            self._draft.end_span(
                span, {"records": self._unheard} if self._quiet else {}, ts=ts, call=key
            )
        self._quiet = None

    def _begin(self, meta: Body, args: Body, ts: str | None) -> Usage | None:
        """The thoughts and words of an answer, told with its first action; gives what it cost."""
        found = meta.get("model_response")
        response: Body = found if isinstance(found, dict) else {}
        self._model = as_text(response.get("model")) or self._model
        if provider := identify_provider(self._model):
            self._draft.conversation.setdefault("provider", provider)
        answer = as_text(response.get("id"))
        if answer and answer == self._answer:
            return None
        self._answer = answer
        message = _message(response)
        said, hidden = split_think_tag(as_text(args.get("thought")) or "", list_reasoning(message))
        for text, summary in hidden:
            self._draft.add_reasoning(text, self._agent, ts=ts, span=self._span, summary=summary)
        spent = self._spending.of(answer)
        if spent is None and (spent := parse_usage(response.get("usage"))):
            self._spending.given(spent)
        if said:
            self._say("assistant", said, self._agent, ts, usage=spent)
            spent = None
        return spent

    def _observation(self, event: Body, place: str, ts: str | None) -> None:
        kind, output = event.get("observation"), event.get("content")
        given = event.get("extras")
        extras: Body = given if isinstance(given, dict) else {}
        if kind in _QUIET or (kind == "error" and self._key(event) is None and not output):
            self._draft.note_omission("skipped-record", place, f"observation {format_kind(kind)}")
            return
        if kind in ("recall", "microagent", "workspace_context"):
            known = {name: value for name, value in extras.items() if value}
            blocks = (
                [{"type": "text", "text": output}] if isinstance(output, str) and output else []
            )
            self._say(
                "user", [*blocks, {"type": kind, **known}], self._runtime, ts, visibility="internal"
            )
            return
        key = self._key(event)
        if kind == "delegate":
            self._delegated(key, place, ts)
        if key is None and (kind == "error" or self._is_nobodys(event)):
            self._aside(kind, output, ts)
            return
        self._result(key, kind, event, output, extras, ts)
        for name, value in extras.items():
            if name not in _TOLD_EXTRAS and name not in ("screenshot", "image_urls") and value:
                self._draft.note_omission(
                    "skipped-field", place, f"field {format_kind(name)} of an observation"
                )

    def _aside(self, kind: Any, output: Any, ts: str | None) -> None:
        if kind == "error":
            data = {"kind": "error", "error": output}
            self._draft.add_annotation(data, actor=self._runtime, ts=ts, span=self._span)
        else:
            self._say("user", output, self._runtime, ts, visibility="internal")

    def _result(
        self, key: str | None, kind: Any, event: Body, output: Any, extras: Body, ts: str | None
    ) -> Event:
        images = [
            url
            for url in (extras.get("screenshot"), *_listed(extras.get("image_urls")))
            if as_text(url)
        ]
        if images:
            text = [{"type": "text", "text": output}] if output else []
            output = [*text, *(build_media_url_block(url, "image") for url in images)]
        facts: Body = {}
        about = extras.get("metadata")
        code = about.get("exit_code") if isinstance(about, dict) else extras.get("exit_code")
        if type(code) is int:
            facts["exit_code"] = code
        if event.get("success") is False or kind == "error":
            facts["is_error"] = True
        if kind == "user_rejected":
            facts["rejected"] = True
        tool = as_text(kind)
        return self._draft.add_tool_result(
            key, "" if output is None else output, ts=ts, span=self._span, facts=facts, tool=tool
        )

    def _key(self, event: Body) -> str | None:
        """The key of the call that an observation answers."""
        meta = event.get("tool_call_metadata")
        native = as_text(meta.get("tool_call_id")) if isinstance(meta, dict) else None
        if native:
            return native
        cause = event.get("cause")
        if isinstance(cause, int | str):
            return self._keys.get(cause)
        while self._waiting and not self._draft.is_call_open(self._waiting[0]):
            self._waiting.popleft()
        return self._waiting[0] if self._waiting else None

    def _is_nobodys(self, event: Body) -> bool:
        """Whether an observation answers what the person or the runtime did."""
        cause = event.get("cause")
        return isinstance(cause, int | str) and cause in self._keys


def _number(event: Body) -> Any:
    number = event.get("id")
    return number if isinstance(number, int | str) else None


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _message(response: Body) -> Body:
    choices = as_dicts(response.get("choices"))
    message = choices[0].get("message") if choices else None
    return message if isinstance(message, dict) else {}


def _called(meta: Body, native: str | None) -> Any:
    """The arguments as the model gave them; None when its answer is not kept."""
    response = meta.get("model_response")
    for call in (
        as_dicts(_message(response).get("tool_calls")) if isinstance(response, dict) else ()
    ):
        function = call.get("function")
        if native and call.get("id") == native and isinstance(function, dict):
            return parse_arguments(function.get("arguments"))
    return None


def _with_images(args: Body) -> str | list[Any]:
    text = args.get("content")
    images = [
        build_media_url_block(url, "image")
        for url in _listed(args.get("image_urls"))
        if isinstance(url, str)
    ]
    files = pick_fields(args, "file_urls") if args.get("file_urls") else {}
    if not images and not files:
        return text if isinstance(text, str) else []
    blocks: list[Any] = [{"type": "text", "text": text}] if text else []
    return [*blocks, *images, *([{"type": "file", **files}] if files else [])]
