"""The frame of a Codex conversation: session_meta and turn_context lines."""

from typing import Any

from open_token.agents.codex.lines import Line
from open_token.agents.codex.thread import Thread
from open_token.formats.shared.fields import as_text, get_dicts, get_text, pick_fields
from open_token.formats.shared.notes import note_tool_definitions
from open_token.jsontools.timestamps import to_utc

_RUNTIMES = (
    ("vscode", "ide"),
    ("jetbrains", "ide"),
    ("xcode", "ide"),
    ("cli", "cli"),
    ("exec", "cli"),
    ("tui", "cli"),
)
_CONTEXT = (
    "cwd",
    "git",
    "cli_version",
    "originator",
    "forked_from_id",
    "parent_thread_id",
    "agent_nickname",
    "agent_role",
)
_SETTINGS = (
    "cwd",
    "model",
    "effort",
    "approval_policy",
    "sandbox_policy",
    "collaboration_mode",
    "personality",
)


def session_meta(thread: Thread, line: Line) -> None:
    """The first tells which conversation it is; later ones (fork, resume, subagent) tell where it
    comes from."""
    meta = line.payload
    known = pick_fields(meta, *_CONTEXT)
    session_id = as_text(meta.get("id")) or as_text(meta.get("session_id"))
    if thread.has_meta:
        thread.note(line, "lineage", id=session_id, **known)
    else:
        thread.has_meta = True
        thread.settings["cwd"] = meta.get("cwd")
        thread.id = thread.id or session_id
        if session_id:
            thread.told.add(session_id)
        _provider(thread, as_text(meta.get("model_provider")))
        if not thread.depth:
            _conversation(thread, line, session_id)
        thread.note(line, "context", **known)
        _leftovers(thread, line)
    _instructions(thread, line)


def _conversation(thread: Thread, line: Line, session_id: str | None) -> None:
    conversation, meta = thread.draft.conversation, line.payload
    if session_id:
        conversation["id"] = session_id
    if started := to_utc(meta.get("timestamp")) or line.ts:
        conversation["started_at"] = started
    conversation["source_runtime"] = _runtime(meta)
    if thread.provider:
        conversation["provider"] = "openai" if thread.provider == "openai" else "other"


def _runtime(meta: dict[str, Any]) -> str:
    for name in ("originator", "source"):
        said = str(meta.get(name) or "").lower()
        for mark, runtime in _RUNTIMES:
            if mark in said:
                return runtime
    return "cli" if meta.get("originator") is None and meta.get("source") is None else "other"


def _provider(thread: Thread, provider: str | None) -> None:
    if provider:
        thread.speaks_as(provider=provider)


def _leftovers(thread: Thread, line: Line) -> None:
    if line.payload.get("dynamic_tools"):
        thread.draft.note_omission(
            "tool-definitions", line.place, "definitions of tools in session_meta"
        )


def _instructions(thread: Thread, line: Line) -> None:
    """The system prompt: base_instructions since 2026, instructions before; a copy of it is not
    told again."""
    base = line.payload.get("base_instructions")
    text = base.get("text") if isinstance(base, dict) else base
    text = as_text(text) or as_text(line.payload.get("instructions"))
    if text and text != thread.instructions:
        thread.instructions = text
        thread.draft.add_message("system", text, thread.voices.system, ts=line.ts, span=thread.span)


def turn_context(thread: Thread, line: Line) -> None:
    """Repeated before each request; only what changed is told."""
    payload, settings = line.payload, thread.settings
    changed = {
        name: payload[name]
        for name in _SETTINGS
        if name in payload and payload[name] != settings.get(name)
    }
    if not changed:
        return
    settings.update(changed)
    if model := as_text(changed.get("model")):
        thread.speaks_as(model=model)
    zone = as_text(payload.get("timezone"))
    if zone and not thread.depth:
        thread.draft.conversation.setdefault("timezone", zone)
    thread.note(line, "turn_context", **changed)


def tools_given(thread: Thread, line: Line) -> None:
    """The tools that the model is given (additional_tools, 0.166): their names, when they
    change."""
    tools = get_dicts(line.payload, "tools")
    names = [name for tool in tools for name in _names(tool)]
    if names and names != thread.settings.get("tools"):
        thread.settings["tools"] = names
        thread.note(line, "tools", tools=names)
    note_tool_definitions(
        thread.draft.note_omission,
        [inner for tool in tools for inner in (tool, *_inner(tool))],
        line.place,
    )


def _inner(tool: dict[str, Any]) -> list[dict[str, Any]]:
    return get_dicts(tool, "tools") if tool.get("type") == "namespace" else []


def _names(tool: dict[str, Any]) -> list[str]:
    """A tool's name, or those in a namespace, called as the model calls them."""
    own = get_text(tool, "name") or get_text(tool, "type")
    if tool.get("type") != "namespace":
        return [own] if own else []
    return [f"{own}.{name}" for inner in _inner(tool) if (name := get_text(inner, "name"))]
