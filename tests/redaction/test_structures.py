"""Structures give names to values: only the values are masked, and broken structure hurts nothing."""

import random

import pytest

from open_token.context import Context
from open_token.model.document import Record
from open_token.options import ExportOptions
from open_token.redaction.detector import Detector
from open_token.redaction.markers import MARKER
from open_token.redaction.redactor import redact
from open_token.redaction.rule_catalogue import fill_placeholders
from open_token.redaction.ruleset import load_rules
from open_token.redaction.structures import list_pairs

# What is masked is what fills the placeholders of words, passwords and tokens, in this order.
LAYOUTS = {
    "an element": "<server>\n <user>deploy</user>\n <password>{word:9}</password>\n</server>",
    "an element with attributes": '<wsse:Password lang="en">{word:12}</wsse:Password>',
    "a tag with a name": '<add key="ApiSecret" value="{alnum:24}" />',
    "a named element": '<entry key="db.password">{word:10}</entry>',
    "an attribute": '<user login="root" password="{word:10}"/>',
    "a property list": "<key>ApiToken</key>\n<string>{alnum:24}</string>",
    "an element with CDATA": "<secret><![CDATA[{alnum:24}]]></secret>",
    "elements in a container": "<secrets>\n<one>{alnum:32}</one>\n<two>{hex:32}</two>\n</secrets>",
    "YAML": "db:\n  user: anna\n  password: {word:10}  # of the test\n",
    "YAML with quotes": "db:\n  password: '{word:10}'\n  port: 5432\n",
    "a YAML block": "password: |\n  {word:12}\nuser: x",
    "a YAML list of names": "env:\n  - name: DB_PASSWORD\n    value: {word:10}\n",
    "a YAML container": "tokens:\n  ci: {alnum:24}\n  bot: {alnum:24}\nother: x\n",
    "TOML": '[database]\nuser = "anna"\npassword = "{word:10}"\n',
    "a section of secrets": "[credentials]\nacme = {alnum:32}\n[other]\nx = 1\n",
    "INI": "[client]\nuser=root\npassword={word:10}\n",
    "properties": "spring.datasource.username=sa\nspring.datasource.password={word:10}\n",
    "CSV": "user,password,shell\nanna,{word:9},sh\nbob,{word:9},sh\n",
    "CSV with quotes": '"login","password","age"\n"anna","{pass:10}",31\n"bob, jr","{pass:10}",32\n',
    "TSV": "id\ttoken\n1\t{alnum:24}\n2\t{hex:24}\n",
    "a Markdown table": "| user | password |\n|---|---|\n| anna | {word:9} |\n| bob | {word:9} |",
    "a framed table": "+---+---+\n| user | api_key |\n+---+---+\n| anna | {alnum:20} |\n+---+---+",
    "columns of spaces": "USER      PASSWORD   SHELL\nanna      {word:9}  /bin/sh\n",
    "a query": "https://app.invalid/verify?code={alnum:20}&uid=1",
    "a fragment": "https://app.invalid/#access_token={alnum:32}&token_type=bearer",
    "a link that lets people in": "https://app.invalid/reset-password/{alnum:32}",
    "a form": "grant_type=password&username=anna&password={word:10}",
    "cookies": "Cookie: a=1; remember_me={b64url:40}; theme=dark",
    "a connection string": "host=db user=anna password={word:10} dbname=x",
    "a connection string of pairs": "Server=db;User Id=sa;Password={word:12};Database=x",
    "an option": "tool login --username anna --password {word:10} --verbose",
    "an option of a client": "mysql -u root -p{word:10} shop",
    "an argument of a program": "htpasswd -b file anna {word:10}",
    "a pipe": "echo {word:10} | sudo -S apt update",
    "a here-string": "passwd anna <<< {word:10}",
    "netrc": "machine x.invalid\n  login me\n  password {word:9}",
    "a string in a program": "define('DB_PASSWORD', '{word:10}');",
}
HARMLESS = (
    "password:\n  type: string\n  description: The password\n",
    "| field | password |\n|---|---|\n| type | string |\n| required | yes |",
    "<password>${{db.password}}</password>",
    "<label for='password'>Password</label><input type='password' name='password'>",
    "secrets:\n  inherit: true\nother: x\n",
    "[secrets]\nprovider = vault\n",
    "tokens:\n  input: 1234\n  output: 5678\n",
    "user,token_count\nanna,12345\nbob,45678",
    "tool login --username anna --password-stdin",
    "use --http-password and --proxy-password respectively, and",
    "mysql -u root -p shop",
    "echo $PASSWORD | sudo -S apt update",
    "https://app.invalid/docs/reset/authentication-of-users",
    "Cookie: theme=dark; lang=en",
    "host=db user=anna dbname=x sslmode=require",
    'password = "someNameOfAVariable"',
    "const { token, password } = props;",
    "interface Props {\n  password: string;\n  token?: string;\n}",
    "def login(user, password, secret):\n    return connect(user, password, secret)",
)
SIGNS = (
    "<",
    ">",
    "</",
    '"',
    "'",
    "=",
    ":",
    "|",
    ",",
    ";",
    "\t",
    "\n",
    "\n  ",
    "&",
    "?",
    "/",
    "[",
    "]",
    "  ",
    "--",
)


