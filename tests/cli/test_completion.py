"""`open-token completion`: scripts that the shells take, and what bash offers with ours."""

import shutil
import subprocess
from pathlib import Path

import pytest

from open_token.cli import main
from open_token.cli.dispatch import VERBS
from open_token.registry import READERS

SHELLS = ("bash", "zsh", "fish")
SCRIPTS = (*SHELLS, "powershell")


@pytest.fixture
def script(request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["completion", request.param]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


@pytest.mark.parametrize("script", SCRIPTS, indirect=True)
def test_every_verb_option_and_reader_is_in_it(script: str) -> None:
    for word in (
        *VERBS,
        *READERS,
        "redact=pii",
        "mode=ndjson",
        "max_bytes=",
        "--pick",
        "--current",
        "sessions --quiet",
    ):
        assert word in script or word.replace("--", "-l ") in script


@pytest.mark.parametrize(
    ("script", "shell"), [(name, name) for name in SHELLS], indirect=["script"]
)
def test_the_shell_takes_it(script: str, shell: str, tmp_path: Path) -> None:
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed")
    (tmp_path / "script").write_text(script)
    done = subprocess.run(
        [shell, "-n", str(tmp_path / "script")], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


BASH = """
source ./script
open-token() { printf 'abcd-1\\tx\\nabce-2\\tx\\n'; }
COMP_LINE="$1"; COMP_POINT=${#1}; read -ra COMP_WORDS <<< "$1"
[[ "$1" == *' ' ]] && COMP_WORDS+=("")
COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 ))
_open_token
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.mark.skipif(not shutil.which("bash"), reason="bash is not installed")
@pytest.mark.parametrize("script", ["bash"], indirect=True)
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("open-token ex", {"export"}),
        (
            "open-token s",
            {
                "sessions",
                "search",
                "show",
                "stats",
                "statusline",
                "schema",
                "sign",
                "skill",
                "serve",
                "server",
            },
        ),
        ("open-token export red", {"redact=secrets", "redact=none", "redact=pii", "redact=strict"}),
        ("open-token export redact=p", {"redact=pii"}),
        ("open-token export --cu", {"--current"}),
        ("open-token export x.jsonl --from claude_c", {"claude_code"}),
        ("open-token sessions --agent codex_a", {"codex_app_server"}),
        ("open-token export abc", {"abcd-1", "abce-2"}),
        ("open-token export las", {"last"}),
        ("open-token export sess", {"session.jsonl"}),
        ("open-token validate sess", {"session.jsonl"}),
        ("open-token completion z", {"zsh"}),
        ("open-token formats --js", {"--json"}),
        ("open-token verify --st", {"--statement"}),
        ("open-token sign --k", {"--key"}),
        ("open-token serve --ch", {"--check"}),
        ("open-token server res", {"restore"}),
        ("open-token replay ch", {"check"}),
        ("open-token replay check --ju", {"--junit"}),
        ("open-token replay view sess", {"session.jsonl"}),
        ("open-token redact --re", {"--report", "--review"}),
        ("open-token redact x.txt --level p", {"pii"}),
        ("open-token redact abc", {"abcd-1", "abce-2"}),
        ("open-token redact str", {"strategy=mask", "strategy=hash", "strategy=drop"}),
        ("open-token rules ex", {"explain"}),
        ("open-token rules show abc", {"abcd-1", "abce-2"}),
        ("open-token rules test sess", {"session.jsonl"}),
    ],
)
def test_what_bash_offers(script: str, line: str, offered: set[str], tmp_path: Path) -> None:
    (tmp_path / "script").write_text(script)
    (tmp_path / "session.jsonl").write_text("{}")
    done = subprocess.run(
        ["bash", "-c", BASH, "bash", line], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert set(done.stdout.split()) == offered


@pytest.mark.parametrize("script", ["powershell"], indirect=True)
def test_powershell_script_is_balanced(script: str) -> None:
    """No PowerShell runs here: brackets outside of strings must match, and each string must end."""
    expected = []
    quote = ""
    for letter in script.split("\n", 1)[1]:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter in "([{":
            expected.append({"(": ")", "[": "]", "{": "}"}[letter])
        elif letter in ")]}":
            assert expected.pop() == letter
    assert (quote, expected) == ("", [])
