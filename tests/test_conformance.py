"""The conformance kit is what its script makes, and our implementations pass it."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from make_conformance import build_kit
from make_schemastore import NEGATIVE, POSITIVE, build_entry, build_files, build_schema

ROOT = Path(__file__).resolve().parent.parent
KIT = ROOT / "conformance"
JAVASCRIPT = ROOT / "packages" / "js"
SCHEMASTORE = ROOT / "packages" / "schemastore"
CHECKER = ROOT / ".venv.release" / "bin" / "check-jsonschema"

needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="Node is not installed")
Golden = Callable[[Path, str | bytes], None]


def compare(folder: Path, files: dict[str, bytes], golden: Golden, kept: set[str]) -> None:
    """The folder holds these files, and no others but those that are kept by hand."""
    for name, raw in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        golden(folder / name, raw)
    there = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert {name for name in there - files.keys() - kept if "__pycache__" not in name} == set()


def run_kit(*words: str) -> tuple[int, list[dict[str, Any]]]:
    command = [sys.executable, str(KIT / "run.py"), "--json", "--", *words]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode in (0, 1), done.stderr
    results: list[dict[str, Any]] = json.loads(done.stdout)
    return done.returncode, results


def test_the_kit_is_what_the_script_makes(golden: Golden) -> None:
    compare(KIT, build_kit(), golden, {"README.md", "run.py", "python_adapter.py"})


def test_the_library_passes() -> None:
    code, results = run_kit(sys.executable, str(KIT / "python_adapter.py"))
    assert [one for one in results if one["outcome"] != "passed"] == []
    assert code == 0
    assert len(results) > 200


@pytest.mark.full
@needs_node
def test_the_javascript_package_passes() -> None:
    code, results = run_kit("node", str(JAVASCRIPT / "conformance.mjs"))
    assert [one for one in results if one["outcome"] == "failed"] == []
    assert code == 0
    # It reads and verifies; the rules of the format are not its business.
    assert {one["task"] for one in results if one["outcome"] == "skipped"} == {"validate"}


def answer_with(folder: Path, body: str) -> list[str]:
    """A program that answers each question by an expression over `q` and `n`, its number."""
    lines = [
        "import json, sys, time, os",
        "for n, line in enumerate(sys.stdin):",
        "    q = json.loads(line)",
        f"    {body}",
    ]
    program = folder / "program.py"
    program.write_text("\n".join(lines))
    return [sys.executable, str(program)]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("print(json.dumps({'id': q['id']}), flush=True)", "is missing"),
        ("print(json.dumps({'id': q['id'], 'text': 'x'}), flush=True)", "text: expected"),
        ("print('x', flush=True)", "the answer is not JSON"),
        ("print('[]', flush=True)", "not an object with the id"),
        ("os._exit(1)", "the program ended"),
    ],
)
def test_wrong_answers_fail(tmp_path: Path, body: str, reason: str) -> None:
    command = [sys.executable, str(KIT / "run.py"), "--task", "truncate", "--"]
    done = subprocess.run(
        [*command, *answer_with(tmp_path, body)], capture_output=True, text=True, cwd=ROOT
    )
    assert done.returncode == 1
    failed = [line for line in done.stdout.splitlines() if line.startswith("failed")]
    assert len(failed) == len(json.loads(build_kit()["cases/truncate.json"])["cases"])
    assert all(reason in line for line in failed)


def test_questions_do_not_hold_the_answers(tmp_path: Path) -> None:
    body = "print(json.dumps({'id': q['id'], 'skip': ' '.join(sorted(q))}), flush=True)"
    _, results = run_kit(*answer_with(tmp_path, body))
    assert {one["outcome"] for one in results} == {"skipped"}
    seen = {word for one in results for word in one["reason"].split()}
    assert seen == {"id", "task", "file", "text", "key", "scope", "type", "value", "conversation", "events"}  # fmt: skip


@pytest.mark.parametrize("words", [[], ["--task", "none", "--", "true"], ["--", "no-such-program"]])
def test_wrong_usage_of_the_runner(words: list[str]) -> None:
    done = subprocess.run([sys.executable, KIT / "run.py", *words], capture_output=True, text=True)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


@pytest.mark.full
@needs_node
def test_the_command_of_the_javascript_package(tmp_path: Path) -> None:
    command = ["node", str(JAVASCRIPT / "command.mjs")]
    fixtures = KIT / "fixtures" / "verify"
    names = {"pretty.json": 0, "changed-text.json": 1, "no-integrity.json": 3}
    for name, code in names.items():
        done = subprocess.run([*command, fixtures / name], capture_output=True, text=True)
        assert done.returncode == code
        assert json.loads(done.stdout)["file"].endswith(name)
    assert subprocess.run(command, capture_output=True).returncode == 2
    missing = subprocess.run([*command, tmp_path / "none"], capture_output=True, text=True)
    assert missing.returncode == 2
    assert missing.stderr.startswith("error: cannot read")


def test_the_javascript_package_has_no_dependencies() -> None:
    manifest = json.loads((JAVASCRIPT / "package.json").read_bytes())
    assert not [key for key in manifest if key.lower().endswith("dependencies")]
    for path in JAVASCRIPT.glob("*.mjs"):
        lines = path.read_text(encoding="utf-8").splitlines()
        origins = {line.split(' from "')[1].rstrip('";') for line in lines if ' from "' in line}
        outside = {name for name in origins if not name.startswith("./")}
        # The library itself runs in a browser; only the two commands need Node.
        allowed = (
            {"node:readline", "node:fs/promises"}
            if path.stem in ("command", "conformance")
            else set()
        )
        assert outside <= allowed, path.name


@pytest.mark.full
@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")
def test_npm_packs_the_modules_and_nothing_else(tmp_path: Path) -> None:
    command = ["npm", "pack", "--dry-run", "--json", "--offline", str(JAVASCRIPT)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    packed = {one["path"] for one in json.loads(done.stdout)[0]["files"]}
    modules = {path.name for path in JAVASCRIPT.glob("*.mjs")}
    assert packed == modules | {"package.json", "README.md"}


def test_schemastore_files_are_what_the_script_makes(golden: Golden) -> None:
    compare(SCHEMASTORE, build_files(), golden, {"README.md"})


def test_schemastore_accepts_what_is_right_and_refuses_what_is_wrong() -> None:
    schema = build_schema()
    jsonschema.Draft7Validator.check_schema(schema)
    validator = jsonschema.Draft7Validator(schema)
    files = build_files()
    names = {True: POSITIVE, False: NEGATIVE}
    for is_valid, cases in names.items():
        folder = "test" if is_valid else "negative_test"
        for name in cases:
            document = json.loads(files[f"src/{folder}/open-token/{name}.json"])
            assert validator.is_valid(document) == is_valid, name


def list_references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if "$ref" in value:
            # Draft 7 ignores everything beside a reference.
            assert value.keys() == {"$ref"}
            yield value["$ref"]
        for item in value.values():
            yield from list_references(item)
    elif isinstance(value, list):
        for item in value:
            yield from list_references(item)


def test_schemastore_entry_and_schema_follow_its_rules() -> None:
    schema = build_schema()
    entry = build_entry()
    assert schema["$schema"] == "http://json-schema.org/draft-07/schema#"
    assert schema["$id"].rpartition("/")[2] == entry["url"].rpartition("/")[2]
    references = list(list_references(schema))
    assert references
    assert all(one.startswith("#/definitions/") for one in references)
    assert entry.keys() == {"name", "description", "fileMatch", "url"}
    assert not entry["description"].endswith(".")
    # Distinctive, so that no other project's files match.
    assert entry["fileMatch"] == ["*.ot.json"]


@pytest.mark.full
@pytest.mark.skipif(not CHECKER.exists(), reason="check-jsonschema: scripts/release.sh")
def test_check_jsonschema_accepts_the_schema_and_its_examples() -> None:
    schema = SCHEMASTORE / "src" / "schemas" / "json" / "open-token.json"
    folders = {"test": 0, "negative_test": 1}
    commands = [([CHECKER, "--check-metaschema", schema], 0)]
    for folder, code in folders.items():
        for path in sorted((SCHEMASTORE / "src" / folder / "open-token").glob("*.json")):
            commands.append(([CHECKER, "--schemafile", schema, path], code))
    for command, code in commands:
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == code, done.stdout + done.stderr


@pytest.mark.full
@needs_node
@pytest.mark.skipif(
    not (ROOT / ".node.full/node_modules/ajv").exists(), reason="ajv: scripts/full.sh"
)
def test_ajv_in_strict_mode_accepts_the_schema_and_its_examples() -> None:
    """SchemaStore compiles every schema in this mode and runs it on its examples."""
    code = """
    const { default: Ajv } = await import(process.argv[1]);
    const { readdirSync, readFileSync } = await import("node:fs");
    const load = (path) => JSON.parse(readFileSync(path));
    const root = process.argv[2];
    const validate = new Ajv({ strict: true }).compile(load(`${root}/schemas/json/open-token.json`));
    let count = 0;
    for (const [folder, expected] of [["test", true], ["negative_test", false]]) {
      for (const name of readdirSync(`${root}/${folder}/open-token`)) {
        if (validate(load(`${root}/${folder}/open-token/${name}`)) !== expected) throw name;
        count += 1;
      }
    }
    console.log(count);
    """
    ajv = ROOT / ".node.full" / "node_modules" / "ajv" / "dist" / "ajv.js"
    command = ["node", "--input-type=module", "-e", code, str(ajv), str(SCHEMASTORE / "src")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == len(POSITIVE) + len(NEGATIVE)
