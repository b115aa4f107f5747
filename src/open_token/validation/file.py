"""OT001 to OT016: the bytes of an export, one JSON document or NDJSON lines.

`integrity.strict_reader` reports these problems while it reads; here are their texts.
"""

from open_token.validation.findings import Check

CHECKS = {
    "OT001": Check(
        "error",
        "The file is UTF-8 without a byte order mark",
        "JSON is exchanged as UTF-8; many parsers fail on a byte order mark",
        "save the file as UTF-8 without a byte order mark",
    ),
    "OT002": Check(
        "error",
        "The file is valid JSON; for a stream, every line is",
        "the output must be machine-readable, with no text around it",
        "remove what is not JSON at that position, or export again",
    ),
    "OT003": Check(
        "error",
        "No object has a duplicate key",
        "parsers differ in which value they use, so they read different records",
        "keep one of the values",
    ),
    "OT004": Check(
        "error",
        "Every number is a finite 64-bit float",
        "NaN and Infinity are not JSON, and larger numbers become Infinity",
        "write the value as a string",
    ),
    "OT005": Check(
        "error",
        "No string contains a lone surrogate",
        "such a string cannot be encoded as UTF-8 and has no canonical bytes",
        "replace it by U+FFFD",
    ),
    "OT006": Check(
        "error",
        "Containers are nested at most 128 levels deep",
        "deeper nesting crashes parsers",
        "write the inner part as a JSON string",
    ),
    "OT007": Check(
        "error",
        "Integers are within 2^53-1",
        "many parsers round larger ones silently, and the hash does not cover their last digits",
        "write the value as a string of digits and list it in integrity.coercions",
    ),
    "OT008": Check(
        "error",
        "Values have JSON types, and keys are strings",
        "a document in memory must be the same after it is written",
        "convert dates, tuples and other objects to JSON values first",
    ),
    "OT011": Check(
        "error",
        "A stream starts with its header",
        "the header states the version of the lines",
        "put a header line first",
    ),
    "OT012": Check(
        "error",
        "A stream has one header",
        "two headers mean two exports in one file",
        "split the file",
    ),
    "OT013": Check(
        "error",
        "Every line is a header, an event or a footer",
        "other records have no meaning in an export",
        "remove the line",
    ),
    "OT014": Check(
        "error",
        "The footer is the last line",
        "what follows it is not covered by the hash",
        "remove the lines after the footer, or split the file",
    ),
    "OT015": Check(
        "warning",
        "A stream ends with a footer",
        "without a footer a complete stream cannot be distinguished from an incomplete one",
        "export again, or wait until the session ends",
    ),
    "OT016": Check(
        "warning",
        "The header of a stream contains conversation and participants",
        "without them the events have no actors and no conversation id",
        "add both to the header line",
    ),
}
