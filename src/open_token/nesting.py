"""JSON that is nested so deep that who reads or writes it, which recurses, needs a stack of its
own."""

import itertools
import json
import re
from collections.abc import Callable
from threading import Thread
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")
_TEXTS = re.compile(rb'"(?:[^"\\]+|\\.)*+"', re.DOTALL)
_STEPS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_NO_BRACKETS = bytes(set(range(256)) - _STEPS.keys())


def depth_of(raw: bytes) -> int:
    """How deep JSON is nested."""
    brackets = _TEXTS.sub(b"", raw).translate(None, _NO_BRACKETS)
    return max(itertools.accumulate(map(_STEPS.__getitem__, brackets)), default=0)


def spelled(value: Any) -> str:
    """A value as JSON; what could be read can be written."""
    return afresh(json.dumps, value)


def unspelled(text: str) -> Any:
    """The value of JSON that was spelled here."""
    return afresh(msgspec.json.decode, text)


def afresh(work: Callable[[Any], T], value: Any) -> T:
    """Do it; where it recurses too deep, once more with nothing on the stack: a thread begins with
    none.

    A source is read with some calls on the stack, so that whatever came in goes through here."""
    try:
        return work(value)
    except RecursionError:
        pass
    done: list[T] = []
    failed: list[BaseException] = []

    def alone() -> None:
        try:
            done.append(work(value))
        except BaseException as problem:
            failed.append(problem)

    thread = Thread(target=alone)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return done[0]
