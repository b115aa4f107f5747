"""What a conversation is called when it is shown.

The rule: its explicit title; else the first line of the first human prompt that says something,
normalized and cut at a word boundary; else its id.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

MAX_LENGTH = 80
MAX_EXPLICIT_LENGTH = 200
_MAX_INPUT = 6000
_SHORT_LINE = 8
MAX_PROMPTS = 20
"""How many prompts are looked at for a title."""
_TAG = re.compile(r"</?[A-Za-z][^<>\n]{0,60}>")
_MARKUP = re.compile(r"^[#>*\-\s\"`]+")
# Bounded, so that unclosed marks stay linear; `__init__` and `2 ** 3` are no emphasis.
_INLINE_MARKUP = (
    re.compile(r"\*\*(?=[^\s*])([^*\n]{1,200})(?<!\s)\*\*"),
    re.compile(r"`([^`\n]{1,200})`"),
    re.compile(r"!?\[([^\[\]\n]{1,200})\]\([^()\s]{1,500}\)"),
)
# The Codex IDE extension puts the state of the editor before what the person typed.
_CODEX_REQUEST = "## My request for Codex:"


def choose_title(
    explicit: object, prompts: Iterable[str], fallback: str, limit: int = MAX_LENGTH
) -> str:
    """Return the title of a conversation, given its human prompts in order and its id."""
    if isinstance(explicit, str):
        title = shorten(explicit, MAX_EXPLICIT_LENGTH)
        if title:
            return title
    first_title = ""
    for count, prompt in enumerate(prompts, 1):
        title = make_title(prompt, limit)
        # A slash command or a single word says little: a later prompt is a better title.
        if len(title) > _SHORT_LINE and not title.startswith("/"):
            return title
        first_title = first_title or title
        if count == MAX_PROMPTS:
            break
    return first_title or shorten(fallback, limit)


def iter_prompts(events: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the texts of the human prompts among the events of a document."""
    for event in events:
        if event.get("type") != "message" or event.get("role") != "user":
            continue
        if event.get("visibility") == "internal":
            continue  # the runtime wrote it in the name of the user
        content = event.get("content")
        text = content.get("text") if isinstance(content, dict) else None
        if isinstance(text, str):
            yield text


def make_title(text: str, limit: int = MAX_LENGTH) -> str:
    """Return a text as a title of at most `limit` characters; empty where it says nothing."""
    return shorten(normalize_title(text), limit)


def normalize_title(text: str) -> str:
    """Return the first line that says something, without tags, markup and extra space."""
    request = text.partition(_CODEX_REQUEST)[2]
    head = (request or text)[:_MAX_INPUT]
    if head.count("\\n") > 5 and head.count("\n") < 3:
        head = head.replace("\\n", "\n")  # a text that was escaped twice
    first_line = ""
    for line in strip_markup(_TAG.sub(" ", head)).splitlines():
        line = " ".join(_MARKUP.sub("", line).split())
        if len(line) > _SHORT_LINE:
            return line
        first_line = first_line or line
    return first_line


def strip_markup(text: str) -> str:
    """Return Markdown as text: without strong emphasis, code marks and addresses of links."""
    for markup in _INLINE_MARKUP:
        text = markup.sub(r"\1", text)
    return text


def shorten(text: str, limit: int = MAX_LENGTH) -> str:
    """Return a line cut at a word boundary to at most `limit` characters, ellipsis included."""
    line = " ".join(text[: limit * 4].split())
    if len(line) <= limit:
        return line
    cut = line[: limit - 3]
    if line[limit - 3] != " ":
        head = cut.rpartition(" ")[0]
        # One very long word is cut inside: half a title is better than none.
        if len(head) > limit // 2:
            cut = head
    return cut.rstrip(" ,.;:") + "..."
