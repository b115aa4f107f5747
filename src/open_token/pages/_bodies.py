"""What a row opens to: one renderer for each kind of tool, and a list of keys and values for all
others."""

import re
from collections.abc import Callable
from typing import Any

from open_token.pages._blocks import changes, folded, others, pairs
from open_token.pages._escaped import escaped
from open_token.pages._inline import inline, is_address, link
from open_token.pages._terminal import coloured
from open_token.pages._tools import BODIES, COMMANDS, NEWS, OLDS, PATCHES, PATHS, PATTERNS, word
from open_token.pages.marked import marked
from open_token.pages.rows import Row, is_done, plan_of, plural, questions_of

_PLANS = ("todos", "plan", "items", "tasks", "task_list", "todoList")
_LONG = 400
_CHOICES = 100
"""So many are looked for in the answer: a search for each of thousands would not end."""
_TASKS = ("prompt", "task", "message", "description")


def body_of(row: Row, inside: str = "") -> str:
    """The arguments and the result of a call, with what a subagent did between them."""
    render = _RENDERERS.get(row.kind, _any)
    made = render(row) + inside
    if row.kind == "agent" and row.output.strip():
        made += f'<h3>Result</h3><div dir="auto">{_prose(row.output)}</div>'
    if row.missing:
        made += '<p class="facts">No result is recorded: the source does not tell how this call ended.</p>'
    return made + (others(row.blocks) if not row.missing else "")


def _rest(row: Row, *shown: tuple[str, ...]) -> str:
    """The arguments that the renderer does not show otherwise."""
    if not isinstance(row.arguments, dict):
        return pairs(row.arguments) if row.arguments not in (None, []) else ""
    used = {name for names in shown for name in names}
    return pairs({key: value for key, value in row.arguments.items() if key not in used})


def _output(row: Row) -> str:
    return folded(row.output) if row.output.strip() else ""


def _shell(row: Row) -> str:
    name = next((name for name in COMMANDS if word(row.arguments, (name,))), "")
    command = word(row.arguments, (name,))
    asked = f'<pre class="term"><b>$</b> {escaped(command)}</pre>' if command else ""
    answer = folded(row.output.rstrip("\n"), coloured, "term") if row.output.strip() else ""
    return asked + answer + _rest(row, (name,))


def _edit(row: Row) -> str:
    if not row.changes:
        return _any(row)
    note = _answer(row.output.strip())
    return changes(row.changes) + _rest(row, PATHS, OLDS, NEWS, PATCHES, ("edits",)) + note


def _answer(text: str) -> str:
    """What an editor says when it is done: a line as it is, more than that one click away."""
    lines = text.count("\n") + 1
    if lines == 1 and len(text) < _LONG:
        return f'<p class="facts">{escaped(text)}</p>' if text else ""
    return f'<details class="more"><summary>its answer, {plural(lines, "line")}</summary>{folded(text)}</details>'


def _write(row: Row) -> str:
    if not row.changes:
        return _any(row)
    note = _answer(row.output.strip())
    return changes(row.changes) + _rest(row, PATHS, BODIES) + note


def _read(row: Row) -> str:
    return _rest(row, PATHS) + _output(row)


def _search(row: Row) -> str:
    return _rest(row, PATHS, PATTERNS) + _output(row)


def _plan(row: Row) -> str:
    points = plan_of(row.arguments)
    if not points:
        return _any(row)
    items = "".join(
        f'<li class="{_state(status)[1]}">{_state(status)[0]} {inline(text)}</li>'
        for status, text in points
    )
    return f'<ul class="todo">{items}</ul>' + _rest(row, _PLANS) + _answer(row.output.strip())


def _state(status: str) -> tuple[str, str]:
    if is_done(status):
        return "[x]", "done"
    return ("[&gt;]", "now") if status.replace("-", "_") == "in_progress" else ("[ ]", "todo")


def _web(row: Row) -> str:
    cards = [block for block in row.blocks if _is_card(block)]
    row.blocks = [block for block in row.blocks if not _is_card(block)]
    listed = "".join(f"<li>{_card(card)}</li>" for card in cards)
    return (
        _rest(row)
        + (f"<ul>{listed}</ul>" if listed else "")
        + (_prose(row.output) if row.output.strip() else "")
    )


def _prose(text: str) -> str:
    return marked(text) if text.count("\n") < _LONG else folded(text)


def _is_card(block: Any) -> bool:
    return isinstance(block, dict) and isinstance(block.get("title"), str)


def _card(card: dict[str, Any]) -> str:
    address = card.get("url")
    rest = {key: value for key, value in card.items() if key not in ("title", "url")}
    title = (
        link(str(address), str(card["title"]))
        if is_address(address)
        else escaped(f"{card['title']} {address or ''}")
    )
    return f"{title}{pairs(rest)}"


def _agent(row: Row) -> str:
    name = next((name for name in _TASKS if word(row.arguments, (name,))), "")
    task = word(row.arguments, (name,))
    asked = f'<h3>Task</h3><div dir="auto">{_prose(task)}</div>' if task else ""
    return asked + _rest(row, (name,))


def _ask(row: Row) -> str:
    made: list[str] = []
    asked = questions_of(row.arguments)
    answers = (
        _answers([question for question, _ in asked], row.output) if len(asked) <= _CHOICES else {}
    )
    for question, choices in asked:
        made.append(f'<div dir="auto">{marked(question)}</div>')
        taken = _taken(choices, answers.get(question, "")) if len(choices) <= _CHOICES else set()
        items = (f"<li>{_choice(choice, choice in taken)}</li>" for choice in choices)
        made.append(f"<ul>{''.join(items)}</ul>" if choices else "")
    return "".join(made) + (_output(row) if made else _any(row))


def _answers(questions: list[str], output: str) -> dict[str, str]:
    """The answer to each question: what stands between it and the next, where the output repeats
    them."""
    places = sorted(
        (place, question) for question in questions if (place := output.find(question)) >= 0
    )
    ends = [place for place, _ in places[1:]] + [len(output)]
    found = {
        name: output[place + len(name) : end]
        for (place, name), end in zip(places, ends, strict=False)
    }
    return {name: found.get(name, output) for name in questions}


def _taken(choices: list[str], answer: str) -> set[str]:
    """The choices that an answer names as a whole: not a word of a longer one, nor of a sentence
    that was typed."""
    taken = set()
    for label in sorted(filter(None, choices), key=len, reverse=True):
        named = re.compile(rf"(?<![^\s\"',:=\[]){re.escape(label)}(?=[\"',.;\n\]]|$)")
        if named.search(answer):
            taken.add(label)
            answer = named.sub("", answer)
    return taken


def _choice(label: str, is_taken: bool) -> str:
    return f"<strong>{escaped(label)}</strong>, chosen" if is_taken else escaped(label)


def _any(row: Row) -> str:
    return _rest(row) + _output(row)


_RENDERERS: dict[str, Callable[[Row], str]] = {
    "shell": _shell,
    "edit": _edit,
    "write": _write,
    "read": _read,
    "search": _search,
    "plan": _plan,
    "web": _web,
    "agent": _agent,
    "ask": _ask,
}
