"""Records of a source that follow each other: each is told as far as it differs from an earlier one
like it."""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec

from open_token.folding import has_parts, is_mark, same, shifted
from open_token.nearby import Nearby, Place, is_moment

_PARTS = 16
"""Each part that is told in part adds a level, so far inside a part is told whole."""
_BACK = 40
_WORTH_A_LOOK = 12
_FORESIGHT = 6
"""A reference that is longer than what it stands for must pay in so many records that follow it."""
_BEARING = re.compile(
    r"pass|secret|token|key|auth|cookie|cred|pwd|bearer|sess|sign|pin|mail|phone|name|addr|user|card|account|birth",
    re.I,
)
"""A value under such a key is told where it stands: the key alone may say that it is a secret, or a
person's."""
_NAMING = ("name", "key", "header")
_SAME: Any = object()
Path = tuple[str, ...]


def liken(values: list[Any], nearby: Nearby | None = None) -> list[Any]:
    """Folded records, told together: the first as it is, the others by what differs and from which
    event they are."""
    return _Batch(values, nearby or Nearby()).told()


class _Batch:
    """Records on their way into one annotation."""

    def __init__(self, values: list[Any], nearby: Nearby) -> None:
        self._values = values
        self._nearby = nearby
        self._bases: list[int | None] = []
        self._next: dict[int, int] = {}
        self._left: dict[int, int] = {}
        """How many are like a record, one after the other."""
        self._find_bases()
        self._leaves = [list(_leaves(value, ())) for value in values]
        self._places = [dict(self._telling(leaves)) for leaves in self._leaves]
        self._shifts = [self._shift(number) for number in range(len(values))]
        self._middles: dict[int, int | None] = {}
        self._formed: list[Any] = []
        self._seen: dict[str | int, tuple[int, Path]] = {}

    def _find_bases(self) -> None:
        seen: dict[Any, int] = {}
        for number, value in enumerate(self._values):
            base = None
            if has_parts(value):
                kinds = (
                    _shape(value, _PARTS),
                    _shape(value, 2),
                    (tuple(value), _kind(value)),
                    tuple(value),
                )
                base = next((seen[kind] for kind in kinds if kind in seen), None)
                if base is not None and kinds[0] in seen:
                    self._next[base] = number  # the one that has all the same keys
                elif base is not None:
                    self._next.setdefault(base, number)
                seen |= dict.fromkeys(kinds, number)
            self._bases.append(base)
        for number in range(len(self._values) - 1, -1, -1):
            follower = self._next.get(number)
            self._left[number] = 0 if follower is None else self._left[follower] + 1

    def _telling(self, leaves: list[tuple[Path, Any]]) -> Iterator[tuple[Path, Place]]:
        """The leaves of a record that tell by themselves from which event they are."""
        for path, leaf in leaves:
            place = _place(leaf) if type(leaf) is dict else self._nearby.telling(leaf)
            if place is not None:
                yield path, place

    def _shift(self, number: int) -> int:
        """How far the events of a record are from those of the record it is like."""
        base = self._bases[number]
        if base is None:
            return 0
        votes = Counter(by for by, _ in self._moves(base, number))
        return min(votes, key=lambda by: (-votes[by], abs(by))) if votes else 0

    def _moves(self, base: int, number: int) -> Iterator[tuple[int, int]]:
        """How far each place of a record is from that of another; what stays the same tells
        nothing."""
        theirs = self._places[base]
        for path, (event, pointer) in self._places[number].items():
            before, other = theirs.get(path, (event, ""))
            if other == pointer and before != event:
                yield event - before, before

    def told(self) -> list[Any]:
        """All of them."""
        made: list[Any] = []
        for number, value in enumerate(self._values):
            if places := self._places[number]:
                self._nearby.go(max(event for event, _ in places.values()))
            base = self._bases[number]
            if base is None or _is_pair(value):
                formed = self._explicit(value, (), number)
                made.append(formed)
            else:
                by = self._shifts[number]
                formed, change = self._tell(value, shifted(self._formed[base], by), (), number, 0)
                changes = {} if change is _SAME else change["$in"]
                made.append({"$like": [base, changes, by] if by else [base, changes]})
            self._formed.append(formed)
            self._remember(number)
        return made

    def _tell(self, value: Any, base: Any, path: Path, number: int, depth: int) -> tuple[Any, Any]:
        """A value as it stands in full, and what must be told of it beside its base."""
        pairs = _pairs(value, base) if depth < _PARTS else None
        if pairs is None:
            is_told = type(value) is str and bool(path) and bool(_BEARING.search(path[-1]))
            if same(base, value) or (
                not (is_told or _is_whole(value)) and self._means(base, value, number)
            ):
                return base, _SAME
            formed = self._explicit(value, path, number)
            return formed, formed
        parts, changes = {}, {}
        for key, item, other in pairs:
            parts[key], change = self._tell(item, other, (*path, key), number, depth + 1)
            if change is not _SAME:
                changes[key] = change
        formed = parts if type(value) is dict else list(parts.values())
        if not changes:
            return formed, _SAME
        inside = {"$in": changes}
        if type(value) is list and _length(formed) <= _length(inside):
            return formed, formed
        return formed, inside

    def _means(self, form: Any, value: Any, number: int) -> bool:
        """Whether a form stands for a value, at this record."""
        if same(form, value):
            return True
        if type(form) is not dict or len(form) != 1:
            return False
        ((mark, given),) = form.items()
        if mark == "$at":
            back, _, pointer = given.partition("/")
            before = number - int(back)
            return before >= 0 and same(_inside(self._values[before], pointer.split("/")), value)
        place = _place(form)
        if place is None:
            return False
        return (
            self._nearby.holds(place, value)
            if mark == "$ref"
            else self._nearby.holds_moment(place, value)
        )

    def _explicit(self, value: Any, path: Path, number: int) -> Any:
        """A value told in full, in the form that serves it and those that follow best."""
        if has_parts(value) and len(path) < _PARTS and not _is_pair(value):
            return {key: self._explicit(item, (*path, key), number) for key, item in value.items()}
        if type(value) is list and len(path) < _PARTS and all(map(has_parts, value)):
            return [
                self._explicit(item, (*path, str(place)), number)
                for place, item in enumerate(value)
            ]
        if type(value) not in (str, int, float) or not path or _BEARING.search(path[-1]):
            return value
        follower = self._follower(value, path, number)
        form = self._seen_before(value, path, number, follower)
        if (
            form is None
            and follower is not _SAME
            and type(follower) is type(value)
            and follower != value
        ):
            form = self._foreseen(value, path, number, follower)
        return value if form is None else form

    def _follower(self, value: Any, path: Path, number: int) -> Any:
        """What stands at the same place of the record that is told by this one."""
        after = self._next.get(number)
        return _SAME if after is None else _inside(self._values[after], path)

    def _pays(self, form: Any, value: Any, path: Path, number: int) -> bool:
        """Whether a form that is longer than its value makes up for it in the records that
        follow."""
        more, saved = _length(form) - _length(value), _length(value) + len(path[-1]) + 4
        return more <= 0 or more < min(self._left[number], _FORESIGHT) * saved * 3 // 4

    def _seen_before(self, value: Any, path: Path, number: int, follower: Any) -> Any:
        """A reference to the record in which a value stood last; one that the next record shares,
        or a shorter one."""
        found = self._seen.get(value) if _is_telling(value) else None
        if found is None or not 0 < number - found[0] <= _BACK:
            return None
        form = {"$at": "/".join((str(number - found[0]), *found[1]))}
        after = self._next.get(number)
        if after is not None and follower is not _SAME:
            place = after - number + found[0]
            if same(_inside(self._values[place], found[1]), follower):
                return form if self._pays(form, value, path, number) else None
            if same(follower, value):
                return None
        return form if _length(form) < _length(value) else None

    def _foreseen(self, value: Any, path: Path, number: int, follower: Any) -> Any:
        """The reference that the record which follows shares with this one, but for its event; none
        if it has none."""
        after = self._next[number]
        by = self._shifts[after]
        if number not in self._middles:
            moved = (event for move, event in self._moves(number, after) if move == by)
            self._middles[number] = next(moved, None)
        middle = self._middles[number]
        if middle is None:
            return None
        for near, pointer in self._nearby.around(middle, value):
            if self._nearby.holds((near + by, pointer), follower):
                form = {"$ref": f"evt_{near:06d}#{pointer}"}
                return form if self._pays(form, value, path, number) else None
        place = self._nearby.telling(value) if is_moment(value) else None
        if place is not None and self._nearby.holds_moment((place[0] + by, place[1]), follower):
            form = {"$ms": f"evt_{place[0]:06d}#{place[1]}"}
            return form if self._pays(form, value, path, number) else None
        return None

    def _remember(self, number: int) -> None:
        for path, leaf in self._leaves[number]:
            if _is_telling(leaf) and all(map(_is_plain, path)):
                self._seen[leaf] = number, path


