"""Decoders: text that hides a value, decoded, with a map back to the original positions.

Each decoder is named by the rules that find where it applies.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

from open_token.redaction.decoders import packed
from open_token.redaction.decoders.line_wraps import find_line_joints, find_wrapped_end
from open_token.redaction.decoders.offset_map import OffsetMap, Replacement, replace_matches
from open_token.redaction.lazy_patterns import lazy_compile

# A run of backslashes is tried only where it begins: after anything but a backslash, or after the
# one that ends a terminal sequence. To try each backslash of a run takes quadratic time.
_ESCAPE = lazy_compile(
    # Terminal control sequences whose escape character is escaped, as in a JSON line that is torn
    rb"(?<![^\x1b]\\)\\+(?:u001[bB]|x1[bB]|033|e)\[[0-9;?]{0,24}[A-Za-z]|"
    # 1: URL escapes; 2, 3: Unicode and hexadecimal escapes; 4: HTML entities
    rb"%([0-9A-Fa-f]{2})|"
    rb"(?<![^\x1b]\\)\\+u\{?([0-9A-Fa-f]{4})\}?|"
    rb"(?<![^\x1b]\\)\\+x([0-9A-Fa-f]{2})|"
    rb"(&(?:#x?[0-9A-Fa-f]{1,7}|quot|apos|amp|lt|gt|equals|colon);)|"
    # 5, 6: quotes and white space that were escaped several times; 7: octal escapes
    rb"(?<![^\x1b]\\)\\{2,}([\"'/])|"
    rb"(?<![^\x1b]\\)\\{3,}([nrt])|"
    rb"(?<![^\x1b]\\)\\+([01][0-7]{2})|"
    # 8: the equals sign in quoted-printable; 9: full-width forms of ASCII
    rb"=(3D)|"
    rb"(\xef\xbc[\x81-\xbf]|\xef\xbd[\x80-\x9e])|"
    # Terminal control sequences
    rb"\x1b\[[0-9;?]{0,24}[A-Za-z]|"
    rb"\x1b\][^\x07\x1b\n]{0,400}(?:\x07|\x1b\\)|"
    # The zero bytes of UTF-16, and invisible characters
    rb"(?<=[\t\n\r -~])\x00(?!\x00)|"
    rb"\xe2\x80[\x8b-\x8f\xaa-\xae]|\xe2\x81[\xa0-\xaf]|\xef\xbb\xbf|\xc2\xad"
)
_SPACES = {b"n": b"\n", b"r": b"\r", b"t": b"\t"}
_QUOTE = rb"\\{0,3}[\"'`]"
_BREAK = rb"(?:\r?\n|\\r\\n|\\n)[ \t]{0,80}"
# Strings that code concatenates, lines continued with a backslash, and those of mails continued
# with an equals sign.
_GLUE = lazy_compile(
    rb"(?<=[0-9A-Za-z_+/=.~%@:-])(?:"
    + _QUOTE
    + rb"[ \t]{0,8}(?:"
    + _BREAK
    + rb")?(?:(?:\+|\.\.?|&|<>|~|\|\|)[ \t]{0,8}(?:\\?"
    + _BREAK
    + rb")?)?[brufBRUF]?"
    + _QUOTE
    + rb"|\\"
    + _BREAK
    + rb"|(?<=[0-9A-Za-z_+/.~%@:-])=\r?\n)(?=[0-9A-Za-z_+/=.~%@:-])"
)
# The comma between two strings of a list.
_COMMA = lazy_compile(_QUOTE + rb"(?:\s|\\[nr])*,(?:\s|\\[nr])*[brufBRUF]?" + _QUOTE)
# Bytes around a row of strings that are decoded with it.
_CONTEXT = 256
_STRING = lazy_compile(rb"[^\"'`\n]*")


class Decoded(NamedTuple):
    """Decoded text; without offsets only the whole encoded span can be masked."""

    text: bytes
    offsets: OffsetMap | None = None
    is_joined: bool = False
    """Strings or lines were joined: only what spans a joint counts, all else is found without."""
    is_certain: bool = True
    """If not, lines may only look as if they were wrapped: then only a token counts of which no
    line holds a part that is a finding by itself."""


def find_encoded_spans(text: bytes, start: int, end: int, encoding: str) -> tuple[bytes, ...]:
    """Return what may be encoded where a rule matched."""
    if encoding == "wrapped":
        last = find_wrapped_end(text, start)
        return (text[start:last],) if last > end else ()
    if encoding in ("base64", "hex"):
        return packed.list_candidates(text[start:end])
    return (text[start:end],)


def decode(raw: bytes, encoding: str) -> list[Decoded]:
    """Return the ways to decode a span; none where it is not encoded."""
    return DECODERS[encoding](raw)


def _without_offsets(
    decode_bytes: Callable[[bytes], bytes | None],
) -> Callable[[bytes], list[Decoded]]:
    def decode_span(raw: bytes) -> list[Decoded]:
        text = decode_bytes(raw)
        return [] if text is None else [Decoded(text)]

    return decode_span


def _decode_escapes(raw: bytes) -> list[Decoded]:
    offsets = replace_matches(raw, _ESCAPE, _unescape)
    return [] if offsets.text == raw else [Decoded(offsets.text, offsets)]


def _join_strings(raw: bytes) -> list[Decoded]:
    """Join all concatenated strings; of several in a row also each with only one neighbour."""
    joints = [Replacement(match.start(), match.end(), b"") for match in _GLUE.finditer(raw)]
    if not joints:
        return []
    decoded = [_join(raw, joints)]
    rows = _group_rows(raw, joints)
    previous_end = 0
    for number, row in enumerate(rows, 1):
        next_start = rows[number][0].start if number < len(rows) else len(raw)
        if len(row) > 1:
            first = max(previous_end, row[0].start - _CONTEXT)
            last = min(next_start, row[-1].end + _CONTEXT)
            # Every other joint: each string is joined once with the one before it alone, and
            # once with the one after it alone.
            decoded.append(_join(raw, row[::2], first, last))
            decoded.append(_join(raw, row[1::2], first, last))
        previous_end = row[-1].end
    return decoded


def _join_list_items(raw: bytes) -> list[Decoded]:
    """Join the strings of a list that code concatenates."""
    commas = [Replacement(match.start(), match.end(), b"") for match in _COMMA.finditer(raw)]
    return [_join(raw, commas)] if commas else []


def _group_rows(raw: bytes, glue: list[Replacement]) -> list[list[Replacement]]:
    """Return the joints between strings, grouped by those that directly follow one another."""
    rows: list[list[Replacement]] = []
    for joint in glue:
        if rows and _STRING.fullmatch(raw, rows[-1][-1].end, joint.start):
            rows[-1].append(joint)
        else:
            rows.append([joint])
    return rows


def _join_wrapped_lines(raw: bytes) -> list[Decoded]:
    joints = list(find_line_joints(raw))
    certain = [joint for joint, is_certain in joints if is_certain]
    decoded = [_join(raw, certain)] if certain else []
    if len(certain) < len(joints):
        every = _join(raw, [joint for joint, _ in joints])
        decoded.append(every._replace(is_certain=False))
    return decoded


def _join(
    raw: bytes, joints: list[Replacement], first: int = 0, last: int | None = None
) -> Decoded:
    offsets = OffsetMap(raw, joints, first, last)
    return Decoded(offsets.text, offsets, is_joined=True)


def _unescape(match: re.Match[bytes]) -> bytes:
    """Return what an escape stands for; the groups are those of _ESCAPE."""
    if digits := match[1] or match[3] or match[8]:
        return bytes.fromhex(digits.decode())
    if match[2]:
        return chr(int(match[2], 16)).encode("utf-8", "surrogatepass")
    if match[4]:
        from html import unescape

        return unescape(match[4].decode()).encode("utf-8", "surrogatepass")
    if match[6]:
        return _SPACES[match[6]]
    if match[7]:
        return bytes((int(match[7], 8),))
    if match[9]:
        # Full-width forms of ASCII.
        return chr(ord(match[9].decode()) - 0xFEE0).encode()
    return match[5] or b""


DECODERS = {
    "base64": _without_offsets(packed.decode_base64),
    "base32": _without_offsets(packed.decode_base32),
    "hex": _without_offsets(packed.decode_hex),
    "numbers": _without_offsets(packed.decode_numbers),
    "escapes": _decode_escapes,
    "glue": _join_strings,
    "list": _join_list_items,
    "wrapped": _join_wrapped_lines,
}
