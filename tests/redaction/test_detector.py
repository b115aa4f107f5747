"""The detector: both engines agree, encoded values are found, and time is linear."""

import gzip
import json
import os
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.full_disk import fill_disk, mount_small_disk
from helpers.growth import grows_linearly
from open_token.redaction import decoders, hyperscan_prefilter
from open_token.redaction import detector as detector_module
from open_token.redaction.detector import Detector, Finding, merge_findings
from open_token.redaction.hyperscan_prefilter import build_prefilter, read_stored_databases
from open_token.redaction.prefilter import KeywordPrefilter, compile_re2
from open_token.redaction.rule_catalogue import fill_placeholders
from open_token.redaction.ruleset import load_rules, parse_rules, read_rule_files

FAST = {
    level: Detector(load_rules(level), engine="hyperscan") for level in ("secrets", "pii", "strict")
}
SLOW = {
    level: Detector(load_rules(level), engine="keywords") for level in ("secrets", "pii", "strict")
}


def found(text: str, level: str = "secrets") -> list[str]:
    raw = text.encode()
    return [
        raw[item.start : item.end].decode()
        for _, items in FAST[level].find([text])
        for item in items
    ]


def drawn(hole: str) -> str:
    return fill_placeholders(hole, "test")[0]


# --- the engines agree ---

FRAGMENTS = [
    drawn(hole)
    for hole in (
        "ghp_{alnum:36}",
        "password",
        "api_key",
        "token: ",
        '"',
        "'",
        " = ",
        "\n",
        "\\n",
        "AKIA{b32:16}",
        "{hex:40}",
        "{uuid}",
        "{jwt}",
        "://",
        "user:",
        "@host.test",
        "Authorization: Bearer ",
        "{alnum:32}",
        "{b64:64}",
        "Cookie: sid=",
        "; ",
        "-u ",
        "curl ",
        "/home/",
        "\\\\",
        "{luhn:4,16}",
        "+49 30 901820",
        "10.1.2.3",
        "{iban:DE}",
        "é",
        "密码：",
        "[REDACTED:email:0123abcd]",
        "\0",
        "\x01",
        "secret",
        "key",
    )
]


@given(
    st.lists(st.lists(st.sampled_from(FRAGMENTS), max_size=8).map("".join), min_size=1, max_size=4)
)
def test_both_engines_find_the_same(leaves: list[str]) -> None:
    for level in ("secrets", "strict"):
        assert FAST[level].find(leaves) == SLOW[level].find(leaves)


@given(st.lists(st.text(max_size=60), min_size=1, max_size=5))
def test_any_text_can_be_searched(leaves: list[str]) -> None:
    assert FAST["strict"].find(leaves) == SLOW["strict"].find(leaves)


NAMES = [
    *" \n",
    "\0",
    "é",
    "Ö",
    "name: ",
    " said",
    "'s",
    ": ",
    " van ",
    "Torvild",
    "Enqvist",
    "a",
    "Aa",
    "氏",
    "<x@y",
]


@given(st.lists(st.sampled_from(NAMES), max_size=24).map("".join))
def test_both_engines_find_the_same_lines_for_names(text: str) -> None:
    person = FAST["pii"]._person_rank
    assert person is not None
    data = b"\0" + text.encode() + b"\0"
    assert FAST["pii"]._get_prefilter(0).find_lines(person, data) == SLOW["pii"]._get_prefilter(
        0
    ).find_lines(person, data)


GLUE = [*"a=\\\"'`+.&<>~|brf \t\r\n", "\\n", "\\r\\n", " " * 9, "\\\\\\"]


@given(st.lists(st.sampled_from(GLUE), max_size=14).map("".join))
def test_the_prefilter_opens_for_all_strings_that_code_puts_together(text: str) -> None:
    rule = next(rule for rule in load_rules("secrets") if rule.id == "glue")
    if decoders._GLUE.search(text.encode()):
        assert compile_re2(rule.gate).search(text.encode())


