"""Tells ATIF trajectories: the document, those that continue it, and its subagents, each step
once."""

import re
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import PurePosixPath
from typing import Any

import msgspec

from open_token.builder.draft import Draft
from open_token.errors import InputError
from open_token.formats.atif import trajectories
from open_token.formats.atif.steps import Speaker, tell_step
from open_token.formats.atif.trajectories import chosen
from open_token.formats.shared.fields import as_dicts, as_text, pick_fields
from open_token.formats.shared.notes import format_kind, note_tool_definitions
from open_token.formats.shared.providers import identify_provider
from open_token.formats.shared.token_usage import build_usage
from open_token.model.document import Found, Visibility
from open_token.sources.source import Source

Body = dict[str, Any]
_VERSION = re.compile(r"ATIF-v(\d{1,4})\.(\d{1,4})", re.ASCII)
_NEWEST = (1, 8)
_DEEPEST = 16


def read(source: Source, draft: Draft) -> None:
    """Tell the conversation to the draft, in source order."""
    document = chosen(source)
    draft.conversation["source_runtime"] = "cli"
    draft.without_thoughts = "unknown"
    if name := as_text(document.get("session_id")) or as_text(document.get("trajectory_id")):
        draft.conversation["id"] = name
    _Reading(draft, source).all(document)
    if draft.first_ts:
        draft.conversation["started_at"] = draft.first_ts


@dataclass
class _Place:
    """Where a trajectory is told: its file, its span, who asks, and how deep."""

    source: Source
    label: str = ""
    span: str | None = None
    asker: str | None = None
    visibility: Visibility | None = None
    depth: int = 0
    embedded: dict[str, Body] = field(default_factory=dict)
    """The subagents that a reference may name: those of the document and of the ones around it."""


