"""Recorded HTTP: VCR cassettes and HAR files, for the model calls in them."""

from open_token.formats.definition import Format

FORMAT = Format(
    name="http_recording",
    title="HTTP recordings (VCR cassettes, HAR)",
    checked=(
        "vcrpy and pydantic-ai cassettes of six dialects; from descriptions only: go-vcr, "
        "Ruby's VCR, Betamax, Polly and HAR"
    ),
    includes="every model call in the dialects of OpenAI, Anthropic, Gemini, Amazon Bedrock and Cohere, streamed or not, joined to conversations",
    omits="other traffic (a note counts it), headers, and bodies in compressions other than gzip and deflate",
    holds_several=True,
    signatures=(b"interactions", b'"log"'),
    block_separator="^- (?=\\w)|^    - (?=id: \\d+$)",
    technical_fields=("headers", "uri", "tools", "set-cookie"),
)
