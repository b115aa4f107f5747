"""Markdown of messages as HTML: what is rendered, and that nothing else can be."""

import pytest

from open_token.writers.html.markdown import render_markdown

SAFE = 'rel="noreferrer noopener"'
LONG = "https://a.test/x_y?b=1&amp;c=2"
CASES = [
    ("one\ntwo", "<p>one<br>two</p>"),
    ("# Title #\ntext", "<h3>Title</h3><p>text</p>"),
    ("```py\na < b\n```", '<pre data-lang="py">a &lt; b</pre>'),
    ("```\nnot closed", "<pre>not closed</pre>"),
    ("~~~\n```\n~~~", "<pre>```</pre>"),
    ("- a\n- b\n  - c", "<ul><li>a</li><li><p>b</p><ul><li>c</li></ul></li></ul>"),
    ("1. x\n2. y\n\n- z", "<ol><li>x</li><li>y</li></ol><ul><li>z</li></ul>"),
    ("3. late", '<ol start="3"><li>late</li></ol>'),
    ("> said\n> so", "<blockquote><p>said<br>so</p></blockquote>"),
    (
        "a | b\n--|--\n1 | 2\\|3",
        '<div class="wide"><table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2|3</td></tr></table></div>',
    ),
    ("---", "<hr>"),
    ("`a*b*` **bold _in_** x", "<p><code>a*b*</code> <strong>bold <em>in</em></strong> x</p>"),
    (
        "*slant* ~~no~~ snake_case_name 2*3*4",
        "<p><em>slant</em> <del>no</del> snake_case_name 2*3*4</p>",
    ),
    ("\\*no\\* \\<b\\>", "<p>*no* &lt;b&gt;</p>"),
    ("see https://a.test/x_y?b=1&c=2.", f'<p>see <a href="{LONG}" {SAFE}>{LONG}</a>.</p>'),
    (
        "[the bank](https://evil.test/x)",
        f'<p><a href="https://evil.test/x" {SAFE}>the bank</a> <small>(evil.test)</small></p>',
    ),
    (
        "[the bank](https://evil.test?@good.test)",
        f'<p><a href="https://evil.test?@good.test" {SAFE}>the bank</a> <small>(evil.test)</small></p>',
    ),
    ("[a](javascript:x)", "<p>[a](javascript:x)</p>"),
    ("<b>x</b> &amp;", "<p>&lt;b&gt;x&lt;/b&gt; &amp;amp;</p>"),
    ("", ""),
]


@pytest.mark.parametrize(("text", "html"), CASES)
def test_markdown_becomes_tags_of_a_fixed_list(text: str, html: str) -> None:
    assert render_markdown(text) == html


PIECES = [
    *"* **a ` ``a` [ [a]( ![ _a ~~a \\ | http://".split(),
    "> ",
    "- ",
    "  - a\n",
    "|-|\n",
    "1. ",
    f"a|b\n-|{' ' * 1900}x\n",
]


@pytest.mark.parametrize("piece", PIECES)
def test_walk_is_linear(piece: str) -> None:
    """Were any of these walked over again and again, a hundred thousand of them would not end."""
    count = 100_000 // len(piece)
    assert render_markdown(piece * count) is not None
    assert render_markdown(f"{piece}\n" * min(count, 5_000)) is not None