class _Reading:
    """Everything that belongs to one conversation."""

    def __init__(self, draft: Draft, source: Source) -> None:
        self._draft = draft
        self._runtime = draft.get_actor("system", "harbor")
        self._source = source
        self._files = {str(source.path)}
        self._told: set[bytes] = set()
        """The steps that were told, so that a copy of one is known."""
        self._done: set[int] = set()
        """The embedded trajectories that were told."""

    def all(self, document: Body) -> None:
        """The trajectory, then those that continue it, each in a file of its own."""
        place = _Place(self._source)
        self._trajectory(document, place)
        while (ref := as_text(document.get("continued_trajectory_ref"))) is not None:
            found = self._open(ref, place.source, "a continuation")
            if found is None:
                break
            file, document = found
            place = _Place(file, label=f"{PurePosixPath(ref).name} ")
            self._draft.add_annotation(
                {"kind": "notice", "subtype": "continued", "file": ref}, actor=self._runtime
            )
            self._trajectory(document, place)

    def _trajectory(self, document: Body, place: _Place) -> None:
        found = _VERSION.fullmatch(str(document.get("schema_version")))
        if found is None or (int(found[1]), int(found[2])) > _NEWEST:
            self._draft.note_omission(
                "newer-version",
                f"{place.label}schema_version",
                "a version of ATIF that is not known yet",
            )
        own = as_dicts(document.get("subagent_trajectories"))
        named = {name: part for part in own if (name := as_text(part.get("trajectory_id")))}
        place.embedded = place.embedded | named
        speaker = self._meet(document, place)
        steps = document.get("steps")
        counted = False
        for number, step in enumerate(steps if isinstance(steps, list) else [], 1):
            where = f"{place.label}step {number}"
            if not isinstance(step, dict):
                self._draft.note_omission("unknown-record", where, "a step that is no object")
                continue
            counted = self._step(step, speaker, place, where) or counted
        for part in own:
            if id(part) not in self._done:
                self._subagent(
                    {"trajectory_id": part.get("trajectory_id")}, part, None, place, speaker.agent
                )
        self._sums(document, place, counted)

    def _meet(self, document: Body, place: _Place) -> Speaker:
        """Who speaks, and what is known of the whole."""
        found = document.get("agent")
        agent: Body = found if isinstance(found, dict) else {}
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
        known = {name: value for name, value in facts.items() if value is not None}
        self._draft.add_annotation(
            {"kind": "context"} | known, actor=self._runtime, span=place.span
        )
        tools = [tool.get("function", tool) for tool in as_dicts(agent.get("tool_definitions"))]
        if names := [
            name for tool in tools if isinstance(tool, dict) and (name := as_text(tool.get("name")))
        ]:
            self._draft.add_annotation(
                {"kind": "tools", "names": names}, actor=self._runtime, span=place.span
            )
            note_tool_definitions(self._draft.note_omission, tools, "agent")
        if place.depth == 0 and (provider := identify_provider(model)):
            self._draft.conversation.setdefault("provider", provider)
        return Speaker(
            self._draft,
            name=as_text(agent.get("name")) or "agent",
            model=model,
            runtime=self._runtime,
            span=place.span,
            asker=place.asker,
            visibility=place.visibility,
        )

    def _step(self, step: Body, speaker: Speaker, place: _Place, where: str) -> bool:
        """A step, unless it is a copy of one that was told; gives whether it had counts of its
        own."""
        digest = _digest(step)
        copied = step.get("is_copied_context") is True
        if copied and digest in self._told:
            self._draft.note_omission("copied-context", where, "a step that was told before")
            return False
        self._told.add(digest)

        def spawn(ref: Body, key: str | None) -> None:
            self._refer(ref, key, place, speaker.agent)

        return tell_step(step, speaker, where, spawn, copied=copied)

    def _refer(self, ref: Body, key: str | None, place: _Place, parent: str) -> None:
        """A subagent that a result names: embedded, or in a file beside."""
        name, path = as_text(ref.get("trajectory_id")), as_text(ref.get("trajectory_path"))
        part = place.embedded.get(name) if name else None
        if part is not None:
            if id(part) not in self._done:
                self._subagent(ref, part, key, place, parent)
            return
        found = self._open(path, place.source, "a subagent") if path else None
        if found is not None:
            file, document = found
            self._subagent(ref, document, key, place, parent, file)
        elif self._draft.subagents != "none":
            span = self._draft.start_span({"kind": "subagent"} | _about(ref, {}), parent, call=key)
            self._draft.end_span(span, call=key)
            if not path:
                self._draft.note_omission(
                    "missing-subagent",
                    f"{place.label}subagent",
                    "a subagent that is not in the source",
                )

    def _subagent(
        self,
        ref: Body,
        document: Body,
        key: str | None,
        around: _Place,
        parent: str,
        file: Source | None = None,
    ) -> None:
        self._done.add(id(document))
        draft = self._draft
        if draft.subagents == "none":
            draft.note_omission(
                "subagent",
                f"{around.label}subagent",
                "what a subagent did is left out (subagents=none)",
            )
            return
        data: Body = {"kind": "subagent"} | _about(ref, document)
        if draft.subagents == "reference" or around.depth >= _DEEPEST:
            steps = document.get("steps")
            data["records"] = len(steps) if isinstance(steps, list) else 0
            draft.end_span(draft.start_span(data, parent, call=key), call=key)
            if draft.subagents != "reference":
                draft.note_omission(
                    "deep-subagent",
                    f"{around.label}subagent",
                    "a subagent more than 16 levels down",
                )
            return
        span = draft.start_span(data, parent, call=key)
        label = (
            f"{PurePosixPath(str(ref.get('trajectory_path'))).name} "
            if file
            else f"{around.label}subagent "
        )
        place = _Place(
            file or around.source,
            label,
            span,
            parent,
            "internal",
            around.depth + 1,
            around.embedded,
        )
        self._trajectory(document, place)
        draft.end_span(span, call=key)

    def _open(self, ref: str, beside: Source, what: str) -> tuple[Source, Body] | None:
        """The trajectory in a file beside another; None, and a note, when there is none."""
        parts = PurePosixPath(ref)
        outside = (
            parts.is_absolute() or ".." in parts.parts or "://" in ref or "\\" in ref or "\0" in ref
        )
        file = None if outside else beside.open_sibling(*parts.parts)
        if file is None or str(file.path) in self._files:
            code = "missing-file" if file is None else "repeated-file"
            self._draft.note_omission(
                code, "file reference", f"{what} that is not beside the file, or was told already"
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
                parts.name,
                "text that is not valid Unicode was replaced by U+FFFD",
            )
        return file, document

    def _sums(self, document: Body, place: _Place, counted: bool) -> None:
        """The sums at the end; they count only where no step had counts of its own."""
        sums = document.get("final_metrics")
        if not isinstance(sums, dict):
            return
        known = {format_kind(name): value for name, value in sums.items() if value is not None}
        usage = build_usage(
            input_tokens=sums.get("total_prompt_tokens"),
            output_tokens=sums.get("total_completion_tokens"),
            cache_read_tokens=sums.get("total_cached_tokens"),
        )
        spent = None if counted else usage
        self._draft.add_annotation(
            {"kind": "usage"} | known, actor=self._runtime, span=place.span, usage=spent
        )


def _about(ref: Body, document: Body) -> Body:
    """What a span says of the subagent in it."""
    found = document.get("agent")
    agent: Body = found if isinstance(found, dict) else {}
    about = {
        "subagent_type": as_text(agent.get("name")),
        "model": as_text(agent.get("model_name")),
        "session_id": as_text(ref.get("session_id")) or as_text(document.get("session_id")),
        "agent_id": as_text(ref.get("trajectory_id")) or as_text(document.get("trajectory_id")),
        "file": as_text(ref.get("trajectory_path")),
    }
    return {name: value for name, value in about.items() if value} | (
        pick_fields(ref, "extra") if ref.get("extra") else {}
    )


def _digest(step: Body) -> bytes:
    """What a step says, without when and what it cost: the same for a step and its copy."""
    calls = [
        [call.get("function_name"), call.get("arguments")]
        for call in as_dicts(step.get("tool_calls"))
    ]
    try:
        raw = msgspec.json.encode([step.get("source"), step.get("message"), calls], order="sorted")
    except (RecursionError, ValueError):
        raw = repr(id(step)).encode()
    return blake2b(raw, digest_size=16).digest()


def list_conversations(source: Source) -> list[Found]:
    """List every trajectory of the file."""
    return trajectories.found(source)


def find_owner(source: Source, at: str, value: Any) -> str | None:
    """Return the id of the trajectory that a line or an item is."""
    return trajectories.owner(source, at)
