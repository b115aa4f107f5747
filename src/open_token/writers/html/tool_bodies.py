"""HTML of an opened row: one renderer per kind of tool, a key-value list for all others."""

import re
from collections.abc import Callable
from typing import Any

from open_token.agents.tools import (
    COMMAND,
    CONTENT,
    DIRECTORY,
    NEW_TEXT,
    OLD_TEXT,
    PATCH,
    PATH,
    PATTERN,
    PLAN,
    find_text,
)
from open_token.jsontools.objects import omit_keys
from open_token.model.titles import strip_markup
from open_token.writers.escape import escape_html, to_one_line
from open_token.writers.html.blocks import (
    MAX_LINES,
    render_blocks,
    render_changes,
    render_text,
    render_value,
)
from open_token.writers.html.markdown import (
    is_http_url,
    render_inline,
    render_link,
    render_markdown,
)
from open_token.writers.rows import (
    Row,
    format_count,
    is_done,
    is_in_progress,
    parse_plan,
    parse_questions,
)
from open_token.writers.terminal import render_colors

_QUOTED_ANSWER = re.compile(r'"?\s*[=:]\s*"([^"]{1,2000})"')
_MAX_ANSWER = 400
_MAX_OPTIONS = 100
"""More options or questions are not searched for in the answer: that would be quadratic."""
_TASK = ("prompt", "task", "message", "description")


def render_tool_body(row: Row, children: str = "") -> str:
    """Render the arguments and the result of a call, with the steps of a subagent in between."""
    render = _RENDERERS.get(row.kind, _render_other)
    body = render(row) + children
    if row.kind == "agent" and row.output.strip():
        body += f'<h3>Result</h3><div dir="auto">{_render_prose(row.output)}</div>'
    if row.missing:
        body += (
            '<p class="facts">No result is recorded: '
            "the source does not say how this call ended.</p>"
        )
        return body
    return body + render_blocks(row.blocks)


def _render_arguments(row: Row, *shown: tuple[str, ...]) -> str:
    """Render the arguments except those that are shown already."""
    arguments = row.arguments
    if isinstance(arguments, dict):
        shown_names = {name for names in shown for name in names}
        return render_value(omit_keys(arguments, *shown_names))
    if arguments in (None, []):
        return ""
    return render_value(arguments)


def _find_argument(row: Row, names: tuple[str, ...]) -> tuple[str, str]:
    """Return the name and text of the first of these arguments that is a text."""
    for name in names:
        text = find_text(row.arguments, (name,))
        if text:
            return name, text
    return "", ""


def _render_output(row: Row) -> str:
    if row.output.strip():
        return render_text(row.output)
    return ""


def _render_answer(text: str) -> str:
    """Render the message of a tool that changes something: one line in full, more of it folded."""
    if not text:
        return ""
    lines = text.count("\n") + 1
    if lines == 1 and len(text) < _MAX_ANSWER:
        return f'<p class="facts">{escape_html(text)}</p>'
    summary = f"output, {format_count(lines, 'line')}"
    return f'<details class="more"><summary>{summary}</summary>{render_text(text)}</details>'


def _render_prose(text: str) -> str:
    if text.count("\n") < MAX_LINES:
        return render_markdown(text)
    return render_text(text)


def _render_shell(row: Row) -> str:
    name, command = _find_argument(row, COMMAND)
    body = ""
    if command:
        body += f'<pre class="term"><b>$</b> {escape_html(command)}</pre>'
    if row.output.strip():
        body += render_text(row.output.rstrip("\n"), render_colors, "term")
    return body + _render_arguments(row, (name,))


def _render_edit(row: Row) -> str:
    if not row.changes:
        return _render_other(row)
    arguments = _render_arguments(row, PATH, OLD_TEXT, NEW_TEXT, PATCH, ("edits",))
    return render_changes(row.changes) + arguments + _render_answer(row.output.strip())


def _render_write(row: Row) -> str:
    if not row.changes:
        return _render_other(row)
    arguments = _render_arguments(row, PATH, CONTENT)
    return render_changes(row.changes) + arguments + _render_answer(row.output.strip())


def _render_read(row: Row) -> str:
    path = find_text(row.arguments, PATH)
    output = render_text(row.output, path=path) if row.output.strip() else ""
    return _render_arguments(row, PATH) + output


def _render_search(row: Row) -> str:
    return _render_arguments(row, DIRECTORY, PATTERN) + _render_output(row)


def _render_plan(row: Row) -> str:
    steps = parse_plan(row.arguments)
    if not steps:
        return _render_other(row)
    items = "".join(_render_plan_step(status, text) for status, text in steps)
    arguments = _render_arguments(row, PLAN)
    return f'<ul class="todo">{items}</ul>{arguments}{_render_answer(row.output.strip())}'