@pytest.mark.parametrize(
    "name", ["secret", "pii", "clean_real", "clean_rulefp", "clean_piifp", "nearmiss"]
)
def test_both_engines_find_the_same_in_the_shared_set(corpus: Path, name: str) -> None:
    with gzip.open(corpus / "redaction" / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        texts = [json.loads(line)["text"] for line in lines]
    different = [
        number
        for number, text in enumerate(texts)
        if FAST["pii"].find([text]) != SLOW["pii"].find([text])
    ]
    assert not different, f"rows {different} of {name}"
    whole = "\n".join(texts)
    assert FAST["pii"].find([whole]) == SLOW["pii"].find([whole])


def test_a_value_below_its_name_is_found_wherever_words_for_secrets_stand_above() -> None:
    value = drawn("{hex:40}")
    for above in ("a token for nobody", "a\ntoken\nkey", "the keys", "x" * 99):
        text = f"{above}\nacme_token:\n  {value}\nthe end of it"
        result = [engine["secrets"].find([text]) for engine in (FAST, SLOW)]
        assert result[0] == result[1]
        assert [
            text.encode()[item.start : item.end].decode()
            for _, items in result[0]
            for item in items
        ] == [value]


def test_what_stands_alone_is_found_in_neighbours_by_both_engines() -> None:
    leaves = [drawn("{pesel}")] * 5
    found = [[number for number, _ in engine["pii"]._search(leaves)] for engine in (FAST, SLOW)]
    assert found == [[0, 1, 2, 3, 4]] * 2


def test_leaves_are_found_by_their_number_and_do_not_touch() -> None:
    token = drawn("ghp_{alnum:36}")
    leaves = ["password=", token, "x" * 10, f"a\0b {token}", "ünïcödé " + token]
    numbers = {
        number: [item.start for item in items] for number, items in FAST["secrets"].find(leaves)
    }
    assert numbers == {1: [0], 3: [4], 4: [len("ünïcödé ".encode())]}


# --- what must stay ---


@pytest.mark.parametrize(
    "text",
    [
        'token = os.environ["GITHUB_TOKEN"]',
        "const apiKey = process.env.OPENAI_API_KEY;",
        "export API_TOKEN=${API_TOKEN}",
        "Authorization: Bearer $TOKEN",
        'api_key="your-api-key-here"',
        "password: changeme",
        "PASSWORD=<password>",
        "sk-" + "x" * 32,
        "AKIA" + "IOSFODNN7" + "EXAMPLE",
        "def get_token(self, token: str) -> Token:",
        "if (password !== confirmPassword) {",
        "the token is 4096 tokens long; input_tokens=123456",
        'max_tokens: 200000, "output_tokens": 1234567890123',
        "commit " + "0123456789abcdef" * 2 + "01234567",
        "sha256:" + "0a1b2c3d" * 8,
        '"integrity": "sha512-' + "Ab1/" * 21 + 'Ag=="',
        "golang.org/x/net v0.1.0 h1:" + "Ab1/" * 10 + "Ag=",
        "request id " + drawn("{uuid}"),
        "cache_key = hashlib.sha256(data).hexdigest()",
        'primary_key: "user_id_and_something_2"',
        "data:image/png;base64," + "iVBORw0KGgo" + "AAAA" * 20,
        "secretName: my-app-tls-2024-production",
        "KEY_LENGTH = AES256.key_length",
        "see src/auth/token_service_v2.test.ts",
        "ssh-ed25519 " + "AAAAC3NzaC1lZDI1NTE5" + "AAAAI" + "b2Q7" * 10 + " me@laptop",
    ],
)
def test_code_that_only_mentions_a_secret_stays(text: str) -> None:
    assert found(text) == []


# --- what must be seen ---


@pytest.mark.parametrize(
    "frame",
    [
        "{}",
        "before {} after",
        "\\n{}",
        '"{}"',
        "'{}'",
        "`{}`",
        "({})",
        "%20{}",
        "\x1b[32m{}\x1b[0m",
        "https://x:{}@host.test/",
        "token={}&x=1",
        "<key>{}</key>",
        "\\\\n{}",
        "{}.",
        "ключ {} здесь",
    ],
)
def test_a_token_is_seen_in_any_frame(frame: str) -> None:
    token = drawn("ghp_{alnum:36}")
    assert found(frame.format(token)) == [token]


def test_a_private_key_is_seen_whole_escaped_and_cut_short() -> None:
    for example in (
        "-----BEGIN RSA PRIVATE KEY-----\n{b64:64}\n{b64:64}\n{b64:40}==\n-----END RSA PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\\n{b64:64}\\n{b64:64}\\n-----END PRIVATE KEY-----",
        "-----BEGIN OPENSSH PRIVATE KEY-----\n{b64:70}\n{b64:31}",
    ):
        key, values = fill_placeholders(example, "test")
        for text in (key, f"x = '{key}'\n"):
            masked = found(text)
            assert len(masked) == 1
            assert all(value in masked[0] for value in values)


@pytest.mark.parametrize(
    "frame",
    ["│ {:70} │", "┃ {:70} ┃", "║ {:70} ║", "│  12 {:70} │", "id.pem-12-{}", " 12   12 +{}"],
)
@pytest.mark.parametrize("last", [4, 20, 33, 48])
def test_a_private_key_is_seen_in_a_frame(frame: str, last: int) -> None:
    hole = f"-----BEGIN RSA PRIVATE KEY-----\n{{b64:64}}\n{{b64:64}}\n{{b64:{last}}}==\n-----END RSA PRIVATE KEY-----"
    lines = drawn(hole).split("\n")
    masked = found("It is:\n" + "\n".join(map(frame.format, lines)) + "\nand no more")
    assert len(masked) == 1
    assert all(line in masked[0] for line in lines)
    assert "more" not in masked[0]


def test_base64_of_a_secret_is_seen() -> None:
    run = drawn("{base64:x ghp_}")
    assert found(f"echo {run} | base64 -d") == [run]
    assert found(drawn("{base64:nothing to see in this }")) == []


def test_bytes_that_are_no_letters_do_not_move_what_is_found_behind_them() -> None:
    token = drawn("ghp_{alnum:36}")
    hidden = f"%67{token[1:]}"
    assert found(f"%FF%FE%FD {hidden} and more") == [hidden]


@pytest.mark.parametrize("sign", ["\u200b", "\u00ad", "\u202c\u2066"])
def test_a_sign_that_nobody_sees_hides_nothing_wherever_it_stands(sign: str) -> None:
    key = drawn("AQEyhm{alnum:30}/{alnum:29}-{alnum:20}+{alnum:22}=-{alnum:16}")
    for place in range(1, len(key)):
        hidden = key[:place] + sign + key[place:]
        assert found(f"it is {hidden} now") == [hidden]


def test_a_name_gives_context_but_is_not_masked() -> None:
    assert found("password\x01hunter") == ["hunter"]
    token = drawn("ghp_{alnum:36}")
    assert found(f"{token}\x01value") == []


def test_personal_data_needs_its_level() -> None:
    text = "mail jo.doe@mail.test, call +49 30 901820, card 4111 1111 1111 1111, from 93.184.216.34, /home/johanna/x"
    assert found(text) == []
    assert found(text, "pii") == [
        "jo.doe@mail.test",
        "+49 30 901820",
        "4111 1111 1111 1111",
        "93.184.216.34",
        "johanna",
    ]


# --- together ---


def test_overlapping_findings_become_one_and_weak_ones_give_way() -> None:
    strong, weak = load_rules("secrets")[0], load_rules("secrets")[-1]
    weak = weak if weak.weak else next(rule for rule in load_rules("secrets") if rule.weak)
    items = [
        Finding(5, 9, 0, strong),
        Finding(7, 20, 1, strong),
        Finding(8, 30, 150, weak),
        Finding(40, 50, 150, weak),
    ]
    assert [(item.start, item.end, item.rank) for item in merge_findings(items)] == [
        (5, 20, 1),
        (40, 50, 150),
    ]


def test_a_secret_counts_before_personal_data_that_overlaps_it() -> None:
    secret = load_rules("secrets")[0]
    email = next(rule for rule in load_rules("pii") if rule.id == "email")
    items = [Finding(5, 9, 0, secret), Finding(7, 20, 400, email), Finding(30, 40, 400, email)]
    assert [(item.start, item.end, item.rule.type) for item in merge_findings(items)] == [
        (5, 20, secret.type),
        (30, 40, "email"),
    ]


@pytest.mark.parametrize("host", ["db.{word:7}.test:5432/x", "localhost/x", "10.20.30.40"])
@pytest.mark.parametrize("user", ["app", ""])
def test_a_password_in_a_url_is_a_password_at_every_level(user: str, host: str) -> None:
    password = drawn("{alnum:14}")
    text = f"DATABASE_URL=postgres://{drawn(user)}:{password}@{drawn(host)}"
    for level in ("secrets", "pii"):
        for detector in (FAST[level], SLOW[level]):
            ((_, findings),) = detector.find([text])
            assert [
                item.rule.type for item in findings if text[item.start : item.end] == password
            ] == ["password"]
            assert not any(item.rule.type == "email" for item in findings)


def test_text_inside_a_mark_is_never_found() -> None:
    token = drawn("ghp_{alnum:36}")
    assert found(f"[REDACTED:{token}:0123abcd] {token}") == [token]
    assert found("password=[REDACTED:password:0123abcd]") == []
    assert found("token: [REDACTED:secret:0123abcd][REDACTED:secret:0123abcd]") == []


def test_strings_in_a_row_are_put_together_twice_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []
    real = decoders.DECODERS["glue"]

    def counting(raw: bytes) -> list[decoders.Decoded]:
        looks.append(len(raw))
        return real(raw)

    monkeypatch.setitem(decoders.DECODERS, "glue", counting)
    FAST["secrets"]._search(['"a" + "b" ' * 50])
    assert 0 < len(looks) <= 3


# --- the cache ---


def test_the_database_is_kept_and_a_damaged_one_is_made_anew(tmp_path: Path) -> None:
    rules = load_rules("none")
    token = drawn("AGE-SECRET-KEY-1{upper:58}").encode()
    cache = tmp_path / "cache"
    assert read_stored_databases(rules, cache) is None
    gate = build_prefilter(rules, cache, None)
    assert gate is not None
    assert len(gate(token)) == 1
    stored = read_stored_databases(rules, cache)
    assert stored
    (kept,) = stored
    again = build_prefilter(rules, cache, stored)
    assert again is not None
    assert again(token) == gate(token)
    file = next(cache.glob("*.hyperscan"))
    for damage in (
        b"",
        b"garbage",
        kept[:100],
        kept[:-1],
        kept[:200] + bytes([kept[200] ^ 255]) + kept[201:],
    ):
        file.write_bytes(damage)
        mended = build_prefilter(rules, cache, read_stored_databases(rules, cache))
        assert mended is not None
        assert mended(token) == gate(token)
        assert damage == b"" or read_stored_databases(rules, cache) == stored


def test_what_looks_behind_a_encoding_and_what_looks_for_names_have_databases_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hyperscan_prefilter, "_COMPILED", {})
    few = tuple(
        rule
        for rule in load_rules("pii")
        if rule.id in ("glue", "escapes", "github-token", "person", "card")
    )
    assert build_prefilter(few, tmp_path, None) is not None
    assert len(list(tmp_path.glob("*.hyperscan"))) == 4


