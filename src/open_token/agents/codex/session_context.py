"""Read what frames a Codex conversation: session_meta, turn_context and the offered tools."""

from typing import Any

from open_token.agents.codex.records import Line
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
_CONTEXT_FIELDS = (
    "cwd",
    "git",
    "cli_version",
    "originator",
    "forked_from_id",
    "parent_thread_id",
    "agent_nickname",
    "agent_role",
)
_SETTING_FIELDS = (
    "cwd",
    "model",
    "effort",
    "approval_policy",
    "sandbox_policy",
    "collaboration_mode",
    "personality",
)


def read_session_meta(thread: Thread, line: Line) -> None:
    """Read a session_meta line.

    The first identifies the conversation; later ones (fork, resume, subagent) give its origin.
    """
    meta = line.payload
    context = pick_fields(meta, *_CONTEXT_FIELDS)
    session_id = as_text(meta.get("id")) or as_text(meta.get("session_id"))
    if thread.has_meta:
        # A fork or a resume begins with the metadata of the earlier session.
        thread.annotate(line, "lineage", id=session_id, **context)
    else:
        thread.has_meta = True
        thread.settings["cwd"] = meta.get("cwd")
        thread.id = thread.id or session_id
        if session_id:
            thread.known_threads.add(session_id)
        provider = as_text(meta.get("model_provider"))
        if provider:
            thread.set_model(provider=provider)
        if not thread.depth:
            _describe_conversation(thread, line, session_id)
        thread.annotate(line, "context", **context)
        if meta.get("dynamic_tools"):
            thread.draft.note_omission(
                "tool-definitions", line.position, "tool definitions in session_meta"
            )
    _read_instructions(thread, line)


def _describe_conversation(thread: Thread, line: Line, session_id: str | None) -> None:
    conversation = thread.draft.conversation
    if session_id:
        conversation["id"] = session_id
    started = to_utc(line.payload.get("timestamp")) or line.ts
    if started:
        conversation["started_at"] = started
    conversation["source_runtime"] = _find_runtime(line.payload)
    if thread.provider:
        conversation["provider"] = "openai" if thread.provider == "openai" else "other"


def _find_runtime(meta: dict[str, Any]) -> str:
    for name in ("originator", "source"):
        value = str(meta.get(name) or "").lower()
        for part, runtime in _RUNTIMES:
            if part in value:
                return runtime
    # The first versions, for the terminal only, write neither.
    if meta.get("originator") is None and meta.get("source") is None:
        return "cli"
    return "other"


def _read_instructions(thread: Thread, line: Line) -> None:
    """Add the system prompt if it changed: base_instructions since 2026, instructions before."""
    base = line.payload.get("base_instructions")
    text = as_text(base.get("text") if isinstance(base, dict) else base)
    text = text or as_text(line.payload.get("instructions"))
    if text and text != thread.instructions:
        thread.instructions = text
        thread.draft.add_message("system", text, thread.actors.system, ts=line.ts, span=thread.span)


def read_turn_context(thread: Thread, line: Line) -> None:
    """Read a turn_context line, which precedes every request; only changes are exported."""
    payload = line.payload
    settings = thread.settings
    changed = {
        name: payload[name]
        for name in _SETTING_FIELDS
        if name in payload and payload[name] != settings.get(name)
    }
    if not changed:
        return
    settings.update(changed)
    model = as_text(changed.get("model"))
    if model:
        thread.set_model(model=model)
    timezone = as_text(payload.get("timezone"))
    if timezone and not thread.depth:
        thread.draft.conversation.setdefault("timezone", timezone)
    thread.annotate(line, "turn_context", **changed)


def read_tools(thread: Thread, line: Line) -> None:
    """Read the tools that the model is offered (additional_tools, 0.166): names, if they change."""
    tools = get_dicts(line.payload, "tools")
    names: list[str] = []
    definitions: list[dict[str, Any]] = []
    for tool in tools:
        names += _get_tool_names(tool)
        definitions += [tool, *_get_namespace_tools(tool)]
    if names and names != thread.settings.get("tools"):
        thread.settings["tools"] = names
        thread.annotate(line, "tools", tools=names)
    note_tool_definitions(thread.draft.note_omission, definitions, line.position)


def _get_namespace_tools(tool: dict[str, Any]) -> list[dict[str, Any]]:
    return get_dicts(tool, "tools") if tool.get("type") == "namespace" else []


def _get_tool_names(tool: dict[str, Any]) -> list[str]:
    """Return the name of a tool, or the qualified names of those in a namespace."""
    name = get_text(tool, "name") or get_text(tool, "type")
    if tool.get("type") != "namespace":
        return [name] if name else []
    inner_names = [get_text(inner, "name") for inner in _get_namespace_tools(tool)]
    return [f"{name}.{inner_name}" for inner_name in inner_names if inner_name]
