// The RFC 9162 tree.

import { concat, sha256 } from "./bytes.mjs";

const LEAF = Uint8Array.of(0);
const NODE = Uint8Array.of(1);

/** Return the hash of a leaf. */
export function hashLeaf(...parts) {
  return sha256(concat(LEAF, ...parts));
}

/** A growing tree, of which only the complete subtrees are held. */
export class MerkleTree {
  constructor() {
    this.peaks = [];
    this.size = 0;
  }

  /** Append a complete subtree of 2**height leaves. */
  async graft(hash, height = 0) {
    this.size += 2 ** height;
    while (this.peaks.length > 0 && this.peaks[this.peaks.length - 1].height === height) {
      const left = this.peaks.pop();
      hash = await sha256(concat(NODE, left.hash, hash));
      height += 1;
    }
    this.peaks.push({ hash, height });
  }

  /** The root over all leaves so far; of an empty tree, the hash of nothing. */
  async root() {
    if (this.peaks.length === 0) return sha256(new Uint8Array());
    let { hash } = this.peaks[this.peaks.length - 1];
    for (let index = this.peaks.length - 2; index >= 0; index -= 1) {
      hash = await sha256(concat(NODE, this.peaks[index].hash, hash));
    }
    return hash;
  }
}

/** Yield the heights of the complete subtrees that cover the leaves from first up to end. */
export function* subtreeHeights(first, end) {
  while (first < end) {
    let height = 0;
    // Powers instead of shifts: sizes may be beyond 32 bits.
    while (first % 2 ** (height + 1) === 0 && 2 ** (height + 1) <= end - first) height += 1;
    yield height;
    first += 2 ** height;
  }
}