def test_each_level_has_a_database_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hyperscan_prefilter, "_COMPILED", {})
    few = tuple(
        rule
        for rule in load_rules("strict")
        if rule.id in ("github-token", "us-ssn", "card", "config-path")
    )
    cache = tmp_path / "cache"
    assert build_prefilter(few, cache, None) is not None
    assert len(list(cache.glob("*.hyperscan"))) == len({rule.level for rule in few})
    assert read_stored_databases(tuple(rule for rule in few if rule.level == "pii"), cache)
    next(cache.glob("*.hyperscan")).unlink()
    assert read_stored_databases(few, cache) is None
    again = build_prefilter(few, cache, None)
    assert again is not None
    result = again(b"\0" + drawn("536-22-8726 {luhn:4,16}").encode() + b"\0")
    assert {few[window.rule].id for window in result} == {"us-ssn", "card"}


def test_without_a_writable_cache_everything_still_works(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    gate = build_prefilter(load_rules("none"), tmp_path / "file" / "cache", None)
    assert gate is not None


@pytest.mark.parametrize(
    "damage", ["a folder", "a pipe", "a link", "a link to nothing", "others can write it"]
)
def test_anything_in_the_place_of_a_database_is_refused(
    damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hyperscan_prefilter, "_COMPILED", {})
    rules, token = load_rules("none"), drawn("AGE-SECRET-KEY-1{upper:58}").encode()
    first = build_prefilter(rules, tmp_path, None)
    file = next(tmp_path.glob("*.hyperscan"))
    stored = file.read_bytes()
    file.unlink()
    if damage == "a folder":
        file.mkdir()
    elif damage == "a pipe":
        os.mkfifo(file)
    elif damage == "a link to nothing":
        file.symlink_to(tmp_path / "nothing")
    else:
        other = tmp_path / "other" if damage == "a link" else file
        other.write_bytes(b"garbage" + stored[7:] if damage == "a link" else stored)
        other.chmod(0o600 if damage == "a link" else 0o666)
        if other != file:
            file.symlink_to(other)
    made = build_prefilter(rules, tmp_path, read_stored_databases(rules, tmp_path))
    assert made is not None
    assert first is not None
    assert made(token) == first(token)
    if damage != "a folder":
        assert file.read_bytes() == stored
        assert (file.is_symlink(), file.stat().st_mode & 0o777) == (False, 0o600)


def test_a_full_disk_costs_the_cache_and_not_the_export(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hyperscan_prefilter, "_COMPILED", {})
    monkeypatch.setattr(hyperscan_prefilter, "_OPENED", {})
    with mount_small_disk(tmp_path / "disk", "64k") as disk:
        fill_disk(disk)
        rules = load_rules("none", disk)
        assert build_prefilter(rules, disk, None) is not None
        assert not list(disk.glob("rules-*"))
    assert hyperscan_prefilter.read_stored_databases(rules, tmp_path / "none")


def test_what_no_cache_can_keep_is_compiled_once_a_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hyperscan_prefilter, "_COMPILED", {})
    monkeypatch.setattr(hyperscan_prefilter, "_OPENED", {})
    rules, (word, *_) = load_rules("none"), load_rules("none")[0].keywords
    assert hyperscan_prefilter.read_stored_databases(rules, None) is None
    first = build_prefilter(rules, None, None)
    kept = hyperscan_prefilter.read_stored_databases(rules, None)
    assert kept is not None
    second = build_prefilter(rules, None, kept)
    text = f"\0-----{word}-----\0".upper().encode()
    assert first is not None
    assert second is not None
    assert first(text) == second(text)
    assert hyperscan_prefilter.read_stored_databases(rules[:1], None) is None
    build_prefilter(rules, tmp_path, None)
    assert len(hyperscan_prefilter._COMPILED) == 1