def _is_telling(value: Any) -> bool:
    """Whether a value is hardly twice in a source by chance."""
    return (type(value) is str and len(value) >= _WORTH_A_LOOK) or is_moment(value)


def _is_pair(value: dict[str, Any]) -> bool:
    """Whether a part says what another is, as `name` does of `value`: apart they would not be known
    for a secret."""
    return (
        "value" in value
        and not has_parts(value["value"])
        and any(type(value.get(key)) is str for key in _NAMING)
    )


def _kind(value: dict[str, Any]) -> str | None:
    kind = value.get("type")
    return kind if type(kind) is str else None


def _is_plain(step: str) -> bool:
    return step.isdecimal() or (step.isidentifier() and step.isascii())


def _is_whole(value: Any) -> bool:
    """Whether a value holds others, which are no leaves."""
    return has_parts(value) or (type(value) is list and bool(value))


def _shape(value: Any, depth: int) -> Any:
    """The names of the keys, and of those in its parts."""
    if depth and has_parts(value):
        return tuple(
            (key, _shape(item, depth - 1)) if _is_whole(item) else key
            for key, item in value.items()
        )
    if depth and type(value) is list:
        return (
            "[]",
            *(_shape(item, depth - 1) if _is_whole(item) else "" for item in value[:_PARTS]),
        )
    return ""