def _render_plan_step(status: str, text: str) -> str:
    box = "[ ]"
    css_class = "todo"
    if is_done(status):
        box = "[x]"
        css_class = "done"
    elif is_in_progress(status):
        box = "[&gt;]"
        css_class = "now"
    return f'<li class="{css_class}">{box} {render_inline(text)}</li>'


def _render_web(row: Row) -> str:
    search_results = [block for block in row.blocks if _is_search_result(block)]
    row.blocks = [block for block in row.blocks if not _is_search_result(block)]
    body = _render_arguments(row)
    if search_results:
        items = "".join(f"<li>{_render_search_result(block)}</li>" for block in search_results)
        body += f"<ul>{items}</ul>"
    if row.output.strip():
        body += _render_prose(row.output)
    return body


def _is_search_result(block: Any) -> bool:
    return isinstance(block, dict) and isinstance(block.get("title"), str)


def _render_search_result(block: dict[str, Any]) -> str:
    url = block.get("url")
    rest = omit_keys(block, "title", "url")
    if is_http_url(url):
        title = render_link(str(url), str(block["title"]))
    else:
        title = escape_html(f"{block['title']} {url or ''}")
    return f"{title}{render_value(rest)}"


def _render_agent(row: Row) -> str:
    name, task = _find_argument(row, _TASK)
    body = ""
    if task:
        body = f'<h3>Task</h3><div dir="auto">{_render_prose(task)}</div>'
    return body + _render_arguments(row, (name,))


def _render_ask(row: Row) -> str:
    questions = parse_questions(row.arguments)
    if not questions:
        return _render_other(row)
    answers: dict[str, str] = {}
    if len(questions) <= _MAX_OPTIONS:
        answers = _split_answers([question for question, _ in questions], row.output)
    parts: list[str] = []
    for question, options in questions:
        parts.append(f'<div dir="auto">{render_markdown(question)}</div>')
        chosen: set[str] = set()
        if len(options) <= _MAX_OPTIONS:
            chosen = _find_chosen(options, answers.get(question, ""))
        if options:
            items = (f"<li>{_render_option(option, option in chosen)}</li>" for option in options)
            parts.append(f"<ul>{''.join(items)}</ul>")
    return "".join(parts) + _render_output(row)


def render_reply(row: Row) -> str:
    """Render what a person answered to a question or decided on a plan; empty for other calls."""
    text = row.output.strip()
    if row.kind != "ask" or row.missing or not text:
        return ""
    questions = [question for question, _ in parse_questions(row.arguments)][:_MAX_OPTIONS]
    answers = _split_answers(questions, text) if questions else {}
    is_answered = bool(questions) and all(answers[question] != text for question in questions)
    if is_answered:
        items = "".join(
            f"<li>{render_inline(strip_markup(question))} "
            f"<b>{escape_html(_clean_answer(answers[question]))}</b></li>"
            for question in questions
        )
        body = f"<ul>{items}</ul>"
    else:
        body = f"<p>{escape_html(to_one_line(text, _MAX_ANSWER))}</p>"
    verb = "rejected" if row.failed else "answered"
    return f'<div class="ev reply" dir="auto"><span class="k">{verb}</span>{body}</div>'


def _clean_answer(text: str) -> str:
    """Return the answer out of what follows its question, such as `"="Yes", "`."""
    quoted = _QUOTED_ANSWER.match(text)
    return to_one_line(quoted[1] if quoted else text.strip(" \t\n\"'=:,."), _MAX_ANSWER)


def _split_answers(questions: list[str], output: str) -> dict[str, str]:
    """Return the answer to each question, where the output repeats the questions."""
    positions: list[tuple[int, str]] = []
    for question in questions:
        position = output.find(question)
        if position >= 0:
            positions.append((position, question))
    positions.sort()
    ends = [position for position, _ in positions[1:]] + [len(output)]
    answers = dict.fromkeys(questions, output)
    for (position, question), end in zip(positions, ends, strict=False):
        answers[question] = output[position + len(question) : end]
    return answers


def _find_chosen(options: list[str], answer: str) -> set[str]:
    """Return the options that an answer names as a whole, not as part of a longer text."""
    chosen: set[str] = set()
    for label in sorted(filter(None, options), key=len, reverse=True):
        pattern = re.compile(rf"(?<![^\s\"',:=\[]){re.escape(label)}(?=[\"',.;\n\]]|$)")
        if pattern.search(answer):
            chosen.add(label)
            answer = pattern.sub("", answer)
    return chosen


def _render_option(label: str, is_chosen: bool) -> str:
    if is_chosen:
        return f"<strong>{escape_html(label)}</strong>, chosen"
    return escape_html(label)


def _render_other(row: Row) -> str:
    return _render_arguments(row) + _render_output(row)


_RENDERERS: dict[str, Callable[[Row], str]] = {
    "shell": _render_shell,
    "edit": _render_edit,
    "write": _render_write,
    "read": _render_read,
    "search": _render_search,
    "plan": _render_plan,
    "web": _render_web,
    "agent": _render_agent,
    "ask": _render_ask,
}
