"""Plain text as a stream: values across borders are found, all else stays, memory is bounded."""

import json
import re
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from open_token.context import Context, CustomRule, Policy, RedactionOverrides
from open_token.errors import OpenTokenError
from open_token.options import ExportOptions
from open_token.redaction import text_stream as module
from open_token.redaction.propagation import ValueSearch
from open_token.redaction.rule_catalogue import fill_placeholders
from open_token.redaction.text_stream import LayeredSearch, get_text_level, redact_text

KEY = bytes(range(32))
GITHUB = fill_placeholders("ghp_{alnum:36}", "text")[0]
PASSWORD = fill_placeholders("{pass:14}", "text")[0]
PEM = fill_placeholders(
    "-----BEGIN PRIVATE KEY-----\n{b64:64}\n{b64:64}\n{b64:64}\n-----END PRIVATE KEY-----", "text"
)[0]


@pytest.fixture(scope="module", autouse=True)
def rule_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    CACHES.append(tmp_path_factory.mktemp("rules"))


CACHES: list[Path] = []


def context(redact: str = "secrets", **rest: Any) -> Context:
    options = ExportOptions.of({"redact": redact, "strategy": rest.pop("strategy", "mask")})
    return Context(options, key=rest.pop("key", KEY), rule_cache=CACHES[-1], **rest)


def filtered(data: bytes, size: int = 1 << 16, made: Context | None = None) -> bytes:
    chunks = [data[place : place + size] for place in range(0, len(data), size)]
    return b"".join(redact_text(chunks, made or context(), "x"))


