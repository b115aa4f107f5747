"""A page looked at as a strict reader would: every tag and attribute of our own list, nothing asked
of anybody."""

import base64
import hashlib
import io
import json
import re
from html.parser import HTMLParser
from importlib import import_module
from typing import Any

from helpers.handoff_conversation import (
    build_annotation,
    build_call,
    build_document,
    build_message,
    build_result,
)
from open_token.context import Context
from open_token.options import ExportOptions
from open_token.pipeline import Receipt, export
from open_token.sources.source import Source

VOID = {"meta", "br", "hr", "img", "input", "rect", "polygon"}
TAGS = VOID | set(
    "thead tbody html head title style body a div header h1 h2 h3 h4 h5 h6 p span b i details summary table tr td th code ul ol li "
    "nav small main section pre ins del dl dt dd mark strong em blockquote figure figcaption button svg script dialog "
    "form footer".split()
)
ATTRIBUTES = set(
    "id class href rel dir lang charset http-equiv content name type title start src alt role aria-label aria-live "
    "aria-pressed aria-hidden tabindex scope data-do data-jump data-lang placeholder method viewbox preserveaspectratio x y width height points".split()
)
HOSTILE = (
    "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", '"><svg onload=alert(1)>', "' onclick='alert(1)",
    "[x](javascript:alert(1))", "![x](https://evil.test/a.png)", "[a](https://ok.test/\" onmouseover=alert(1))",
    "</template></details></main><base href=//evil.test>", "]]><!-- -->", "\u202eevil\u2066", "\x1b]52;c;aGk=\x07",
    "\x00\x01\x9b31m", "\ud800 lone", "```\n</pre><b>x</b>\n```", "| a | b |\n|---|---|\n| <b> | `a | <img src=x>` |",
    "&lt;b&gt; &amp;", "javascript:alert(1)", "https://ok.test/?a=1&b=2'", "[REDACTED:<b>:12345678]", "**<u>**",
    "{inside} {0} %s", "data:text/html,<script>1</script>", "`</code><b>`", "> <b>q\n- <i>l\n1. <u>o", "<style>*{}",
)  # fmt: skip


def build_page(document: Any, to: str = "html", **options: Any) -> tuple[str, Receipt]:
    """The page of a document, and what the pipeline said of it."""
    raw = document if isinstance(document, bytes) else json.dumps(document).encode()
    out = io.BytesIO()
    words = {"redact": "none", "include": "include-internal", "internal": "full", **options}
    context = Context(ExportOptions.of(words), now="2026-03-01T10:00:00Z", key=bytes(range(32)))
    receipt = export(Source("<bytes>", data=raw), out, context, to=to)
    assert receipt.bytes == len(out.getvalue())
    return out.getvalue().decode("utf-8"), receipt


