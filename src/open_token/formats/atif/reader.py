"""Read ATIF trajectories: the document, those that continue it, and its subagents."""

import re
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from pathlib import PurePosixPath
from typing import Any, NamedTuple, cast

import msgspec

from open_token.builder.draft import Draft
from open_token.errors import InputError
from open_token.formats.atif.steps import Speakers, read_step
from open_token.formats.shared.fields import as_dicts, as_text, drop_nulls, pick_fields
from open_token.formats.shared.notes import format_kind, note_tool_definitions
from open_token.formats.shared.providers import identify_provider
from open_token.formats.shared.token_usage import build_usage
from open_token.jsontools.timestamps import to_utc
from open_token.model.document import Found, Visibility
from open_token.sources.source import Source

Body = dict[str, Any]
_VERSION = re.compile(r"ATIF-v(\d{1,4})\.(\d{1,4})", re.ASCII)
_NEWEST_VERSION = (1, 8)
_MAX_DEPTH = 16


def read(source: Source, draft: Draft) -> None:
    """Read the conversation into the draft."""
    document = _choose_trajectory(source)
    draft.conversation["source_runtime"] = "cli"
    draft.without_thoughts = "unknown"
    conversation_id = as_text(document.get("session_id")) or as_text(document.get("trajectory_id"))
    if conversation_id:
        draft.conversation["id"] = conversation_id
    _TrajectoryReader(draft, source).read(document)
    if draft.first_ts:
        draft.conversation["started_at"] = draft.first_ts


def list_conversations(source: Source) -> list[Found]:
    """List every trajectory, in the order of the file."""
    return [
        Found(entry.name, started_at=entry.started_at, messages=entry.steps)
        for entry in _index_trajectories(source).values()
    ]


def find_owner(source: Source, at: str, value: Any) -> str | None:
    """Return the id of the trajectory that a line or an item is."""
    number = at.removeprefix("/")
    if not number.isdecimal() or len(number) > 15:
        return None
    # Lines count from 1, items of a document from 0.
    position = int(number) + (source.shape == "document")
    entry = _index_trajectories(source).get(position)
    return entry.name if entry else None


class _IndexEntry(NamedTuple):
    name: str
    started_at: str | None
    steps: int


@lru_cache(maxsize=2)
def _index_trajectories(source: Source) -> dict[int, _IndexEntry]:
    """Return the trajectories of a source by position, from 1; each has a unique name."""
    entries: dict[int, _IndexEntry] = {}
    names: set[str] = set()
    for number, document in source.records():
        if not isinstance(document, dict):
            continue
        name = as_text(document.get("trajectory_id")) or as_text(document.get("session_id"))
        if not name:
            name = str(number)
        if name in names:
            name = f"{name}#{number}"
        names.add(name)
        steps = as_dicts(document.get("steps"))
        entries[number] = _IndexEntry(name, _find_start(steps), len(steps))
    return entries


def _find_start(steps: list[Body]) -> str | None:
    for step in steps:
        timestamp = to_utc(step.get("timestamp"))
        if timestamp:
            return timestamp
    return None


@lru_cache(maxsize=2)
def _index_positions(source: Source) -> dict[str, int]:
    return {entry.name: position for position, entry in _index_trajectories(source).items()}


def _choose_trajectory(source: Source) -> Body:
    """Return the chosen trajectory, or the first."""
    positions = _index_positions(source)
    if source.conversation is None:
        position = next(iter(positions.values()), None)
    else:
        position = positions.get(source.conversation)
    if position is None:
        raise InputError(
            "this file holds no such trajectory",
            where=source.name,
            help="choose one with --conversation ID",
            code="input.no-events",
        )
    return cast(Body, source.record_at(position))


@dataclass
class _Context:
    """Where a trajectory is read: its file, its span, who asks, and how deep."""

    source: Source
    label: str = ""
    span: str | None = None
    asker: str | None = None
    visibility: Visibility | None = None
    depth: int = 0
    embedded: dict[str, Body] = field(default_factory=dict)
    """The subagents that a reference may name: those of this document and of enclosing ones."""