def find_values(text: str, engine: str) -> list[str]:
    found = Detector(load_rules("secrets"), None, engine).find([text])
    raw = text.encode()
    return [item.get_value(raw) for _, findings in found for item in findings]


@pytest.mark.parametrize("engine", ["hyperscan", "keywords"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_values_of_a_layout_are_found(layout: str, engine: str) -> None:
    text, values = fill_placeholders(LAYOUTS[layout], layout)
    assert find_values(text, engine) == values


@pytest.mark.parametrize("engine", ["hyperscan", "keywords"])
@pytest.mark.parametrize("text", HARMLESS)
def test_a_layout_without_secrets_stays(text: str, engine: str) -> None:
    assert find_values(text, engine) == []


@pytest.mark.parametrize("layout", LAYOUTS)
def test_all_but_the_value_stays_byte_for_byte(layout: str) -> None:
    text, values = fill_placeholders(LAYOUTS[layout], layout)
    event = {"id": "evt_000001", "type": "message", "content": {"text": text}}
    record = Record(conversation={"id": "c"}, participants=[], events=[event])  # type: ignore[list-item,typeddict-item]
    context = Context(ExportOptions(redact="secrets"))
    (masked_event,) = redact(record, context).events
    masked = masked_event["content"]["text"]
    remaining = iter(values)
    assert MARKER.sub(lambda _: next(remaining), masked) == text
    assert list(remaining) == []


@pytest.mark.parametrize("line_end", ["\r\n", "\n"])
def test_lines_may_end_either_way(line_end: str) -> None:
    text, values = fill_placeholders(LAYOUTS["CSV"] + LAYOUTS["YAML"], "line ends")
    assert find_values(text.replace("\n", line_end), "keywords") == values


@pytest.mark.parametrize("layout", LAYOUTS)
def test_broken_structure_is_read_as_far_as_it_goes(layout: str) -> None:
    """A text that is cut anywhere, or has a sign too many, ends in no error and no empty value."""
    chance = random.Random(layout)
    text = fill_placeholders(LAYOUTS[layout], layout)[0]
    for _ in range(60):
        place = chance.randrange(len(text))
        for broken in (text[:place], text[:place] + chance.choice(SIGNS) + text[place:]):
            raw = broken.encode()
            assert all(value.strip() for value in find_values(broken, "keywords"))
            for start in range(0, len(raw), 7):
                for pair in list_pairs(raw, start, min(start + 8, len(raw))):
                    assert 0 <= pair.start <= pair.end <= len(raw)


def test_the_container_names_what_it_contains() -> None:
    text = b"tokens:\n  ci: abc\n"
    (pair,) = list_pairs(text, 0, 6)
    assert (pair.name, pair.container, text[pair.start : pair.end]) == (b"ci", b"tokens", b"abc")
    assert pair.label == b"tokens > ci\x01"


def test_a_table_is_read_from_its_first_row_only() -> None:
    row = b"anna,token,secret\n"
    table = b"user,key,value\n" + row * 100
    assert list_pairs(table, 15 + 18 + 5, 15 + 18 + 10) == []
    assert len(list_pairs(table, 5, 8)) == 100
