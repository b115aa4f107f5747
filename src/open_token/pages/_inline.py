"""The inside of a paragraph of Markdown as HTML: code, emphasis and links, out of a fixed list of
tags."""

import re

from open_token.pages._escaped import attribute, escaped

# No alternative may step over its own end, so that the search stays linear whatever stands there.
_URL = r"https?://[!#$%&'*+,./0-9:;=?@A-Z_a-z~-]{1,1000}"
_TOKEN = re.compile(
    r"(?<!`)``(?!`)(?P<wide>(?:[^`]|`(?!`)){1,2000})(?<!`)``(?!`)"
    r"|(?<!`)`(?P<code>[^`]{1,2000})`(?!`)"
    r"|!?\[(?P<label>[^\[\]\n]{1,300})\]\((?P<to>"
    + _URL
    + r")(?:\([!-'*-~]{0,80}\))?(?: \"[^\"\n]{0,200}\")?\)"
    r"|(?P<bare>" + _URL + r")"
    r"|\*\*(?=[^\s*])(?P<bold>(?:[^*]|\*(?!\*)){1,1000})\*\*"
    r"|(?<![\w_])__(?=[^\s_])(?P<bold2>(?:[^_]|_(?!_)){1,1000})__(?![\w_])"
    r"|(?<![\w*])\*(?=[^\s*])(?P<slant>[^*\n]{1,500})(?<!\s)\*(?![\w*])"
    r"|(?<![\w_])_(?=[^\s_])(?P<slant2>[^_\n]{1,500})(?<!\s)_(?![\w_])"
    r"|~~(?=[^\s~])(?P<struck>[^~\n]{1,500})~~"
    r"|\\(?P<literal>[!-/:-@\[-`{-~])"
)
_TAGS = {"bold": "strong", "bold2": "strong", "slant": "em", "slant2": "em", "struck": "del"}
_DEPTH = 3
_LAST = ".,;:!?'*_~"
_HOST_ENDS = re.compile(r"[/?#\\]")


def inline(text: str, depth: int = 0) -> str:
    """One paragraph, without the tags around it."""
    made: list[str] = []
    end = 0
    for found in _TOKEN.finditer(text):
        made.append(escaped(text[end : found.start()]))
        made.append(_token(found.lastgroup or "", found, depth))
        end = found.end()
    made.append(escaped(text[end:]))
    return "".join(made)


def _token(kind: str, found: re.Match[str], depth: int) -> str:
    if kind in ("wide", "code"):
        return f"<code>{escaped(found[kind].strip() or found[kind])}</code>"
    if kind == "to":
        return link(found["to"], found["label"])
    if kind == "bare":
        address = found["bare"].rstrip(_LAST)
        return link(address, "") + escaped(found["bare"][len(address) :])
    if kind == "literal":
        return escaped(found["literal"])
    inner = found[kind]
    words = inline(inner, depth + 1) if depth < _DEPTH else escaped(inner)
    return f"<{_TAGS[kind]}>{words}</{_TAGS[kind]}>"


def is_address(text: object) -> bool:
    """Whether it is an address that a browser reads as it stands: http or https, in plain
    letters."""
    return isinstance(text, str) and re.fullmatch(_URL, text) is not None


def link(address: str, label: str) -> str:
    """A link that says where it goes: to http and https only, and without telling that place where
    it came from."""
    start = f'<a href="{attribute(address)}" rel="noreferrer noopener">'
    if not label or label == address:
        return f"{start}{escaped(address)}</a>"
    host = _HOST_ENDS.split(address.partition("://")[2], maxsplit=1)[0].rpartition("@")[2]
    return f"{start}{escaped(label)}</a> <small>({escaped(host)})</small>"