class _TrajectoryReader:
    """Reads all trajectories of one conversation."""

    def __init__(self, draft: Draft, source: Source) -> None:
        self._draft = draft
        self._runtime = draft.get_actor("system", "harbor")
        self._source = source
        self._files = {str(source.path)}
        self._step_hashes: set[bytes] = set()
        """The steps that were read, to recognize copies of them."""
        self._read_subagents: set[int] = set()
        """The `id()` of the embedded trajectories that were read."""

    def read(self, document: Body) -> None:
        """Read a trajectory, then those that continue it, each in a file of its own."""
        context = _Context(self._source)
        self._read_trajectory(document, context)
        while True:
            ref = as_text(document.get("continued_trajectory_ref"))
            opened = self._open_file(ref, context.source, "a continuation") if ref else None
            if opened is None:
                break
            file, document = opened
            context = _Context(file, label=f"{PurePosixPath(str(ref)).name} ")
            self._draft.add_annotation(
                {"kind": "notice", "subtype": "continued", "file": ref}, actor=self._runtime
            )
            self._read_trajectory(document, context)

    def _read_trajectory(self, document: Body, context: _Context) -> None:
        self._check_version(document, context)
        subagents = as_dicts(document.get("subagent_trajectories"))
        context.embedded = dict(context.embedded)
        for subagent in subagents:
            name = as_text(subagent.get("trajectory_id"))
            if name:
                context.embedded[name] = subagent
        speakers = self._read_agent(document, context)
        has_usage = self._read_steps(document, speakers, context)
        for subagent in subagents:
            if id(subagent) not in self._read_subagents:
                # A subagent that no result refers to.
                ref = {"trajectory_id": subagent.get("trajectory_id")}
                self._read_subagent(ref, subagent, None, context, speakers.agent)
        self._read_totals(document, context, has_usage)

    def _check_version(self, document: Body, context: _Context) -> None:
        match = _VERSION.fullmatch(str(document.get("schema_version")))
        if match is None or (int(match[1]), int(match[2])) > _NEWEST_VERSION:
            self._draft.note_omission(
                "newer-version", f"{context.label}schema_version", "an unknown version of ATIF"
            )

    def _read_agent(self, document: Body, context: _Context) -> Speakers:
        """Read what is known of the agent and the trajectory."""
        agent = document.get("agent")
        if not isinstance(agent, dict):
            agent = {}
        model = as_text(agent.get("model_name"))
        facts = {
            "agent": as_text(agent.get("name")),
            "version": as_text(agent.get("version")),
            "model": model,
            "schema_version": as_text(document.get("schema_version")),
            "notes": as_text(document.get("notes")),
            "agent_extra": agent.get("extra") or None,
            "extra": document.get("extra") or None,
        }
        facts = drop_nulls(facts)
        self._draft.add_annotation(
            {"kind": "context"} | facts, actor=self._runtime, span=context.span
        )
        self._read_tools(agent, context)
        provider = identify_provider(model)
        if provider and context.depth == 0:
            self._draft.conversation.setdefault("provider", provider)
        return Speakers(
            self._draft,
            name=as_text(agent.get("name")) or "agent",
            model=model,
            runtime=self._runtime,
            span=context.span,
            asker=context.asker,
            visibility=context.visibility,
        )

    def _read_tools(self, agent: Body, context: _Context) -> None:
        tools = [tool.get("function", tool) for tool in as_dicts(agent.get("tool_definitions"))]
        names = [as_text(tool.get("name")) for tool in as_dicts(tools)]
        names = [name for name in names if name]
        if names:
            self._draft.add_annotation(
                {"kind": "tools", "names": names}, actor=self._runtime, span=context.span
            )
            note_tool_definitions(self._draft.note_omission, tools, "agent")

    def _read_steps(self, document: Body, speakers: Speakers, context: _Context) -> bool:
        """Read the steps; return whether any of them has token counts."""
        steps = document.get("steps")
        has_usage = False
        for number, step in enumerate(steps if isinstance(steps, list) else [], 1):
            place = f"{context.label}step {number}"
            if not isinstance(step, dict):
                self._draft.note_omission("unknown-record", place, "a step that is no object")
            elif self._read_step(step, speakers, context, place):
                has_usage = True
        return has_usage

    def _read_step(self, step: Body, speakers: Speakers, context: _Context, place: str) -> bool:
        """Read a step unless it is a copy; return whether it has token counts."""
        digest = _hash_step(step)
        is_copied = step.get("is_copied_context") is True
        if is_copied and digest in self._step_hashes:
            self._draft.note_omission("copied-context", place, "a copy of a step read before")
            return False
        self._step_hashes.add(digest)

        def read_subagent(ref: Body, key: str | None) -> None:
            self._read_reference(ref, key, context, speakers.agent)

        return read_step(step, speakers, place, read_subagent, is_copied=is_copied)

    def _read_reference(self, ref: Body, key: str | None, context: _Context, parent: str) -> None:
        """Read a subagent that a result refers to: embedded, or in a file next to this one."""
        name = as_text(ref.get("trajectory_id"))
        embedded = context.embedded.get(name) if name else None
        if embedded is not None:
            if id(embedded) not in self._read_subagents:
                self._read_subagent(ref, embedded, key, context, parent)
            return
        path = as_text(ref.get("trajectory_path"))
        opened = self._open_file(path, context.source, "a subagent") if path else None
        if opened is not None:
            file, document = opened
            self._read_subagent(ref, document, key, context, parent, file)
            return
        if self._draft.subagents == "none":
            return
        data = {"kind": "subagent"} | _describe_subagent(ref, {})
        span = self._draft.start_span(data, parent, call=key)
        self._draft.end_span(span, call=key)
        if not path:
            self._draft.note_omission(
                "missing-subagent",
                f"{context.label}subagent",
                "a subagent that is not in the source",
            )

    def _read_subagent(
        self,
        ref: Body,
        document: Body,
        key: str | None,
        outer: _Context,
        parent: str,
        file: Source | None = None,
    ) -> None:
        self._read_subagents.add(id(document))
        draft = self._draft
        label = f"{outer.label}subagent"
        if draft.subagents == "none":
            draft.note_omission(
                "subagent", label, "what a subagent did is left out (subagents=none)"
            )
            return
        data: Body = {"kind": "subagent"} | _describe_subagent(ref, document)
        # Files may refer to each other in a circle.
        is_too_deep = outer.depth >= _MAX_DEPTH
        if draft.subagents == "reference" or is_too_deep:
            steps = document.get("steps")
            data["records"] = len(steps) if isinstance(steps, list) else 0
            span = draft.start_span(data, parent, call=key)
            draft.end_span(span, call=key)
            if draft.subagents != "reference":
                draft.note_omission("deep-subagent", label, "a subagent more than 16 levels down")
            return
        if file:
            label = PurePosixPath(str(ref.get("trajectory_path"))).name
        span = draft.start_span(data, parent, call=key)
        context = _Context(
            source=file or outer.source,
            label=f"{label} ",
            span=span,
            asker=parent,
            visibility="internal",
            depth=outer.depth + 1,
            embedded=outer.embedded,
        )
        self._read_trajectory(document, context)
        draft.end_span(span, call=key)

    def _open_file(self, ref: str, source: Source, what: str) -> tuple[Source, Body] | None:
        """Open the trajectory in a file next to another; note and return None if there is none."""
        file = _find_neighbour(ref, source)
        if file is None:
            self._draft.note_omission(
                "missing-file", "file reference", f"{what} that is not next to the file"
            )
            return None
        if str(file.path) in self._files:
            self._draft.note_omission(
                "repeated-file", "file reference", f"{what} that was read before"
            )
            return None
        self._files.add(str(file.path))
        try:
            document = file.document
        except InputError as problem:
            self._draft.note_omission(
                "unreadable-file", "file reference", f"{what} that cannot be read: {problem.code}"
            )
            return None
        if not isinstance(document, dict):
            self._draft.note_omission(
                "unreadable-file", "file reference", f"{what} that is no trajectory"
            )
            return None
        for _ in file.repaired:
            self._draft.note_omission(
                "lone-surrogate",
                PurePosixPath(ref).name,
                "text that is not valid Unicode was replaced by U+FFFD",
            )
        return file, document

    def _read_totals(self, document: Body, context: _Context, has_usage: bool) -> None:
        """Read the final metrics; they count only where no step has token counts."""
        metrics = document.get("final_metrics")
        if not isinstance(metrics, dict):
            return
        known = {format_kind(name): value for name, value in metrics.items() if value is not None}
        usage = None
        if not has_usage:
            usage = build_usage(
                input_tokens=metrics.get("total_prompt_tokens"),
                output_tokens=metrics.get("total_completion_tokens"),
                cache_read_tokens=metrics.get("total_cached_tokens"),
            )
        self._draft.add_annotation(
            {"kind": "usage"} | known, actor=self._runtime, span=context.span, usage=usage
        )