@pytest.fixture
def databases_made(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """In a process that has searched nothing yet; grows when a database is made."""
    monkeypatch.setattr(hyperscan_prefilter, "_COMPILED", {})
    monkeypatch.setattr(hyperscan_prefilter, "_OPENED", {})
    monkeypatch.setattr(detector_module, "_SIZES_SEARCHED", Counter())
    made: list[int] = []
    real = detector_module.build_prefilter

    def counting(*args: Any) -> Any:
        made.append(1)
        return real(*args)

    monkeypatch.setattr(detector_module, "build_prefilter", counting)
    return made


def test_small_texts_need_no_database(tmp_path: Path, databases_made: list[int]) -> None:
    detector = Detector(load_rules("secrets"), tmp_path)
    detector.find(["small"])
    assert not databases_made
    detector.find(["large " * 20_000])
    assert databases_made


def test_many_small_sessions_share_one_database(tmp_path: Path, databases_made: list[int]) -> None:
    rules = load_rules("secrets")
    for number in range(20):
        Detector(rules, tmp_path).find([f"session {number} " * 500])
    assert databases_made == [1]


def test_without_hyperscan_the_other_prefilter_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hyperscan_prefilter, "_OPENED", {})
    monkeypatch.setattr(detector_module, "build_prefilter", lambda *args: None)
    detector = Detector(load_rules("secrets"), engine="hyperscan")
    token = drawn("ghp_{alnum:36}")
    assert len(detector.find([token])) == 1
    assert isinstance(detector._fast_prefilter, KeywordPrefilter)


