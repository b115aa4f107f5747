"""Runs the conformance kit against an implementation.

    python conformance/run.py [--task NAME] [--json] -- COMMAND [WORD ...]

COMMAND is started once. It gets one question a line on its standard input and writes one answer a
line to its standard output, both JSON objects, until its input ends. Needs Python 3.11 and nothing
else. Exit code 0 if every answer is right, 1 if one is wrong, 2 for wrong usage.
"""

import argparse
import base64
import json
import queue
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SECONDS_PER_ANSWER = 60
SHOWN_CHARACTERS = 200

Case = dict[str, Any]


class Implementation:
    """The program under test. One that ended or does not answer is started again."""

    def __init__(self, command: list[str]) -> None:
        self._command = command
        self._process: subprocess.Popen[str] | None = None
        self._lines: queue.Queue[str] = queue.Queue()

    def ask(self, question: Case) -> Case:
        """Return the answer to a question; with the key `failure` if there is none."""
        process = self._process or self._start()
        try:
            assert process.stdin is not None
            process.stdin.write(json.dumps(question) + "\n")
            process.stdin.flush()
            line = self._lines.get(timeout=SECONDS_PER_ANSWER)
        except queue.Empty:
            self.stop()
            return {"failure": f"no answer within {SECONDS_PER_ANSWER} s"}
        except OSError:
            line = ""
        if not line:
            self.stop()
            return {"failure": "the program ended"}
        return self._read_answer(line, question["id"])

    def _read_answer(self, line: str, id: str) -> Case:
        try:
            answer = json.loads(line)
        except ValueError:
            return {"failure": "the answer is not JSON"}
        if not isinstance(answer, dict) or answer.get("id") != id:
            return {"failure": "the answer is not an object with the id of the question"}
        return answer

    def _start(self) -> subprocess.Popen[str]:
        self._lines = queue.Queue()
        process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
        )
        threading.Thread(target=_pump, args=(process, self._lines), daemon=True).start()
        self._process = process
        return process

    def stop(self) -> None:
        """End the program."""
        if self._process is None:
            return
        self._process.kill()
        self._process.wait()
        self._process = None


def _pump(process: "subprocess.Popen[str]", lines: "queue.Queue[str]") -> None:
    """Pass the program's lines on, and an empty one at its end."""
    assert process.stdout is not None
    for line in process.stdout:
        lines.put(line)
    lines.put("")


def load_cases(folder: Path = HERE) -> list[Case]:
    """Return all cases, each with its task."""
    cases = []
    for path in sorted((folder / "cases").glob("*.json")):
        group = json.loads(path.read_text(encoding="utf-8"))
        cases += [{"task": group["task"], **case} for case in group["cases"]]
    return cases


def build_question(case: Case, folder: Path = HERE) -> Case:
    """Return what an implementation is asked: the input, with files in base64, and no answer."""
    question = {"id": case["id"], "task": case["task"], **case["input"]}
    if "file" in question:
        question["file"] = base64.b64encode((folder / question["file"]).read_bytes()).decode()
    return question


def find_mistake(case: Case, answer: Case) -> str:
    """Return what is wrong with an answer; empty if it is right. Other keys than ours are free."""
    if "failure" in answer:
        return str(answer["failure"])
    for name, expected in case["expect"].items():
        # An implementation need not use our names for rules.
        if name == "checks" and name not in answer:
            continue
        if name not in answer:
            return f"{name} is missing"
        if answer[name] != expected:
            return f"{name}: expected {_show(expected)}, got {_show(answer[name])}"
    return ""


def _show(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "..."


def run_cases(cases: list[Case], command: list[str], folder: Path = HERE) -> list[Case]:
    """Return a result for each case: its id, its task, `passed`, `failed` or `skipped`, and why."""
    implementation = Implementation(command)
    results = []
    for case in cases:
        answer = implementation.ask(build_question(case, folder))
        reason = str(answer["skip"]) if "skip" in answer else find_mistake(case, answer)
        outcome = "failed" if reason else "passed"
        if "skip" in answer:
            outcome = "skipped"
        results.append(
            {"id": case["id"], "task": case["task"], "outcome": outcome, "reason": reason}
        )
    implementation.stop()
    return results


def main(words: list[str]) -> int:
    """Run the kit; return the exit code."""
    own, command = words, []
    if "--" in words:
        cut = words.index("--")
        own, command = words[:cut], words[cut + 1 :]
    parser = argparse.ArgumentParser(
        prog="run.py", usage="%(prog)s [--task NAME] [--json] -- COMMAND [WORD ...]"
    )
    parser.add_argument("--task", help="only the cases of this task")
    parser.add_argument("--json", action="store_true", help="print the result of each case")
    options = parser.parse_args(own)
    if not command:
        parser.error("give the command of the implementation after --")
    cases = [case for case in load_cases() if options.task in (None, case["task"])]
    if not cases:
        parser.error(f"no task is called {options.task}")
    try:
        results = run_cases(cases, command)
    except OSError as error:
        print(f"error: cannot start {command[0]}: {error.strerror}", file=sys.stderr)
        return 2
    if options.json:
        print(json.dumps(results, indent=2))
    else:
        _print_results(results)
    return 1 if any(one["outcome"] == "failed" for one in results) else 0


def _print_results(results: list[Case]) -> None:
    for one in results:
        if one["outcome"] == "failed":
            print(f"failed  {one['task']}: {one['id']}: {one['reason']}")
    counts: dict[str, Counter[str]] = {}
    for one in results:
        counts.setdefault(one["task"], Counter())[one["outcome"]] += 1
    for task, count in counts.items():
        numbers = ", ".join(f"{count[name]} {name}" for name in ("passed", "failed", "skipped"))
        print(f"{task:<13} {numbers}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
