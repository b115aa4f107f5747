"""Deeply nested JSON: parsers and encoders recurse, and need a stack of their own for it."""

import itertools
import json
import re
from collections.abc import Callable
from threading import Thread
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

_STRINGS = re.compile(rb'"(?:[^"\\]+|\\.)*+"', re.DOTALL)
_DEPTH_STEPS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_NO_BRACKETS = bytes(set(range(256)) - _DEPTH_STEPS.keys())


def measure_depth(raw: bytes) -> int:
    """Return how deep JSON text is nested."""
    brackets = _STRINGS.sub(b"", raw).translate(None, _NO_BRACKETS)
    return max(itertools.accumulate(map(_DEPTH_STEPS.__getitem__, brackets)), default=0)


def encode_deep(value: Any) -> str:
    """Return a value as JSON text, however deep it is; whatever was parsed can be encoded."""
    return run_with_fresh_stack(json.dumps, value)


def decode_deep(text: str) -> Any:
    """Parse JSON text that `encode_deep` wrote."""
    return run_with_fresh_stack(msgspec.json.decode, text)


def run_with_fresh_stack(work: Callable[[Any], T], value: Any) -> T:
    """Call `work`; if it recurses too deep, call it once more in a thread, whose stack is empty.

    A source is parsed with some calls on the stack, so everything that was parsed can go through
    here.
    """
    try:
        return work(value)
    except RecursionError:
        pass
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work(value))
        except BaseException as error:
            errors.append(error)

    thread = Thread(target=run)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]
