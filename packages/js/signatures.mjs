// The signed statement of an export, and its signatures: SSH signatures and DSSE, by Ed25519 keys.

import {
  concat,
  encodeUint32,
  encodeUtf8,
  fromBase64,
  isEqual,
  sha256,
  sha512,
  toBase64,
  toHex,
  webCrypto,
} from "./bytes.mjs";
import { canonicalize, isObject } from "./json.mjs";

const NAMESPACE = "open-token";
const PAYLOAD_TYPE = "application/vnd.in-toto+json";
const FIELDS = new Set(["scheme", "keyid", "key", "sig"]);
const MAX_SIGNATURES = 16;
const MAX_ARMORED = 16384;
const BEGIN = "-----BEGIN SSH SIGNATURE-----\n";
const END = "-----END SSH SIGNATURE-----\n";
const MAGIC = concat(encodeUtf8("SSHSIG"), encodeUint32(1));
const ED25519 = "ssh-ed25519";
const READERS = new Map([["sshsig", readSshSignature], ["dsse-ed25519", readDsse]]);
const DIGESTS = new Map([["sha256", sha256], ["sha512", sha512]]);

/** Return the statement that signatures of an export cover, or null if it has none. */
export async function buildStatement(head, integrity, eventsHash, size, root) {
  const name = head.conversation?.id;
  if (typeof name !== "string" || name === "") return null;
  const bound = canonicalize(withoutSignatures(integrity));
  const predicate = {
    document_hash: await hashDocument(head, eventsHash),
    event_count: size,
    integrity_hash: toHex(await sha256(encodeUtf8(bound))),
    tree: { alg: "rfc9162-sha256", size, root },
  };
  const { source } = integrity;
  if (isObject(source)) {
    predicate.source = {};
    for (const key of ["alg", "size", "root"]) {
      if (key in source) predicate.source[key] = source[key];
    }
  }
  return canonicalize({
    _type: "https://in-toto.io/Statement/v1",
    subject: [{ name, digest: { sha256: eventsHash } }],
    predicateType: "urn:open-token:export-statement:1",
    predicate,
  });
}

/** Return the hash of the document with its events replaced by their hash. */
export async function hashDocument(document, eventsHash) {
  const { events, integrity, ...rest } = document;
  return toHex(await sha256(encodeUtf8(canonicalize({ ...rest, events: eventsHash }))));
}

/**
 * Return a result for each signature: its scheme, the fingerprint of its key and a state, which is
 * `valid`, `invalid` or `unchecked`. A valid signature proves nothing about who holds the key.
 */
export async function checkSignatures(entries, statement) {
  if (!Array.isArray(entries)) return [{ scheme: "", keyid: "", state: "invalid" }];
  const results = [];
  for (const entry of entries.slice(0, MAX_SIGNATURES)) {
    results.push(await checkEntry(entry, statement));
  }
  if (entries.length > MAX_SIGNATURES) results.push({ scheme: "", keyid: "", state: "unchecked" });
  return results;
}

/** Return whether an entry has fields besides those of a signature; anyone can add those. */
export function hasUnsignedFields(entries) {
  if (!Array.isArray(entries)) return false;
  return entries.some((entry) => isObject(entry) && Object.keys(entry).some((key) => !FIELDS.has(key)));
}

async function checkEntry(entry, statement) {
  const scheme = isObject(entry) ? entry.scheme : undefined;
  if (typeof scheme !== "string") return { scheme: "", keyid: "", state: "invalid" };
  const read = READERS.get(scheme);
  if (read === undefined) return { scheme, keyid: "", state: "unchecked" };
  const signature = read(entry);
  if (signature === null) return { scheme, keyid: "", state: "invalid" };
  const keyid = await computeFingerprint(signature.key);
  if (entry.keyid !== keyid || statement === null) return { scheme, keyid, state: "invalid" };
  const raw = toRawEd25519(signature.key);
  if (raw === null) return { scheme, keyid, state: "unchecked" };
  const signed = await signature.buildSigned(encodeUtf8(statement));
  const isValid = signed !== null && (await verifyEd25519(raw, signature.bytes, signed));
  if (isValid === null) return { scheme, keyid, state: "unchecked" };
  return { scheme, keyid, state: isValid ? "valid" : "invalid" };
}

