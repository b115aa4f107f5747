"""Markdown of a stranger inside Markdown of ours: what it says stays, what it could do is taken
from it."""

import re

from open_token.pages._escaped import one_line, plain

_FENCE = re.compile(r"( {0,12}|\t{0,3})(`{3,}(?=[^`]*\Z)|~{3,})[ \t]*([\w+#.-]{0,30})(.*)")
_CODE = re.compile(
    r"(?<!`)``(?!`)(?:[^`\n]|`(?!`)){1,2000}(?<!`)``(?!`)|(?<!`)`[^`\n]{1,2000}`(?!`)"
)
_TICKS = re.compile("`+")
_NOT_A_LINK = re.compile(r"\]\((?!https?://)")
_LIVE = re.compile(r"!(?=\[)|\](?=:)|[<`&]|~{3,}|(?:javascript|data|vbscript|file):", re.IGNORECASE)


def fenced(text: str, language: str = "") -> str:
    """Text as code, in a fence longer than any run of backticks inside."""
    clean = plain(text).rstrip("\n")
    longest = max((len(run) for run in _TICKS.findall(clean)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{clean}\n{fence}\n\n"


def coded(text: str, longest: int) -> str:
    """A line of a stranger's as code within a line; nothing where it says nothing."""
    line = one_line(text, longest)
    ticks = "`" * (max((len(run) for run in _TICKS.findall(line)), default=0) + 1)
    space = " " if line[:1] == "`" or line[-1:] == "`" else ""
    return f"{ticks}{space}{line}{space}{ticks}" if line else ""


def prose(text: str) -> str:
    """Markdown without tags, pictures and links that are not http: code stays code, in fences of
    ours."""
    made: list[str] = []
    code: list[str] | None = None
    fence = language = ""
    for line in plain(text).split("\n"):
        opened = _FENCE.fullmatch(line)
        if code is not None:
            if opened and not (opened[3] + opened[4]).strip() and opened[2].startswith(fence):
                made.append(fenced("\n".join(code), language).rstrip("\n"))
                code = None
            else:
                code.append(line)
        elif opened:
            code, fence, language = [], opened[2], opened[3]
        else:
            made.append(_line(line))
    if code is not None:
        made.append(fenced("\n".join(code), language).rstrip("\n"))
    return "\n".join(made)


def _line(line: str) -> str:
    """One line: its code in backticks as it is, and no other backtick left that could join with
    them."""
    # Four spaces would make code of it, in which the signs that stand for others are not read.
    line = line.lstrip("\t") if line.startswith("\t") else line
    made: list[str] = []
    end = 0
    for found in _CODE.finditer(line):
        made.append(_harmless(line[end : found.start()]))
        # In a table a bar ends the cell also in the midst of code, and what stands behind it is
        # code no more.
        made.append(_harmless(found[0]) if "|" in found[0] else found[0])
        end = found.end()
    made.append(_harmless(line[end:]))
    return "".join(made)


def _harmless(text: str) -> str:
    text = _LIVE.sub(_entity, text)
    text = _NOT_A_LINK.sub("]&#40;", text)
    # A backslash before code of ours would take its first backtick away.
    return text[:-1] + "&#92;" if text.endswith("\\") else text


def _entity(found: re.Match[str]) -> str:
    sign = found[0]
    if sign[0] == "~":  # a fence that we did not see would hide all that follows
        return "&#126;" * len(sign)
    return f"&#{ord(sign)};" if len(sign) == 1 else sign[:-1] + "&#58;"
