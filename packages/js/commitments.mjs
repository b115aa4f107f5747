// Salted commitments to the events of a source: made, and checked against an export.

import {
  concat,
  encodeUint64,
  encodeUtf8,
  fromBase64,
  fromHex,
  hmac,
  sha256,
  toHex,
} from "./bytes.mjs";
import { canonicalize, isObject } from "./json.mjs";
import { hashLeaf, MerkleTree, subtreeHeights } from "./merkle.mjs";

export const ALGORITHM = "ot-leaf/1";

const SALT_LENGTH = 16;
const HEX_HASH = /^[0-9a-f]{64}$/;

/** A part of a source object contradicts the events; the message is its name. */
export class CommitmentError extends Error {}

/** Return the commitments that a program with this key makes to the events of a source. */
export async function commitToEvents(key, conversationId, events) {
  const seed = await hmac(key, encodeUtf8(`ot-leaf-seed/1${conversationId}`));
  const tree = new MerkleTree();
  const salts = [];
  const commitments = [];
  for (const [index, event] of events.entries()) {
    const { content, rest } = splitEvent(event);
    const message = concat(encodeUtf8("ot-salt/1"), encodeUint64(index), content);
    const salt = (await hmac(seed, message)).subarray(0, SALT_LENGTH);
    const commitment = await commit(salt, content);
    await tree.graft(await hashLeaf(commitment, rest));
    salts.push(toHex(salt));
    commitments.push(toHex(commitment));
  }
  return { size: tree.size, root: await computeRoot(tree), salts, commitments };
}

/**
 * Recompute the root from the events of an export and its source object.
 * @throws {CommitmentError} if that is impossible
 */
export async function checkDisclosure(source, events) {
  const rows = readRows(source.map);
  const mapped = rows.reduce((sum, row) => sum + (row.source === null ? 0 : row.count), 0);
  const salts = readSalts(source.salts, mapped).values();
  const commitments = readCommitments(source.commitments ?? {});
  const proof = readHashes(source.proof ?? [], "proof").values();
  const tree = new MerkleTree();
  const counts = { verbatim: 0, altered: 0, inserted: 0, dropped: 0 };
  let seq = 0;
  for (const row of rows) {
    for (let offset = 0; offset < row.count; offset += 1) {
      const event = events[seq];
      seq += 1;
      if (!isObject(event)) throw new CommitmentError("map");
      if (row.source === null) {
        counts.inserted += 1;
        continue;
      }
      await graftHidden(tree, row.source + offset - 1, proof);
      const commitment = commitments.get(String(seq));
      await tree.graft(await buildLeaf(event, salts.next().value, commitment));
      counts[commitment === undefined ? "verbatim" : "altered"] += 1;
    }
  }
  if (seq !== events.length) throw new CommitmentError("map");
  if (!Number.isSafeInteger(source.size) || source.size < tree.size) {
    throw new CommitmentError("size");
  }
  await graftHidden(tree, source.size, proof);
  // Parts that no event used would be bytes that an attacker may choose freely.
  if (counts.altered !== commitments.size) throw new CommitmentError("commitments");
  if (!proof.next().done) throw new CommitmentError("proof");
  counts.dropped = source.size - mapped;
  return { root: await computeRoot(tree), counts };
}

function splitEvent(event) {
  const { content, seq, ...rest } = event;
  return {
    content: encodeUtf8(canonicalize(content ?? null)),
    rest: encodeUtf8(canonicalize(rest)),
  };
}

function commit(salt, content) {
  return sha256(concat(Uint8Array.of(2), salt, content));
}

async function computeRoot(tree) {
  // The size is part of the root: hidden subtrees do not reveal how many leaves they have.
  return toHex(await sha256(concat(Uint8Array.of(3), encodeUint64(tree.size), await tree.root())));
}

async function graftHidden(tree, end, proof) {
  for (const height of subtreeHeights(tree.size, end)) {
    const next = proof.next();
    if (next.done) throw new CommitmentError("proof");
    await tree.graft(next.value, height);
  }
}

async function buildLeaf(event, salt, commitment) {
  const isWithheld = salt.every((byte) => byte === 0);
  if (isWithheld !== (commitment !== undefined)) throw new CommitmentError("salts");
  const { content, rest } = splitEvent(event);
  return hashLeaf(commitment ?? (await commit(salt, content)), rest);
}

/** The rows of the map, which must follow the order of the export and of the source. */
function readRows(map) {
  if (!Array.isArray(map)) throw new CommitmentError("map");
  const rows = [];
  let nextSeq = 1;
  let sourceEnd = 0;
  for (const row of map) {
    if (!Array.isArray(row) || row.length !== 3) throw new CommitmentError("map");
    const [first, source, count] = row;
    if (first !== nextSeq || !Number.isSafeInteger(count) || count < 1) {
      throw new CommitmentError("map");
    }
    if (source !== null) {
      if (!Number.isSafeInteger(source) || source <= sourceEnd) throw new CommitmentError("map");
      sourceEnd = source - 1 + count;
    }
    nextSeq += count;
    rows.push({ source, count });
  }
  return rows;
}

function readSalts(text, count) {
  const bytes = typeof text === "string" ? fromBase64(text) : null;
  if (bytes === null || bytes.length !== count * SALT_LENGTH) throw new CommitmentError("salts");
  return Array.from({ length: count }, (_, index) =>
    bytes.subarray(index * SALT_LENGTH, (index + 1) * SALT_LENGTH),
  );
}

function readCommitments(commitments) {
  if (!isObject(commitments)) throw new CommitmentError("commitments");
  const hashes = readHashes(Object.values(commitments), "commitments");
  return new Map(Object.keys(commitments).map((seq, index) => [seq, hashes[index]]));
}

function readHashes(values, part) {
  if (!Array.isArray(values)) throw new CommitmentError(part);
  return values.map((value) => {
    if (typeof value !== "string" || !HEX_HASH.test(value)) throw new CommitmentError(part);
    return fromHex(value);
  });
}