def mark(data: bytes) -> str:
    return re.sub(
        r"\[REDACTED:(\w+):[0-9a-f]{8}\]", r"<\1>", data.decode("utf-8", "surrogateescape")
    )


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces so small that every border is met."""
    monkeypatch.setattr(module, "_PIECE_SIZE", 64)
    monkeypatch.setattr(module, "_LOOK_AHEAD", 512)
    monkeypatch.setattr(module, "_LOOK_BEHIND", 64)


def test_text_keeps_its_form() -> None:
    data = f"a\r\nb {GITHUB}\r\n\r\nc: Café \x01 \x1b[0m\n".encode() + b"bad \xff\xfe byte\n"
    assert mark(filtered(data)) == mark(data).replace(GITHUB, "<github_token>")


def test_nothing_to_mask_is_the_same_bytes() -> None:
    data = bytes(range(1, 256)) * 40
    assert filtered(data) == data
    assert filtered(b"") == b""


def test_none_is_the_same_bytes() -> None:
    assert filtered(GITHUB.encode(), made=context("none")) == GITHUB.encode()
    assert get_text_level(context("none")) is None
    forbidding = context("none", policy=Policy(never_export_private_keys=True))
    assert (
        mark(filtered(f"{PEM}\n{GITHUB}".encode(), made=forbidding)) == f"<private_key>\n{GITHUB}"
    )


@pytest.mark.parametrize("size", [1, 7, 64, 1000])
@pytest.mark.parametrize(
    "secret", [GITHUB, PEM, f"password = {PASSWORD}"], ids=["token", "key", "password"]
)
def test_a_secret_across_borders_is_found(secret: str, size: int, small: None) -> None:
    for shift in range(0, 130, 9):
        data = f"{'word ' * 20}{'x' * shift} {secret} {'more ' * 300}\n{secret}\nend".encode()
        out = filtered(data, size)
        assert not any(part.encode() in out for part in (GITHUB, PASSWORD, *PEM.split("\n")[1:4]))
        assert out.startswith(b"word word")
        assert out.endswith(b"end")


@given(
    st.lists(
        st.sampled_from([GITHUB, "word", " ", "\n", f"password={PASSWORD}", "é", '{"a": 1}']),
        max_size=60,
    )
)
def test_the_way_it_is_cut_does_not_matter(parts: list[str]) -> None:
    data = "".join(parts).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_PIECE_SIZE", 256)
        patch.setattr(module, "_LOOK_AHEAD", 512)
        out = filtered(data, 11)
    assert b" " + GITHUB.encode() not in out
    assert mark(out) == mark(filtered(data))
    assert filtered(out) == out


def test_lines_of_json_are_searched_as_what_they_mean() -> None:
    inner = json.dumps({"password": "hunter-two", "n": [1, 2]})
    line = json.dumps({"text": f"a\n{GITHUB}\n", "arguments": inner})
    data = f'log\n{line}\n{{"a" : 1.50}}\nend\n'.encode()
    lines = filtered(data).decode().split("\n")
    result = json.loads(lines[1])
    assert mark(result["text"].encode()) == "a\n<github_token>\n"
    assert "hunter-two" not in lines[1]
    assert json.loads(result["arguments"])["n"] == [1, 2]
    assert (lines[0], lines[2], lines[3]) == ("log", '{"a" : 1.50}', "end")


def test_a_value_is_masked_from_where_it_is_recognised_on() -> None:
    line = "a line of a log that is of no interest\n"
    data = (
        f"first {PASSWORD} here\n{line * 20_000}\npassword={PASSWORD}\nthen {PASSWORD}\n".encode()
    )
    once = redact_text(
        [data[place : place + 65_536] for place in range(0, len(data), 65_536)], context(), "x"
    )
    out = b"".join(once)
    assert PASSWORD.encode() not in out[100:]
    assert out.startswith(f"first {PASSWORD}".encode())
    assert PASSWORD.encode() not in b"".join(redact_text([data], context(), "x", once.found))


def test_marks_are_keyed_by_the_name_of_the_text_or_not_at_all() -> None:
    def marks(scope: str, **rest: Any) -> bytes:
        return b"".join(redact_text([GITHUB.encode()], context(**rest), scope))

    assert marks("a") == marks("a") != marks("b")
    assert marks("a", strategy="hash") == marks("b", strategy="hash")
    assert marks("a", strategy="drop").endswith(b":00000000]")
    assert marks("a", key=None).endswith(b":00000001]")


def test_the_account_counts() -> None:
    walk = redact_text([f"{GITHUB} {GITHUB}\npassword={PASSWORD}".encode()], context(), "x")
    assert walk.notes == []
    assert b"".join(walk)
    assert walk.notes == [
        "masked 2 github_token (1 distinct value)",
        "masked 1 password (1 distinct value)",
    ]


def test_rules_of_ones_own_hold_in_text() -> None:
    rule = CustomRule("t", "ticket", "secrets", "ACME-[0-9]{6}")
    assert (
        mark(filtered(b"x ACME-123456 y", made=context(screen=RedactionOverrides((rule,)))))
        == "x <ticket> y"
    )


def test_memory_is_bounded() -> None:
    def chunks() -> Iterator[bytes]:
        for number in range(400):
            yield f"line {number} of a log that goes on and on\n".encode() * 1400

    for _ in redact_text([b"warm up " + GITHUB.encode()] * 2, context(), "x"):
        pass
    tracemalloc.start()
    total = sum(map(len, redact_text(chunks(), context(), "x")))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert total > 20_000_000
    assert peak < 12_000_000


def test_one_endless_find_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MAX_BUFFER_SIZE", 1 << 18)
    endless = (
        b"-----BEGIN PRIVATE KEY-----\n" if not number else b"QUJDREVGR0hJSktMTU5PUA==\n" * 1000
        for number in range(40)
    )
    result: list[bytes] = []
    with pytest.raises(OpenTokenError) as caught:
        result.extend(redact_text(endless, context(), "x"))
    assert not any(b"QUJD" in piece for piece in result)
    assert caught.value.code == "redaction.endless"


def test_values_are_found_in_all_layers() -> None:
    layers = LayeredSearch("keywords", ValueSearch([], "keywords"))
    values = [f"value-number-{number:04d}" for number in range(60)]
    assert not layers.add([])
    for number in range(0, 60, 3):
        assert layers.add(values[number : number + 3])
    found = [span.value for span in layers.find(" ".join(values).encode())]
    assert sorted(found) == values
    assert len(layers._layers) < 8


def at_pauses(*chunks: str) -> list[str]:
    """What comes out between pauses."""
    walk = redact_text((part for chunk in chunks for part in (chunk.encode(), b"")), context(), "x")
    return [mark(piece) for piece in walk if piece]


def test_whole_lines_come_out_at_a_pause() -> None:
    assert at_pauses("one\ntwo", " is long\n", "three") == ["one\n", "two is long\n", "three"]
    assert at_pauses(f"a {GITHUB}\n", f"{GITHUB[:20]}", f"{GITHUB[20:]}\n") == [
        "a <github_token>\n",
        "<github_token>\n",
    ]


def test_a_key_that_comes_line_by_line_is_held_until_it_is_whole() -> None:
    lines = f"start\n{PEM}\nend\n".splitlines(keepends=True)
    assert "".join(at_pauses(*lines)) == "start\n<private_key>\nend\n"
    cut_short = at_pauses(*lines[:4])
    assert [line for line in PEM.split("\n")[1:4] if line in "".join(cut_short)] == []


def test_a_name_before_a_pause_counts_behind_it() -> None:
    assert re.fullmatch(r"<\w+>\n", at_pauses("x\npassword:\n", f"{PASSWORD}\n")[-1])


def test_lines_of_json_come_out_at_a_pause() -> None:
    line = json.dumps({"note": f"line\n{GITHUB}"}) + "\n"
    assert (
        "".join(at_pauses(line, line[:20], line[20:])) == 2 * '{"note": "line\\n<github_token>"}\n'
    )


@pytest.mark.parametrize("engine", ["hyperscan", "keywords"])
def test_a_value_that_is_too_long_for_one_engine_is_found_by_another(engine: str) -> None:
    long = "".join(f"line {number} of a key;" for number in range(3000))
    found = ValueSearch([long, "short-value-1"], engine).find(f"x {long} y short-value-1".encode())
    assert sorted(occurrence.value for occurrence in found) == sorted([long, "short-value-1"])
