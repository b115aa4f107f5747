"""Two texts compared word by word."""

import re

from open_token.comparison.sequence_match import match_sequences

_TOKEN = re.compile(r"\w+|\s+|[^\w\s]")
_MAX_SPLIT = 200_000
"""Characters that are split into words; the rest of a longer text is one token."""

Piece = tuple[str, str]
"""`=`, `-` or `+`, and the text."""


def diff_words(old: str, new: str) -> list[Piece]:
    """Return what is unchanged, what was removed and what was added, in order."""
    old_tokens = _tokenize(old)
    new_tokens = _tokenize(new)
    matches = match_sequences(old_tokens, new_tokens)
    # A match after both ends, so that the loop also sees the changes after the last real match.
    matches.append((len(old_tokens), len(new_tokens)))
    pieces: list[Piece] = []
    unchanged: list[str] = []
    next_old = 0
    next_new = 0
    for old_index, new_index in matches:
        removed = old_tokens[next_old:old_index]
        added = new_tokens[next_new:new_index]
        if removed or added:
            pieces += _build_pieces(unchanged, removed, added)
            unchanged = []
        unchanged += old_tokens[old_index : old_index + 1]
        next_old = old_index + 1
        next_new = new_index + 1
    pieces += _build_pieces(unchanged, [], [])
    return _merge_changes(pieces)


def _tokenize(text: str) -> list[str]:
    tokens = _TOKEN.findall(text[:_MAX_SPLIT])
    if len(text) > _MAX_SPLIT:
        tokens.append(text[_MAX_SPLIT:])
    return tokens


def _build_pieces(unchanged: list[str], removed: list[str], added: list[str]) -> list[Piece]:
    pieces: list[Piece] = []
    for op, tokens in (("=", unchanged), ("-", removed), ("+", added)):
        if tokens:
            pieces.append((op, "".join(tokens)))
    return pieces


def _merge_changes(pieces: list[Piece]) -> list[Piece]:
    """Merge changes that only a space separates: several changed words read better as one."""
    merged: list[Piece] = []
    removed: list[str] = []
    added: list[str] = []
    last = len(pieces) - 1
    for index, (op, text) in enumerate(pieces):
        is_between_changes = 0 < index < last
        is_space = op == "=" and text.isspace() and "\n" not in text
        if is_space and is_between_changes:
            # The space becomes part of both the old and the new text.
            removed.append(text)
            added.append(text)
        elif op == "-":
            removed.append(text)
        elif op == "+":
            added.append(text)
        else:
            merged += _build_pieces([], removed, added)
            merged.append((op, text))
            removed = []
            added = []
    merged += _build_pieces([], removed, added)
    return merged