def test_a_database_that_was_opened_is_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hyperscan_prefilter, "_OPENED", {})
    rules, token = load_rules("none"), drawn("AGE-SECRET-KEY-1{upper:58}").encode()
    assert hyperscan_prefilter.get_open_prefilter(rules) is None
    first = build_prefilter(rules, None, None)
    assert first is not None
    with ThreadPoolExecutor(4) as threads:
        gates = list(threads.map(lambda _: hyperscan_prefilter.get_open_prefilter(rules), range(8)))
        found = list(threads.map(lambda gate: gate(token * 50), gates))  # type: ignore[misc]
        found += threads.map(lambda _: first(token * 50), range(8))
    assert found == [first(token * 50)] * 16


# --- hostile input ---

HOSTILE = [
    "token=",
    "password: ",
    "-----BEGIN PRIVATE KEY-----",
    "eyJhbGciOi.",
    "a" * 7 + "=",
    "secret secret ",
    "://a:b",
    '"password": "',
    "AKIA",
    "1 ",
    "(555) ",
    "+1",
    "1.2.3.",
    "a@b.c",
    "[REDACTED:",
    "[REDACTED:a:0123abcd]",
    "ghp_" + "a" * 35 + " ",
    "{",
    "\\",
    "Cookie: a=b;",
    "x" * 63 + "@",
    "curl -u a:",
    "mysql -p",
    "key key key ",
    "10 Aaa ",
    "aB3/",
    "Bearer ",
    "fe80::",
    "12 Aaa Street\n",
    "token:\n  a1b2c3\n",
    "ask Aaa Bbb\n",
    "\n",
    "\x01",
    '"a" + ',
    '"a" "b" "c";',
    '["a",',
    "data: [1, ",
    "bytes([103, 104, 112, 95, 103, 104, 112, 95, 103, 104, 112, 95, 103, 104]) ",
    '["a", "b"].join("")',
    "''.join(['a', ",
    "a=\n",
    "a\u200bb",
    "x\0y",
    "ＡＢＣ",
    "6768705f",
    "0000: 6768 705f  x\n",
    "H4sIAAAAAAAAA",
    "so it printed ghp_abcdefgh12345678\n",
]


@pytest.mark.parametrize("piece", HOSTILE)
def test_time_grows_with_the_length_and_no_faster(piece: str) -> None:
    assert grows_linearly(
        lambda size: FAST["strict"]._search([piece * (size // len(piece))]), 10_000
    )


def test_all_rules_fit_both_engines() -> None:
    assert len(parse_rules(read_rule_files())) == len(FAST["strict"].rules)
