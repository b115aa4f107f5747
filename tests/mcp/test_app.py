"""The MCP App in a browser, inside a host that follows the specification of MCP Apps."""

import json
import queue
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from helpers.hook_calls import SESSIONS, write_sessions
from open_token.mcp.pages import APP_URI
from open_token.mcp.tools import Toolbox

# The policy of a host for an app that names no domain, from the specification.
POLICY = (
    "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; media-src 'self' data:; connect-src 'none'; frame-src 'none'"
)
CHROMIUM = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --enable-logging=stderr"
).split()

HOST = """<!doctype html><title>host</title><body><script>
const answers = ANSWERS, app = APP, result = RESULT;
const log = [];
const note = (text) => log.push(text);
const frame = document.createElement("iframe");
frame.setAttribute("sandbox", "allow-scripts");
frame.srcdoc = app;
document.body.append(frame);
const send = (message) => frame.contentWindow.postMessage({ jsonrpc: "2.0", ...message }, "*");
addEventListener("message", ({ data, source }) => {
  if (source !== frame.contentWindow) return note("a message from elsewhere");
  note(data.method || `answer ${data.id}`);
  if (data.method === "ui/initialize") {
    send({ id: data.id, result: { protocolVersion: "2026-01-26", hostCapabilities: {}, hostInfo: {}, hostContext: {} } });
  } else if (data.method === "ui/notifications/initialized") {
    send({ method: "ui/notifications/tool-input", params: { arguments: {} } });
    send({ method: "ui/notifications/tool-result", params: result });
  } else if (data.method === "resources/read") {
    send({ id: data.id, result: { contents: [{ uri: data.params.uri, text: answers[data.params.uri] }] } });
  } else if (data.method === "ui/notifications/size-changed") {
    send({ id: 77, method: "ui/resource-teardown", params: {} });
  } else if (data.id === 77) {
    // A moment for a page that should be silent.
    setTimeout(() => fetch(REPORT, { method: "POST", mode: "no-cors", body: JSON.stringify(log) }), 1000);
  }
});
</script>"""
PROBE = "<script>parent.parent.postMessage('the page ran a script of its own', '*')</script>"


@contextmanager
def listen_once() -> Iterator[tuple[str, queue.Queue[bytes]]]:
    """Yield the address of a server on loopback, and what is posted to it."""
    posted: queue.Queue[bytes] = queue.Queue()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            posted.put(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/", posted
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.full
def test_app_shows_the_page_in_a_browser(tmp_path: Path) -> None:
    browser = shutil.which("chromium")
    if browser is None:
        pytest.skip("chromium is not on this machine")
    write_sessions(tmp_path)
    tools = Toolbox(tmp_path / "exports", {}, tmp_path, tmp_path)
    shown = tools.call("show_conversation", {"session": SESSIONS["codex"].id})
    app = tools.read_resource(APP_URI)
    assert shown is not None
    assert app is not None
    page = tools.read_resource(shown["page"])
    assert page is not None
    # The page says that it is there by the only way out that a frame has; its policy must not let
    # it: a message would mean that recorded text can run as a script.
    tampered = page["text"].replace("</header>", f"</header>{PROBE}")
    policy = f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
    with listen_once() as (url, reports):
        values = {
            "ANSWERS": {shown["page"]: tampered},
            "APP": app["text"].replace("<head>", f"<head>{policy}"),
            "RESULT": {"content": [], "structuredContent": shown},
            "REPORT": url,
        }
        host = re.sub(
            r"\b(" + "|".join(values) + r")\b",
            lambda name: json.dumps(values[name[0]]).replace("</", "<\\/"),
            HOST,
        )
        file = tmp_path / "host.html"
        file.write_text(host, encoding="utf-8")
        words = [browser, *CHROMIUM, f"--user-data-dir={tmp_path / 'profile'}", file.as_uri()]
        with (tmp_path / "log").open("wb") as errors:
            running = subprocess.Popen(words, stdout=errors, stderr=errors)
            try:
                log = json.loads(reports.get(timeout=60))
            finally:
                running.terminate()
                running.wait()
    assert log == [
        "ui/initialize",
        "ui/notifications/initialized",
        "resources/read",
        "ui/notifications/size-changed",
        "answer 77",
    ]
    refused = (tmp_path / "log").read_text()
    # The script that was planted was refused, and nothing else.
    assert refused.count("CONSOLE") == 1, refused[-2000:]
    assert "inline script violates" in refused
