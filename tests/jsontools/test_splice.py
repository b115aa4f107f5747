"""Splicing changes values of JSON text and leaves all other bytes as they are."""

import json
from typing import Any

import pytest

from open_token.jsontools.splice import splice_json
from open_token.jsontools.walk import map_strings


def mask(value: Any) -> Any:
    return map_strings(value, lambda text: text.replace("hidden", "[X]"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{ "a" :  "hidden",\n\t"b": 1.50e2 }', '{ "a" :  "[X]",\n\t"b": 1.50e2 }'),
        ('{"hidden": {"x": ["hidden" , null]}}', '{"[X]": {"x": ["[X]" , null]}}'),
        (r'["\/a\/b hidden", "\u00e9"]', r'["\/a\/b [X]", "\u00e9"]'),
        (r'["\u00e9 hidden é", "\/"]', r'["\u00e9 [X] é", "\/"]'),
        (r'["\u0041 \ud83d\ude00 hidden \/ \""]', r'["\u0041 \ud83d\ude00 [X] \/ \""]'),
        ('{"a": "{\\"b\\":  \\"hidden\\"}"}', '{"a": "{\\"b\\":  \\"[X]\\"}"}'),
        ('{"a": [], "b": {}, "c": "hidden"}', '{"a": [], "b": {}, "c": "[X]"}'),
    ],
)
def test_layout_and_escapes_stay(text: str, expected: str) -> None:
    old = json.loads(text)
    assert splice_json(text, old, mask(old)) == expected


def test_containers_may_become_texts() -> None:
    old = {"a": [1, [2, 3]], "b": "x"}
    text = '{"a": [1, [2,  3]], "b":  "x"}'
    assert splice_json(text, old, {**old, "a": "[X]"}) == '{"a": "[X]", "b":  "x"}'


def test_a_key_that_occurs_twice_is_reported() -> None:
    text = '{"a": "hidden", "b": 1, "a": "hidden"}'
    old = json.loads(text)
    assert splice_json(text, old, mask(old)) is None
