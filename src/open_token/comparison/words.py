"""Two texts compared word by word."""

import re

from open_token.comparison.sequence_match import match_sequences

_TOKEN = re.compile(r"\w+|\s+|[^\w\s]")
_MAX_SPLIT = 200_000
"""Characters that are split into words; the rest of a longer text is one token."""

Piece = tuple[str, str]
"""`=`, `-` or `+`, and the text."""


def diff_words(old: str, new: str) -> list[Piece]:
    """Return what stayed, what was removed and what was added, in order."""
    old_tokens = _tokenize(old)
    new_tokens = _tokenize(new)
    pieces: list[Piece] = []
    kept: list[str] = []
    next_old = 0
    next_new = 0
    end = (len(old_tokens), len(new_tokens))
    for old_index, new_index in [*match_sequences(old_tokens, new_tokens), end]:
        if old_index > next_old or new_index > next_new:
            removed = old_tokens[next_old:old_index]
            added = new_tokens[next_new:new_index]
            pieces += _build_pieces(kept, removed, added)
            kept = []
        kept += old_tokens[old_index : old_index + 1]
        next_old = old_index + 1
        next_new = new_index + 1
    pieces += _build_pieces(kept, [], [])
    return _merge_changes(pieces)


def _tokenize(text: str) -> list[str]:
    tokens = _TOKEN.findall(text[:_MAX_SPLIT])
    if len(text) > _MAX_SPLIT:
        tokens.append(text[_MAX_SPLIT:])
    return tokens


def _build_pieces(kept: list[str], removed: list[str], added: list[str]) -> list[Piece]:
    pieces: list[Piece] = []
    for op, tokens in (("=", kept), ("-", removed), ("+", added)):
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
        is_space = op == "=" and text.isspace() and "\n" not in text and 0 < index < last
        if op == "-" or is_space:
            removed.append(text)
        if op == "+" or is_space:
            added.append(text)
        if op == "=" and not is_space:
            merged += _build_pieces([], removed, added)
            merged.append((op, text))
            removed = []
            added = []
    return merged + _build_pieces([], removed, added)
