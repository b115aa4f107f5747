// Redaction markers, and texts that were truncated.

import { concat, encodeUtf8, hmac, toHex } from "./bytes.mjs";

const HEAD = 1024;
const TAIL = 256;
const GAP = "…";
const MAX_MARKER = 96;
const MARKER = /\[REDACTED:([A-Za-z0-9_.-]+):([0-9a-f]{8})\]/g;
const NUMBERED_TYPES = new Set(["card", "iban", "national_id"]);

/** Return the markers of a text in order, with the texts between them in `rest`. */
export function findMarkers(text) {
  const markers = [];
  const rest = [];
  let end = 0;
  for (const found of text.matchAll(MARKER)) {
    markers.push({ type: found[1], hash8: found[2] });
    rest.push(text.slice(end, found.index));
    end = found.index + found[0].length;
  }
  rest.push(text.slice(end));
  return { markers, rest };
}

/**
 * Return the marker of a value. The scope is the id of the conversation for `strategy=mask`, and
 * empty for `strategy=hash`. A phone number must be given in its international form.
 */
export async function buildMarker(key, scope, type, value) {
  // HKDF-SHA-256 (RFC 5869) without salt, one block.
  const extracted = await hmac(new Uint8Array(32), key);
  const info = encodeUtf8(`open-token/redact/v1|${scope}`);
  const derived = await hmac(extracted, concat(info, Uint8Array.of(1)));
  const hash = await hmac(derived, encodeUtf8(normalize(type, value)));
  return `[REDACTED:${type}:${toHex(hash).slice(0, 8)}]`;
}

function normalize(type, value) {
  if (type === "email") return value.toLowerCase();
  if (NUMBERED_TYPES.has(type) || type.endsWith("ssn")) {
    return value.replace(/[^\p{L}\p{N}]/gu, "").toUpperCase();
  }
  return value;
}

/**
 * Return a text of more than 1,281 characters with only its start and its end. Characters are code
 * points, and a redaction marker is never cut.
 */
export function truncateText(text) {
  const characters = Array.from(text);
  if (characters.length <= HEAD + 1 + TAIL) return text;
  const headEnd = findMarkerAt(characters, HEAD).end;
  const tailStart = findMarkerAt(characters, characters.length - TAIL).start;
  if (headEnd + 1 >= tailStart) return text;
  return characters.slice(0, headEnd).join("") + GAP + characters.slice(tailStart).join("");
}

/** The span of the marker that a cut would break; without one, the position itself. */
function findMarkerAt(characters, position) {
  const first = Math.max(0, position - MAX_MARKER);
  const around = characters.slice(first, position + MAX_MARKER).join("");
  for (const found of around.matchAll(MARKER)) {
    const start = first + Array.from(around.slice(0, found.index)).length;
    const end = start + found[0].length;
    if (start < position && position < end) return { start, end };
  }
  return { start: position, end: position };
}
