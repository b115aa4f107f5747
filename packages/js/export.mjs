// Reads an export: one JSON document, or NDJSON in any of its three shapes.

import { canonicalize, decodeUtf8, isObject, parseStrict, StrictError } from "./json.mjs";

const LINE_TYPES = new Set(["header", "event", "footer"]);
const EVENT_TYPES = new Set([
  "message",
  "tool_use",
  "tool_result",
  "span_start",
  "span_end",
  "annotation",
]);
const HARMLESS_FAULT = "big-integer";

/**
 * Return what an export says.
 *
 * `document` is the same for both forms, or undefined if the bytes are no JSON. `problems` are the
 * reasons why two readers may see something else in these bytes. `isComplete` is false for a stream
 * without a footer, `isRounded` is true if integers lost digits. Of a stream, `shapes` are those of
 * its lines, `corrected` the fields of the conversation and `disputed` the other fields in which the
 * footer differs from the header.
 */
export function readExport(bytes) {
  const result = {
    document: undefined,
    problems: [],
    isComplete: true,
    isRounded: false,
    shapes: new Set(),
    corrected: [],
    disputed: [],
  };
  let text;
  try {
    text = decodeUtf8(bytes);
  } catch (error) {
    result.problems.push(error.message);
    return result;
  }
  if (isStream(text)) readStream(text, result);
  else result.document = parseInto(text, "", result);
  return result;
}

function isStream(text) {
  const trimmed = text.trimStart();
  const [first] = trimmed.split("\n", 1);
  const rest = trimmed.slice(first.length);
  let record;
  try {
    record = JSON.parse(first);
  } catch {
    return first.trimEnd().endsWith("}") && rest.trimStart().startsWith("{");
  }
  return isObject(record) && (LINE_TYPES.has(record.type) || rest.trim() !== "");
}

function parseInto(text, place, result) {
  try {
    const { value, faults } = parseStrict(text);
    for (const fault of faults) {
      if (fault === HARMLESS_FAULT) result.isRounded = true;
      else result.problems.push(place + fault);
    }
    return value;
  } catch (error) {
    if (!(error instanceof StrictError)) throw error;
    result.problems.push(place + error.message);
    return undefined;
  }
}

function readStream(text, result) {
  const events = [];
  const document = Object.create(null);
  let hasHeader = false;
  let hasFooter = false;
  const lines = text.split("\n");
  if (lines[lines.length - 1] === "") lines.pop();
  for (const [index, line] of lines.entries()) {
    const place = `line ${index + 1}: `;
    const record = parseInto(line.replace(/\r+$/, ""), place, result);
    if (record === undefined) continue;
    const kind = isObject(record) ? record.type : undefined;
    if (hasFooter) result.problems.push(`${place}a record follows the footer`);
    if (index === 0 && kind !== "header") result.problems.push(`${place}not a header`);
    if (kind === "header") {
      if (hasHeader) result.problems.push(`${place}a second header`);
      hasHeader = true;
      const { type, ...fields } = record;
      Object.assign(document, fields);
    } else if (kind === "footer") {
      hasFooter = true;
      // What has problems is not to be relied on, and may have no canonical form to compare.
      if (result.problems.length === 0) mergeFooter(document, record, result);
    } else {
      const event = readEvent(record, kind, result);
      if (event === undefined) result.problems.push(`${place}not a record of an export`);
      else events.push(event);
    }
  }
  result.isComplete = hasFooter;
  if ("events" in document) result.problems.push("the header or the footer holds events");
  result.document = Object.assign(document, { events });
}

function readEvent(record, kind, result) {
  if (kind === "event" && !("event_type" in record) && isObject(record.event)) {
    if (Object.keys(record).length > 2) return undefined;
    result.shapes.add("nested");
    return record.event;
  }
  if (kind === "event") {
    result.shapes.add("flat");
    // `type` says that the line is an event; the type of the event itself is `event_type`.
    const { type, event_type: eventType, ...event } = record;
    return "event_type" in record ? { ...event, type: eventType } : event;
  }
  const isBare =
    isObject(record) &&
    (EVENT_TYPES.has(kind) || ["id", "seq", "actor_id"].every((key) => key in record));
  if (!isBare) return undefined;
  result.shapes.add("bare");
  return record;
}

/** Add what a writer knew only at the end; where both know something, the footer wins. */
function mergeFooter(document, footer, result) {
  for (const [name, value] of Object.entries(footer)) {
    const known = document[name];
    if (name === "type") continue;
    if (name === "conversation" && isObject(value) && isObject(known)) {
      const differs = (key) => key in known && canonicalize(known[key]) !== canonicalize(value[key]);
      result.corrected = Object.keys(value).filter(differs);
      document.conversation = { ...known, ...value };
    } else if (name === "participants" && Array.isArray(value) && Array.isArray(known)) {
      const seen = new Set(known.map(canonicalize));
      document.participants = [...known, ...value.filter((one) => !seen.has(canonicalize(one)))];
    } else {
      if (name in document && canonicalize(known) !== canonicalize(value)) {
        result.disputed.push(name);
      }
      document[name] = value;
    }
  }
}