def _find_neighbour(ref: str, source: Source) -> Source | None:
    """Return the file that a reference names, unless it leads out of the source's directory."""
    path = PurePosixPath(ref)
    if path.is_absolute() or ".." in path.parts:
        return None
    if "://" in ref or "\\" in ref or "\0" in ref:
        return None
    return source.open_sibling(*path.parts)


def _describe_subagent(ref: Body, document: Body) -> Body:
    agent = document.get("agent")
    if not isinstance(agent, dict):
        agent = {}
    facts = {
        "subagent_type": as_text(agent.get("name")),
        "model": as_text(agent.get("model_name")),
        "session_id": as_text(ref.get("session_id")) or as_text(document.get("session_id")),
        "agent_id": as_text(ref.get("trajectory_id")) or as_text(document.get("trajectory_id")),
        "file": as_text(ref.get("trajectory_path")),
    }
    known = {name: value for name, value in facts.items() if value}
    if ref.get("extra"):
        known |= pick_fields(ref, "extra")
    return known


def _hash_step(step: Body) -> bytes:
    """Hash a step without time and cost, in which a copy may differ."""
    calls = [
        [call.get("function_name"), call.get("arguments")]
        for call in as_dicts(step.get("tool_calls"))
    ]
    identity = [step.get("source"), step.get("message"), calls]
    try:
        encoded = msgspec.json.encode(identity, order="sorted")
    except (RecursionError, ValueError):
        encoded = repr(id(step)).encode()
    return blake2b(encoded, digest_size=16).digest()
