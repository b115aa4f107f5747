"""Add hook handlers to the JSON configuration of an agent and remove them again.

Everything else in the file keeps its content, order and indentation.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, NoReturn

from open_token.formats.definition import Hooks
from open_token.library.hooks.handlers import build_handler, find_our_program

_INDENT = re.compile(r"\n([ \t]+)\"")


class UnsafeEditError(Exception):
    """A file cannot be changed without losing some of its content; the message says why."""


def add_handlers(raw: bytes, agent_hooks: Hooks, name: str, command: str) -> bytes:
    """Return the file with one handler for each event; the same bytes if it has them already."""
    config = parse_config(raw)
    before = json.dumps(config)
    handler = build_handler(agent_hooks, command)
    for key, value in agent_hooks.top_level.items():
        config.setdefault(key, value)
    for event in agent_hooks.events:
        groups = _get_event_groups(_get_hooks(config), event)
        _put_handler(groups, agent_hooks, name, handler)
    if json.dumps(config) == before:
        return raw
    return _render_config(config, raw)


def remove_handlers(raw: bytes, agent_hooks: Hooks, name: str) -> bytes:
    """Return the file without our handlers, and without lists that become empty by that."""
    config = parse_config(raw)
    hooks = config.get("hooks")
    if not isinstance(hooks, dict):
        return raw
    is_changed = False
    for event, groups in list(hooks.items()):
        if isinstance(groups, list) and _remove_from_groups(groups, agent_hooks, name):
            is_changed = True
            if not groups:
                del hooks[event]
    if not is_changed:
        return raw
    if not hooks:
        del config["hooks"]
    return _render_config(config, raw)


def find_our_programs(raw: bytes, agent_hooks: Hooks, name: str) -> list[str]:
    """Return the program of each of our handlers in a file."""
    hooks = parse_config(raw).get("hooks")
    programs = []
    for groups in hooks.values() if isinstance(hooks, dict) else ():
        for _, handlers in _list_handlers(groups, agent_hooks):
            for handler in handlers:
                program = find_our_program(handler, name)
                if program:
                    programs.append(program)
    return programs


def render_snippet(agent_hooks: Hooks, command: str) -> str:
    """Return what a user can paste into a file that is not changed automatically."""
    return add_handlers(b"{}", agent_hooks, "", command).decode()


def parse_config(raw: bytes) -> dict[str, Any]:
    """Parse a file; raise UnsafeEditError if writing it again would lose anything."""
    config: Any = {}
    try:
        text = raw.decode("utf-8")
        if text.strip():
            config = json.loads(
                text, object_pairs_hook=_build_object, parse_constant=_refuse_constant
            )
        json.dumps(config, ensure_ascii=False).encode("utf-8")
    except (ValueError, RecursionError):
        raise UnsafeEditError("it is not plain JSON; comments would be lost") from None
    if not isinstance(config, dict):
        raise UnsafeEditError("it is not a JSON object")
    return config


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise UnsafeEditError("it has a key twice")
    return result


def _refuse_constant(constant: str) -> NoReturn:
    raise UnsafeEditError(f"it contains {constant}, which is not JSON")


def _get_hooks(config: dict[str, Any]) -> dict[str, Any]:
    hooks = config.setdefault("hooks", {})
    if not isinstance(hooks, dict):
        raise UnsafeEditError("its hooks are not in the format of this runtime")
    return hooks


def _get_event_groups(hooks: dict[str, Any], event: str) -> list[Any]:
    groups = hooks.setdefault(event, [])
    if not isinstance(groups, list):
        raise UnsafeEditError(f"its hooks for {event} are not in the format of this runtime")
    return groups


def _list_handlers(groups: object, agent_hooks: Hooks) -> Iterator[tuple[Any, list[Any]]]:
    """Yield the lists of handlers of an event, each with its group, or None if not grouped."""
    if not isinstance(groups, list):
        return
    if not agent_hooks.is_grouped:
        yield None, groups
        return
    for group in groups:
        if isinstance(group, dict) and isinstance(group.get("hooks"), list):
            yield group, group["hooks"]


def _put_handler(
    groups: list[Any], agent_hooks: Hooks, name: str, new_handler: dict[str, Any]
) -> None:
    """Replace our first handler and remove others of ours; append it if there is none."""
    is_placed = False
    for group, handlers in list(_list_handlers(groups, agent_hooks)):
        remaining = []
        for handler in handlers:
            if find_our_program(handler, name) is None:
                remaining.append(handler)
            elif not is_placed:
                remaining.append(new_handler)
                is_placed = True
        _replace_handlers(groups, group, handlers, remaining)
    if not is_placed:
        groups.append({"hooks": [new_handler]} if agent_hooks.is_grouped else new_handler)


def _remove_from_groups(groups: list[Any], agent_hooks: Hooks, name: str) -> bool:
    """Remove our handlers; return whether there were any."""
    is_changed = False
    for group, handlers in list(_list_handlers(groups, agent_hooks)):
        remaining = [handler for handler in handlers if find_our_program(handler, name) is None]
        is_changed = is_changed or len(remaining) < len(handlers)
        _replace_handlers(groups, group, handlers, remaining)
    return is_changed


def _replace_handlers(
    groups: list[Any], group: Any, handlers: list[Any], remaining: list[Any]
) -> None:
    """Replace a list of handlers; a group that contained only ours is removed."""
    is_emptied = bool(handlers) and not remaining
    handlers[:] = remaining
    if is_emptied and group is not None and set(group) == {"hooks"}:
        groups[:] = [other for other in groups if other is not group]


def _render_config(config: dict[str, Any], raw: bytes) -> bytes:
    """Serialize a configuration with the indentation and line endings of the original file."""
    match = _INDENT.search(raw.decode("utf-8"))
    text = json.dumps(config, ensure_ascii=False, indent=match[1] if match else 2)
    if not raw.strip() or raw.endswith(b"\n"):
        text += "\n"
    if b"\r\n" in raw:
        text = text.replace("\n", "\r\n")
    return text.encode("utf-8")