/** Return the key, the signature and what it signs; null unless it is as ssh-keygen writes it. */
function readSshSignature(entry) {
  const blob = parseArmored(entry.sig);
  const fields = blob === null ? null : parseStrings(blob.subarray(MAGIC.length));
  if (fields?.length !== 5) return null;
  const [key, namespace, reserved, hashName, signature] = fields;
  if ((parseStrings(key) ?? []).length === 0) return null;
  if (reserved.length > 0 || !isEqual(namespace, encodeUtf8(NAMESPACE))) return null;
  const parts = parseStrings(signature) ?? [];
  const isEd25519 = parts.length === 2 && isEqual(parts[0], encodeUtf8(ED25519));
  const digest = DIGESTS.get(new TextDecoder().decode(hashName));
  return {
    key,
    bytes: isEd25519 ? parts[1] : new Uint8Array(),
    async buildSigned(statement) {
      if (digest === undefined) return null;
      const strings = [namespace, reserved, hashName, await digest(statement)];
      return concat(encodeUtf8("SSHSIG"), ...strings.map(encodeString));
    },
  };
}

function parseArmored(armored) {
  if (typeof armored !== "string" || armored.length > MAX_ARMORED) return null;
  if (!armored.startsWith(BEGIN) || !armored.endsWith(END)) return null;
  const body = armored.slice(BEGIN.length, -END.length).replaceAll("\n", "");
  const blob = fromBase64(body);
  if (blob === null || !isEqual(blob.subarray(0, MAGIC.length), MAGIC)) return null;
  // One spelling only, so that a signature cannot be altered and stay valid.
  const lines = body.match(/.{1,70}/g).map((line) => `${line}\n`);
  return BEGIN + lines.join("") + END === armored ? blob : null;
}

function readDsse(entry) {
  const words = typeof entry.key === "string" ? entry.key.split(" ") : [];
  const key = words.length === 2 && words[0] === ED25519 ? fromBase64(words[1]) : null;
  if (key === null || toRawEd25519(key) === null) return null;
  const bytes = typeof entry.sig === "string" ? fromBase64(entry.sig) : null;
  if (bytes?.length !== 64) return null;
  return {
    key,
    bytes,
    async buildSigned(statement) {
      const head = `DSSEv1 ${PAYLOAD_TYPE.length} ${PAYLOAD_TYPE} ${statement.length} `;
      return concat(encodeUtf8(head), statement);
    },
  };
}

/** Return whether a signature is valid; null where the platform has no Ed25519. */
async function verifyEd25519(publicKey, signature, data) {
  const algorithm = { name: "Ed25519" };
  let key;
  try {
    key = await webCrypto.subtle.importKey("raw", publicKey, algorithm, false, ["verify"]);
  } catch (error) {
    return error.name === "NotSupportedError" || error instanceof TypeError ? null : false;
  }
  return webCrypto.subtle.verify(algorithm, key, signature, data);
}

/** Return the fingerprint of a key, as `ssh-keygen -l` prints it. */
async function computeFingerprint(key) {
  return `SHA256:${toBase64(await sha256(key)).replaceAll("=", "")}`;
}

function toRawEd25519(key) {
  const parts = parseStrings(key);
  if (parts?.length !== 2 || !isEqual(parts[0], encodeUtf8(ED25519))) return null;
  return parts[1].length === 32 ? parts[1] : null;
}

function parseStrings(blob) {
  const view = new DataView(blob.buffer, blob.byteOffset, blob.byteLength);
  const parts = [];
  let position = 0;
  while (position < blob.length) {
    if (position + 4 > blob.length) return null;
    const end = position + 4 + view.getUint32(position);
    if (end > blob.length) return null;
    parts.push(blob.subarray(position + 4, end));
    position = end;
  }
  return parts;
}

function encodeString(bytes) {
  return concat(encodeUint32(bytes.length), bytes);
}

function withoutSignatures({ signatures, ...rest }) {
  return rest;
}
