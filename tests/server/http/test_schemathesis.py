"""An independent tool reads the OpenAPI document and tries the running server: no 500, nothing that
is not documented."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

CHECKS = "not_a_server_error,response_schema_conformance,status_code_conformance,content_type_conformance"
TIMEOUT = 900


@pytest.mark.full
def test_schemathesis_finds_nothing(tmp_path: Path, tool: Callable[[str], str]) -> None:
    program = tool("schemathesis")
    command = [
        sys.executable,
        "-m",
        "open_token",
        "serve",
        "--data",
        str(tmp_path / "data"),
        "--port",
        "0",
        "--json",
    ]
    env = {
        **os.environ,
        "OPEN_TOKEN_SERVER_LIMITS_REQUESTS_PER_MINUTE": "10000000",
        "OPEN_TOKEN_SERVER_LOG": "off",
    }
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as server:
        try:
            assert server.stdout is not None
            result = json.loads(server.stdout.readline())
            words = [
                program,
                "run",
                f"{result['address']}/openapi.json",
                "-H",
                f"Authorization: Bearer {result['key']}",
            ]
            words += [
                "--checks",
                CHECKS,
                "-n",
                "20",
                "--seed",
                "41",
                "--no-color",
                "--exclude-path-regex",
                "/events$",
            ]
            done = subprocess.run(
                words, cwd=tmp_path, capture_output=True, text=True, timeout=TIMEOUT, check=False
            )
        finally:
            server.terminate()
    assert done.returncode == 0, done.stdout[-6000:]