def _leaves(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    if len(path) < _PARTS and has_parts(value):
        for key, item in value.items():
            yield from _leaves(item, (*path, key))
    elif len(path) < _PARTS and type(value) is list:
        for number, item in enumerate(value):
            yield from _leaves(item, (*path, str(number)))
    elif path:
        yield path, value


def _pairs(value: Any, base: Any) -> list[tuple[str, Any, Any]] | None:
    """The parts of two values that have the same ones; none when they do not, or when one is named
    by another."""
    if has_parts(value) and has_parts(base) and list(value) == list(base) and not _is_pair(value):
        return [(key, item, base[key]) for key, item in value.items()]
    if (
        type(value) is list
        and type(base) is list
        and len(value) == len(base)
        and all(map(has_parts, value))
    ):
        return [
            (str(place), item, other)
            for place, (item, other) in enumerate(zip(value, base, strict=True))
        ]
    return None


def _inside(value: Any, path: Any) -> Any:
    for step in path:
        if type(value) is list and step.isdecimal() and int(step) < len(value):
            value = value[int(step)]
        elif type(value) is dict and step in value and not is_mark(value):
            value = value[step]
        else:
            return _SAME
    return value


def _place(form: dict[str, Any]) -> Place | None:
    """The place that a reference leads to."""
    given = form.get("$ref", form.get("$ms")) if len(form) == 1 else None
    if not isinstance(given, str):
        return None
    name, _, pointer = given.partition("#")
    return int(name[4:]), pointer


def _length(value: Any) -> int:
    return len(msgspec.json.encode(value))