class PageParser(HTMLParser):
    """Keeps what a browser would make of a page, and refuses what is not ours."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.words: list[str] = []
        self.raw: dict[str, list[str]] = {"script": [], "style": []}
        self.policy = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in TAGS, tag
        for name, value in attrs:
            assert name in ATTRIBUTES, (tag, name)
            self._attribute(tag, name, value or "")
        if tag == "meta" and dict(attrs).get("http-equiv"):
            self.policy = dict(attrs)["content"] or ""
        if tag not in VOID:
            self.open.append(tag)

    def _attribute(self, tag: str, name: str, value: str) -> None:
        if name == "id":
            self.ids.append(value)
        if name == "href":
            assert value.startswith(("#", "http://", "https://")), value
            self.links.append(value)
        if name == "src":
            assert re.match(r"data:image/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/]*=*$", value), (
                value[:60]
            )

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in self.raw:
            self.raw[self.open[-1]].append(data)
        else:
            self.words.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError("a comment")


def check_page(page: str) -> PageParser:
    """Read a page strictly."""
    reader = PageParser()
    reader.feed(page)
    reader.close()
    assert reader.open == []
    assert len(set(reader.ids)) == len(reader.ids)
    assert {link[1:] for link in reader.links if link.startswith("#")} <= {*reader.ids}
    # The last script is data: the browser does not run it.
    page, _, data = page.partition('<script type="application/json" id="ot-integrity">')
    if data:
        seal = json.loads(data.removesuffix("</script></body></html>\n"))
        assert seal["page_hash"] == hashlib.sha256(page.encode()).hexdigest()
        reader.raw["script"] = reader.raw["script"][:1]
    result = {kind: "".join(parts) for kind, parts in reader.raw.items()}
    for kind, text in result.items():
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in reader.policy
    assert reader.policy.startswith("default-src 'none'; script-src 'sha256-")
    assert reader.policy.endswith("; base-uri 'none'; form-action 'none'; img-src data:")
    assert page.count("<script") == page.count("<style") == 1
    # Nothing that a terminal, an editor or a reader of text would obey.
    assert not re.search(
        "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]", page
    )
    return reader


def build_document_with_text(text: str) -> dict[str, Any]:
    """A document that has a text in every place that untrusted input can fill."""
    key = text[:40] or "k"
    events = [
        build_message("user", text),
        build_message("assistant", f"{text}\n\n{text} after"),
        {**build_message("assistant_thought", text), "visibility": "internal"},
        build_message("system", text),
        build_call(1, text or "t", **{key: text, "list": [text, {key: text}]}),
        build_result(1, text),
        build_annotation(6, kind="result_facts", status=text, is_error=True),
        build_call(2, "Bash", command=text, description=text),
        build_result(2, f"\x1b[31m{text}\x1b[0m"),
        build_call(
            3, "Edit", file_path=text, old_string=f"a\n{text}\nc", new_string=f"a\n{text} b\nc"
        ),
        build_result(3, text),
        build_call(4, "Write", file_path=text, content=text),
        build_result(4, text),
        build_call(
            5,
            "TodoWrite",
            todos=[{"content": text, "status": text}, {"content": text, "status": "in_progress"}],
        ),
        build_result(5, text),
        build_call(6, "Task", description=text, prompt=text, subagent_type=text),
        span("span_start", 1, 6, kind=text, spawn_reason=text),
        {**build_message("user", text), "links": {"span_id": "span_000001"}},
        span("span_end", 1, 6),
        build_result(6, text),
        build_call(
            7, "AskUserQuestion", questions=[{"question": text, "options": [{"label": text}, text]}]
        ),
        build_result(7, text),
        build_call(8, "WebSearch", query=text),
        block(
            8,
            [
                {"title": text, "url": text, "snippet": text},
                {"title": text, "url": "https://ok.test/" + key},
            ],
        ),
        build_call(
            9,
            "apply_patch",
            input=f"*** Begin Patch\n*** Update File: {text}\n@@ {text}\n-{text}\n+{text}",
        ),
        block(
            9,
            [
                {"media_type": text, "base64": text},
                {"media_type": "image/png", "base64": text, "bytes": 3},
            ],
        ),
        build_call(10, "Read", file_path=text),
        build_annotation(1, kind=text, text=text, **{key: [text]}),
        build_annotation(1, kind="dropped", events=3, detail=text),
    ]
    return dict(build_document(*events, title=text, id=f"c{text}"))


def span(event_type: str, number: int, call: int, **data: Any) -> dict[str, Any]:
    links = {"span_id": f"span_{number:06d}", "call_id": f"call_{call:06d}"}
    return {
        "type": event_type,
        "content": {"mime": "application/json", "data": data},
        "links": links,
    }


def block(number: int, data: list[Any]) -> dict[str, Any]:
    return {**build_result(number, ""), "content": {"mime": "application/json", "data": data}}


def render_markdown(text: str) -> list[str]:
    """What a parser of GitHub's dialect finds: tags of content, pictures, and where links go."""
    found: list[str] = []
    markdown_it: Any = import_module("markdown_it")
    parser = markdown_it.MarkdownIt("commonmark", {"html": True}).enable("table")
    tokens = parser.parse(text)
    for token in tokens + [child for one in tokens for child in one.children or []]:
        if token.type in ("html_block", "html_inline", "image"):
            found.append(f"{token.type} {token.content}")
        if token.type == "link_open":
            href = str(token.attrs["href"])
            found += [] if href.startswith(("http://", "https://")) else [href]
    return found
