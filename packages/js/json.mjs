// Strict JSON: what two parsers may read differently is reported, and RFC 8785 is written.

const MAX_DEPTH = 128;
const PARSER_DEPTH_LIMIT = 1024;
const NUMBER = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y;
const WORD = /true|false|null|NaN|-?Infinity/y;
const WORDS = new Map([["true", true], ["false", false], ["null", null]]);
const LONE_SURROGATE = /\p{Surrogate}/u;

/** The bytes are not JSON. The message has a position and never the text. */
export class StrictError extends Error {}

/**
 * Return the value and its faults: `bom`, `duplicate-key`, `not-a-number`, `number-range`,
 * `lone-surrogate`, `too-deep`, `big-integer`. Objects have no prototype, so no key is special.
 * @throws {StrictError} if the text is not JSON
 */
export function parseStrict(text) {
  const faults = new Set();
  if (text.startsWith("\ufeff")) {
    faults.add("bom");
    text = text.slice(1);
  }
  return { value: new Parser(text, faults).parse(), faults };
}

/** Return the text of UTF-8 bytes. @throws {StrictError} if they are none */
export function decodeUtf8(bytes) {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw new StrictError("invalid UTF-8");
  }
}

// Without recursion, so that deep input cannot exhaust the stack.
class Parser {
  constructor(text, faults) {
    this.text = text;
    this.faults = faults;
    this.position = 0;
    this.open = [];
  }

  parse() {
    const root = this.parseValue();
    while (this.open.length > 0) this.parseMember();
    this.skipSpace();
    if (this.position < this.text.length) throw this.error("text after the document");
    return root;
  }

  skipSpace() {
    for (;;) {
      const code = this.text.charCodeAt(this.position);
      if (code !== 0x20 && code !== 0x0a && code !== 0x0d && code !== 0x09) return;
      this.position += 1;
    }
  }

  peek() {
    this.skipSpace();
    return this.text[this.position];
  }

  /** A scalar, or a container that parseMember fills later. */
  parseValue() {
    const next = this.peek();
    if (next === "{") return this.openContainer(Object.create(null));
    if (next === "[") return this.openContainer([]);
    if (next === '"') return this.parseString();
    const number = this.match(NUMBER);
    if (number !== undefined) return this.readNumber(number);
    const word = this.match(WORD);
    if (WORDS.has(word)) return WORDS.get(word);
    if (word === undefined) throw this.error("expected a value");
    this.faults.add("not-a-number");
    return Number(word);
  }

  openContainer(container) {
    this.position += 1;
    if (this.open.length === PARSER_DEPTH_LIMIT) throw this.error("nested too deep");
    if (this.open.length === MAX_DEPTH) this.faults.add("too-deep");
    this.open.push({ container, isEmpty: true });
    return container;
  }

  /** The next member of the innermost open container, or its end. */
  parseMember() {
    const frame = this.open[this.open.length - 1];
    const isArray = Array.isArray(frame.container);
    if (this.peek() === (isArray ? "]" : "}")) {
      this.position += 1;
      this.open.pop();
      return;
    }
    if (!frame.isEmpty) this.expect(",");
    frame.isEmpty = false;
    if (isArray) {
      frame.container.push(this.parseValue());
      return;
    }
    if (this.peek() !== '"') throw this.error("expected a key");
    const key = this.parseString();
    if (key in frame.container) this.faults.add("duplicate-key");
    this.expect(":");
    frame.container[key] = this.parseValue();
  }

  expect(character) {
    if (this.peek() !== character) throw this.error(`expected ${character}`);
    this.position += 1;
  }

  parseString() {
    const start = this.position;
    let hasEscape = false;
    for (let at = start + 1; ; at += 1) {
      const code = this.text.charCodeAt(at);
      if (code === 0x22) {
        this.position = at + 1;
        return this.readString(start, hasEscape);
      }
      if (code === 0x5c) {
        hasEscape = true;
        at += 1;
      } else if (!(code >= 0x20)) {
        // Also at the end of the text, where the code is NaN.
        this.position = Math.min(at, this.text.length);
        throw this.error("string is not closed");
      }
    }
  }

  readString(start, hasEscape) {
    let value = this.text.slice(start + 1, this.position - 1);
    if (hasEscape) {
      try {
        value = JSON.parse(this.text.slice(start, this.position));
      } catch {
        throw this.error("invalid escape in a string");
      }
    }
    if (LONE_SURROGATE.test(value)) this.faults.add("lone-surrogate");
    return value;
  }

  /** The lexeme that the pattern finds here, or undefined. */
  match(pattern) {
    pattern.lastIndex = this.position;
    const found = pattern.exec(this.text);
    if (found === null) return undefined;
    this.position += found[0].length;
    return found[0];
  }

  readNumber(lexeme) {
    const number = Number(lexeme);
    if (!Number.isFinite(number)) this.faults.add("number-range");
    else if (/^-?[0-9]+$/.test(lexeme) && !Number.isSafeInteger(number)) {
      this.faults.add("big-integer");
    }
    return number;
  }

  error(reason) {
    const line = this.text.slice(0, this.position).split("\n").length;
    return new StrictError(`${reason} (line ${line})`);
  }
}

/**
 * Return the RFC 8785 text of a JSON value. Its UTF-8 bytes are what is hashed.
 * @throws {StrictError} if the value has none
 */
export function canonicalize(value) {
  if (value === null || typeof value === "boolean") return String(value);
  if (typeof value === "string") return quote(value);
  if (typeof value === "number") {
    if (!Number.isFinite(value)) throw new StrictError("a number is not finite");
    return String(value);
  }
  if (Array.isArray(value)) return `[${value.map(canonicalize).join(",")}]`;
  if (typeof value !== "object") throw new StrictError("not a JSON value");
  // The default order of sort is that of UTF-16 code units, which RFC 8785 asks for.
  const members = Object.keys(value).sort();
  return `{${members.map((key) => `${quote(key)}:${canonicalize(value[key])}`).join(",")}}`;
}

function quote(text) {
  if (LONE_SURROGATE.test(text)) throw new StrictError("a string holds half of a surrogate pair");
  return JSON.stringify(text);
}

/** Return whether a JSON value is an object. */
export function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
