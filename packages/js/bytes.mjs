// Bytes and hashes: SHA-2 of the platform, and what is built on it.

const BLOCK = 64;

/** The hash functions of Node where it is Node, of WebCrypto elsewhere. */
const node = await loadNodeCrypto();

async function loadNodeCrypto() {
  const isNode = typeof process === "object" && process.versions?.node !== undefined;
  return isNode ? await import("node:crypto") : null;
}

/** WebCrypto, or undefined: browsers have it on pages of https and localhost only. */
export const webCrypto = node?.webcrypto ?? globalThis.crypto;

/** Return the UTF-8 bytes of a text. */
export function encodeUtf8(text) {
  return new TextEncoder().encode(text);
}

/** Return one array of bytes. */
export function concat(...parts) {
  const joined = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
  let position = 0;
  for (const part of parts) {
    joined.set(part, position);
    position += part.length;
  }
  return joined;
}

/** Return the SHA-256 of bytes. */
export function sha256(bytes) {
  return digest("sha256", "SHA-256", bytes);
}

/** Return the SHA-512 of bytes. */
export function sha512(bytes) {
  return digest("sha512", "SHA-512", bytes);
}

async function digest(nodeName, webName, bytes) {
  // Node's own function is several times as fast for the many short inputs of a tree.
  if (node !== null) return new Uint8Array(node.createHash(nodeName).update(bytes).digest());
  return new Uint8Array(await webCrypto.subtle.digest(webName, bytes));
}

/** Return HMAC-SHA-256. */
export async function hmac(key, message) {
  const block = new Uint8Array(BLOCK);
  block.set(key.length > BLOCK ? await sha256(key) : key);
  const inner = await sha256(concat(block.map((byte) => byte ^ 0x36), message));
  return sha256(concat(block.map((byte) => byte ^ 0x5c), inner));
}

/** Return a number as eight bytes, the most significant first. */
export function encodeUint64(number) {
  const bytes = new Uint8Array(8);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(number));
  return bytes;
}

/** Return a number as four bytes, the most significant first. */
export function encodeUint32(number) {
  const bytes = new Uint8Array(4);
  new DataView(bytes.buffer).setUint32(0, number);
  return bytes;
}

/** Return lower-case hexadecimal digits. */
export function toHex(bytes) {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Return the bytes of hexadecimal digits. */
export function fromHex(text) {
  return Uint8Array.from(text.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));
}

/** Return base64 with padding. */
export function toBase64(bytes) {
  const pieces = [];
  // In pieces: a call has a limited number of arguments.
  for (let start = 0; start < bytes.length; start += 0x8000) {
    pieces.push(String.fromCharCode(...bytes.subarray(start, start + 0x8000)));
  }
  return btoa(pieces.join(""));
}

/** Return the bytes of base64 that is written in its only canonical form; null for all else. */
export function fromBase64(text) {
  let binary;
  try {
    binary = atob(text);
  } catch {
    return null;
  }
  const bytes = Uint8Array.from(binary, (character) => character.charCodeAt(0));
  return toBase64(bytes) === text ? bytes : null;
}

/** Return whether two arrays hold the same bytes. */
export function isEqual(one, other) {
  return one.length === other.length && one.every((byte, index) => byte === other[index]);
}
