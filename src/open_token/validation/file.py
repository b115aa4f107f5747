"""OT001 to OT016: the bytes of an export, one JSON document or NDJSON lines.

`integrity.strict_reader` reports these problems while it reads; here are their texts.
"""

from open_token.validation.findings import Check

CHECKS = {
    "OT001": Check(
        "error",
        "The file is UTF-8 without a byte order mark",
        "JSON is exchanged as UTF-8; a byte order mark stops many parsers",
        "save the file as UTF-8 without a byte order mark",
    ),
    "OT002": Check(
        "error",
        "The file is JSON; of a stream, every line is",
        "the output must be machine-parseable, with nothing around it",
        "remove what is not JSON at that place, or export again",
    ),
    "OT003": Check(
        "error",
        "No key stands twice in one object",
        "readers differ in which value they keep, so two of them see different records",
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
        "No string holds half of a surrogate pair",
        "such a string cannot be written as UTF-8 and has no canonical bytes",
        "replace it by U+FFFD",
    ),
    "OT006": Check(
        "error",
        "Containers are nested at most 128 deep",
        "deeper ones crash readers",
        "write the inner part as a string of JSON",
    ),
    "OT007": Check(
        "error",
        "Integers lie within 2^53-1",
        "many readers round larger ones without a word, and the hash does not cover their last digits",
        "write the value as a string of digits and list it in integrity.coercions",
    ),
    "OT008": Check(
        "error",
        "Only JSON types, with strings for keys",
        "a document in memory must mean the same once it is written",
        "turn dates, tuples and other objects into JSON values first",
    ),
    "OT011": Check(
        "error",
        "A stream starts with its header",
        "the header says which version the lines follow",
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
        "without one nobody can tell a whole stream from one that broke off",
        "export again, or wait until the session has ended",
    ),
    "OT016": Check(
        "warning",
        "The header of a stream carries conversation and participants",
        "without them the events have no names and no conversation id",
        "add both to the header line",
    ),
}
