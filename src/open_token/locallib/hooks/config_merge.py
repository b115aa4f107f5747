"""Our handlers put into a runtime's JSON file and taken out again, with all that belongs to others
as it was."""

import json
import re
from collections.abc import Iterator
from typing import Any, NoReturn

from open_token.formats.definition import Hooks
from open_token.locallib.hooks.handlers import build_handler, find_our_program

_INDENT = re.compile(r"\n([ \t]+)\"")


class Unsafe(Exception):
    """A file that cannot be changed without losing something of it; says why."""


def add_handlers(raw: bytes, agent_hooks: Hooks, name: str, command: str) -> bytes:
    """The file with one handler of ours for each event; the same bytes when it has them already."""
    whole = parse_config(raw)
    before = json.dumps(whole)
    wanted = build_handler(agent_hooks, command)
    whole |= {key: value for key, value in agent_hooks.top_level.items() if key not in whole}
    for event in agent_hooks.events:
        _set(_event(_hooks(whole), event), agent_hooks, name, wanted)
    return raw if json.dumps(whole) == before else _written(whole, raw)


def remove_handlers(raw: bytes, agent_hooks: Hooks, name: str) -> bytes:
    """The file without any handler of ours, and without what would be left empty by that."""
    whole = parse_config(raw)
    hooks = whole.get("hooks")
    if not isinstance(hooks, dict):
        return raw
    is_changed = False
    for event in [event for event, groups in hooks.items() if isinstance(groups, list)]:
        if _taken_out(hooks[event], agent_hooks, name):
            is_changed = True
            if not hooks[event]:
                del hooks[event]
    if is_changed and not hooks:
        del whole["hooks"]
    return _written(whole, raw) if is_changed else raw


def find_our_programs(raw: bytes, agent_hooks: Hooks, name: str) -> list[str]:
    """The programs of our handlers in a file, one for each."""
    hooks = parse_config(raw).get("hooks")
    lists = hooks.values() if isinstance(hooks, dict) else ()
    found = (
        find_our_program(item, name)
        for groups in lists
        for _, items in _lists(groups, agent_hooks)
        for item in items
    )
    return [program for program in found if program]


def render_snippet(agent_hooks: Hooks, command: str) -> str:
    """What a person can paste where we must not write."""
    return add_handlers(b"{}", agent_hooks, "", command).decode()


def parse_config(raw: bytes) -> dict[str, Any]:
    """The object in a file; refused when writing it again would lose anything."""
    try:
        text = raw.decode("utf-8")
        whole = (
            json.loads(text, object_pairs_hook=_once, parse_constant=_no_number)
            if text.strip()
            else {}
        )
        json.dumps(whole, ensure_ascii=False).encode("utf-8")
    except Unsafe:
        raise
    except (ValueError, RecursionError):
        raise Unsafe("it is not plain JSON; comments would be lost") from None
    if not isinstance(whole, dict):
        raise Unsafe("it is no JSON object")
    return whole


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    whole = dict(pairs)
    if len(whole) != len(pairs):
        raise Unsafe("a key stands in it twice")
    return whole


def _no_number(word: str) -> NoReturn:
    raise Unsafe(f"it holds {word}, which is not JSON")


def _hooks(whole: dict[str, Any]) -> dict[str, Any]:
    hooks = whole.setdefault("hooks", {})
    if not isinstance(hooks, dict):
        raise Unsafe("its hooks are not as this runtime writes them")
    return hooks


def _event(hooks: dict[str, Any], event: str) -> list[Any]:
    groups = hooks.setdefault(event, [])
    if not isinstance(groups, list):
        raise Unsafe(f"its hooks for {event} are not as this runtime writes them")
    return groups


def _lists(groups: object, agent_hooks: Hooks) -> Iterator[tuple[Any, list[Any]]]:
    """The lists of handlers of an event, each with the group that it stands in."""
    if not isinstance(groups, list):
        return
    if not agent_hooks.is_grouped:
        yield None, groups
        return
    for group in groups:
        if isinstance(group, dict) and isinstance(group.get("hooks"), list):
            yield group, group["hooks"]


def _set(groups: list[Any], agent_hooks: Hooks, name: str, wanted: dict[str, Any]) -> None:
    """One handler of ours in its place, or behind all others."""
    is_there = False
    for group, handlers in list(_lists(groups, agent_hooks)):
        kept = []
        for handler in handlers:
            is_ours = find_our_program(handler, name) is not None
            if not (is_ours and is_there):
                kept.append(wanted if is_ours else handler)
            is_there = is_there or is_ours
        _refill(groups, group, handlers, kept)
    if not is_there:
        groups.append({"hooks": [wanted]} if agent_hooks.is_grouped else wanted)


def _taken_out(groups: list[Any], agent_hooks: Hooks, name: str) -> bool:
    is_changed = False
    for group, handlers in list(_lists(groups, agent_hooks)):
        kept = [handler for handler in handlers if find_our_program(handler, name) is None]
        is_changed = is_changed or len(kept) < len(handlers)
        _refill(groups, group, handlers, kept)
    return is_changed


def _refill(groups: list[Any], group: Any, handlers: list[Any], kept: list[Any]) -> None:
    """The handlers that are left; a group that held none but ours goes with them."""
    is_emptied = bool(handlers) and not kept
    handlers[:] = kept
    if is_emptied and group is not None and set(group) == {"hooks"}:
        groups[:] = [other for other in groups if other is not group]


def _written(whole: dict[str, Any], raw: bytes) -> bytes:
    """JSON with the indentation and the ends of lines that the file had."""
    found = _INDENT.search(raw.decode("utf-8"))
    text = json.dumps(whole, ensure_ascii=False, indent=found[1] if found else 2)
    if not raw.strip() or raw.endswith(b"\n"):
        text += "\n"
    return (text.replace("\n", "\r\n") if b"\r\n" in raw else text).encode("utf-8")
