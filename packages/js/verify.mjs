// Verifies an export: computes its hashes again and compares them with its integrity object.

import { concat, encodeUtf8, sha256, toHex } from "./bytes.mjs";
import { ALGORITHM, checkDisclosure, CommitmentError } from "./commitments.mjs";
import { readExport } from "./export.mjs";
import { canonicalize, isObject } from "./json.mjs";
import { hashLeaf, MerkleTree } from "./merkle.mjs";
import {
  buildStatement,
  checkSignatures,
  hashDocument,
  hasUnsignedFields,
} from "./signatures.mjs";

const PROFILE = "ot-int/1";
const COMMA = encodeUtf8(",");

/**
 * Return the verdict on the bytes of an export.
 *
 * `status` is `verified`, `mismatch` or `unverifiable`; `parts` says of each hash that the export
 * claims whether it is a `match`, a `mismatch` or `unchecked`; `hashes` are those computed here.
 * `source` counts what became of the source events, if the export is committed to them. `isCovered`
 * is false if an export with signatures holds something that they do not cover. `reasons` say in
 * words why an export is not verified.
 */
export async function verify(bytes) {
  const read = readExport(bytes);
  const { document } = read;
  const reasons = [...read.problems];
  if (!read.isComplete) reasons.push("the stream has no footer: it is not complete");
  for (const name of read.disputed) reasons.push(`header and footer differ in ${name}`);
  if (!hasOneShape(read)) reasons.push("the lines are not all of the same shape");
  if (!Array.isArray(document?.events)) reasons.push("this is not an export");
  if (reasons.length > 0) return unverifiable(reasons);
  if (!isObject(document.integrity)) return unverifiable(["there is no integrity object"]);
  return judge(document, read);
}

function unverifiable(reasons) {
  return {
    status: "unverifiable",
    parts: {},
    hashes: {},
    source: null,
    signatures: [],
    statement: null,
    isCovered: true,
    reasons,
  };
}

/** All lines have the same shape, and that of our profile if it is named: no hash covers it. */
function hasOneShape({ document, shapes }) {
  if (document?.integrity?.profile !== PROFILE) return shapes.size <= 1;
  return [...shapes].every((shape) => shape === "flat");
}

async function judge(document, read) {
  const { events, integrity } = document;
  const hashes = await hashEvents(events);
  const claimed = typeof integrity.events_hash === "string" ? integrity.events_hash : null;
  // With the claimed hash of the events, so that it fails only for changes around them.
  hashes.document_hash = await hashDocument(document, claimed ?? hashes.events_hash);
  const { parts, source } = await compare(integrity, events, hashes);
  const { status, reasons } = decide(integrity, claimed, parts);
  const isSigned = "signatures" in integrity;
  const statement = read.isRounded
    ? null
    : await buildStatement(document, integrity, hashes.events_hash, events.length, hashes.tree_root);
  const extra = isSigned && hasUnsignedFields(integrity.signatures);
  return {
    status,
    parts,
    hashes,
    source,
    signatures: isSigned ? await checkSignatures(integrity.signatures, statement) : [],
    statement,
    isCovered: !extra && !(isSigned && read.corrected.length > 0),
    reasons,
  };
}

async function hashEvents(events) {
  const tree = new MerkleTree();
  const pieces = [];
  for (const event of events) {
    const bytes = encodeUtf8(canonicalize(event));
    await tree.graft(await hashLeaf(bytes));
    pieces.push(pieces.length === 0 ? bytes : concat(COMMA, bytes));
  }
  const array = concat(encodeUtf8("["), ...pieces, encodeUtf8("]"));
  return { events_hash: toHex(await sha256(array)), tree_root: toHex(await tree.root()) };
}

async function compare(integrity, events, hashes) {
  const parts = {};
  let source = null;
  const put = (name, isSame) => {
    parts[name] = isSame ? "match" : "mismatch";
  };
  const { tree } = integrity;
  if (typeof integrity.events_hash === "string") {
    put("events_hash", integrity.events_hash === hashes.events_hash);
  }
  if (Number.isInteger(integrity.event_count)) {
    put("event_count", integrity.event_count === events.length);
  }
  if (typeof integrity.document_hash === "string") {
    put("document_hash", integrity.document_hash === hashes.document_hash);
  }
  if (isObject(tree)) {
    if (tree.alg === "rfc9162-sha256") put("tree.root", tree.root === hashes.tree_root);
    else parts["tree.root"] = "unchecked";
    put("tree.size", tree.size === events.length);
  }
  if ("source" in integrity) source = await compareSource(integrity.source, events, parts);
  return { parts, source };
}

async function compareSource(source, events, parts) {
  if (!isObject(source) || source.alg !== ALGORITHM) {
    parts.source = "unchecked";
    return null;
  }
  try {
    const { root, counts } = await checkDisclosure(source, events);
    parts["source.root"] = root === source.root ? "match" : "mismatch";
    return root === source.root ? counts : null;
  } catch (error) {
    if (!(error instanceof CommitmentError)) throw error;
    parts[`source.${error.message}`] = "mismatch";
    return null;
  }
}

function decide(integrity, claimed, parts) {
  const obstacles = [];
  if (integrity.hash_alg !== "sha256") obstacles.push("hash_alg is not sha256");
  if (claimed === null) obstacles.push("there is no events_hash");
  if (obstacles.length > 0) return { status: "unverifiable", reasons: obstacles };
  const wrong = Object.keys(parts).filter((name) => parts[name] === "mismatch");
  if (wrong.length === 0) {
    const isLost = integrity.profile === PROFILE && typeof integrity.document_hash !== "string";
    if (isLost) return { status: "mismatch", reasons: ["document_hash was removed"] };
    return { status: "verified", reasons: [] };
  }
  // Another canonical form gives another hash, which cannot be compared with ours.
  const isOurForm =
    (integrity.canonicalization ?? "json-c14n-like") === "json-c14n-like" &&
    (integrity.c14n ?? "rfc8785") === "rfc8785";
  if (parts.events_hash === "mismatch" && !isOurForm) {
    return { status: "unverifiable", reasons: ["the canonical form is not rfc8785"] };
  }
  return { status: "mismatch", reasons: wrong.map((name) => `${name} does not match`) };
}
