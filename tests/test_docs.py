"""The documentation holds together: links lead somewhere, every page is found, help texts and
examples are real."""

import ast
import doctest
import json
import re
import shutil
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from open_token.cli import dispatch
from open_token.cli.shared.console import Console
from open_token.web.screens import SCREENS

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "open_token"
DOCS = ROOT / "docs"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]
NOON = "1767268800"
GOLDEN = ROOT / "tests" / "golden"

FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
SESSION = re.compile(r"^```pycon\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SCRIPT = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CODE_ROW = re.compile(r"^\| `([a-z][a-z0-9.-]*)` \|", re.MULTILINE)


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def links(page: Path) -> Iterator[tuple[Path, str]]:
    """The pages, files and folders of ours that a page links to, each with the place on it."""
    for target in LINK.findall(FENCE.sub("", text_of(page))):
        if not re.match(r"[a-z]+:", target):
            path, _, place = target.partition("#")
            yield (page.parent / path).resolve() if path else page, place


def anchors(page: Path) -> set[str]:
    """The places on a page, as a browser names them."""
    found = (
        heading.lower().replace("`", "")
        for heading in HEADING.findall(FENCE.sub("", text_of(page)))
    )
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in found}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    wrong = [str(path) for path, _ in links(page) if not path.exists()]
    wrong += [
        f"{path}#{place}"
        for path, place in links(page)
        if place and path.is_file() and place not in anchors(path)
    ]
    assert [link.removeprefix(f"{ROOT}/") for link in wrong] == []


def test_every_page_is_found_from_the_readme() -> None:
    found: set[Path] = set()
    ahead = [ROOT / "README.md"]
    while ahead:
        page = ahead.pop()
        page = page / "README.md" if page.is_dir() else page
        if page.suffix == ".md" and page.is_file() and page not in found:
            found.add(page)
            ahead += [path for path, _ in links(page)]
    assert sorted(name_of(page) for page in set(PAGES) - found) == []


@pytest.mark.parametrize("verb", dispatch.VERBS)
def test_the_help_of_every_verb_is_shown_as_it_is(verb: str) -> None:
    help_text = dispatch.render_verb_help(verb, dispatch.load_verb(verb), Console())
    page = text_of(DOCS / "reference" / "cli.md")
    assert f"\n## {verb}\n" in page
    assert f"$ open-token {verb} --help\n{help_text}\n```\n" in page


def test_the_help_of_the_command_is_shown_as_it_is() -> None:
    help_text = dispatch.render_main_help(Console())
    assert f"$ open-token --help\n{help_text}\n" in text_of(DOCS / "reference" / "cli.md")


@pytest.fixture
def examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known_key: bytes) -> Path:
    """A copy of examples/ where examples of Python run; the clock stands still."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.setenv("SOURCE_DATE_EPOCH", NOON)
    return tmp_path / "examples"


@pytest.mark.parametrize(
    "page", [page for page in PAGES if SESSION.search(text_of(page))], ids=name_of
)
def test_sessions_of_python_show_what_python_shows(
    page: Path, examples: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(examples)
    session = "\n".join(SESSION.findall(text_of(page)))
    test = doctest.DocTestParser().get_doctest(session, {}, page.name, name_of(page), 0)
    result: list[str] = []
    doctest.DocTestRunner(verbose=False).run(test, out=result.append)
    if result:
        pytest.fail("".join(result), pytrace=False)


@pytest.mark.parametrize(
    "page", [page for page in PAGES if SCRIPT.search(text_of(page))], ids=name_of
)
def test_scripts_of_python_run(page: Path, examples: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the README run in the checkout, all others in examples/, as the pages say."""
    monkeypatch.chdir(examples.parent if page.name == "README.md" else examples)
    for script in SCRIPT.findall(text_of(page)):
        exec(compile(script, name_of(page), "exec"), {})


def error_codes() -> set[str]:
    """The codes that errors have: of the classes, and those given where an error is raised."""
    found: set[str] = set()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            given = isinstance(node, ast.keyword) and node.arg == "code"
            owned = (
                path.name == "errors.py"
                and isinstance(node, ast.Assign)
                and ast.unparse(node.targets[0]) == "code"
            )
            if (
                (given or owned)
                and isinstance(node.value, ast.Constant)
                and isinstance(node.value.value, str)
            ):
                found.add(node.value.value)
    return found


def test_the_page_of_errors_has_every_code() -> None:
    page = text_of(DOCS / "reference" / "errors.md")
    assert set(CODE_ROW.findall(page)) == error_codes()


def test_the_library_page_has_every_name() -> None:
    names = import_module("open_token").__all__
    page = text_of(DOCS / "reference" / "library.md")
    assert [name for name in names if f"`{name}" not in page] == []


def kinds() -> set[str]:
    """Return the kinds of annotations and spans that the code writes as literals.

    Dicts with an actor_id are participants, whose kinds are a separate list.
    """
    found: set[str] = set()
    paths = [
        path
        for package in ("agents", "builder", "formats", "passes", "redaction")
        for path in SOURCE.glob(f"{package}/**/*.py")
        if path.name != "handoff.py"  # writes files of the agent, not events
    ]
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Dict):
                pairs = {
                    ast.unparse(key): value
                    for key, value in zip(node.keys, node.values, strict=True)
                    if key
                }
                kind = pairs.get("'kind'")
                if "'actor_id'" not in pairs and isinstance(kind, ast.Constant):
                    found.add(str(kind.value))
    return found


def test_the_page_of_the_format_has_every_kind() -> None:
    page = text_of(DOCS / "reference" / "format.md")
    known = kinds()
    assert len(known) > 10
    assert sorted(kind for kind in known if f"`{kind}`" not in page) == []


def span_kinds() -> set[str]:
    """The kinds of the spans in all golden exports."""
    found: set[str] = set()
    for path in GOLDEN.glob("*/*/expected.json"):
        if path.parents[1].name != "open_token":  # its spans are those of whoever made the document
            events = json.loads(path.read_bytes())["events"]
            found |= {
                event["content"]["data"]["kind"]
                for event in events
                if event["type"] == "span_start"
            }
    return found


def test_the_page_of_the_format_has_the_kinds_of_spans_that_there_are() -> None:
    _, _, table = text_of(DOCS / "reference" / "format.md").partition("| kind of span |")
    result = re.findall(r"^\| `(\w+)` \|", table.partition("\n\n")[0], re.MULTILINE)
    assert sorted(result) == sorted(span_kinds())


def test_pictures_are_small() -> None:
    """A page with several of them must still load at once."""
    sizes = {path.name: path.stat().st_size for path in (ROOT / "docs" / "images").glob("*.png")}
    assert sizes
    assert {name: size for name, size in sizes.items() if size >= 150_000} == {}


def test_every_screen_of_the_web_application_has_its_section_with_a_picture() -> None:
    sections = text_of(DOCS / "how-to" / "web.md").split("\n## ")
    pictures = {}
    for section in sections[1:]:
        title, _, text = section.partition("\n")
        pictures[title] = "../images/" in text
    expected = {"Read": True} | {screen.title: True for screen in SCREENS}
    assert {title: pictures.get(title, False) for title in expected} == expected
