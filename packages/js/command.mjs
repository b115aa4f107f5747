#!/usr/bin/env node
// `open-token-verify FILE...`: verify exports. Exit code 0 if all are verified, 1 if one was
// changed, 2 for wrong usage, 3 if one cannot be verified.

import { readFile } from "node:fs/promises";
import { verify } from "./index.mjs";

const EXIT_CODES = { verified: 0, mismatch: 1, unverifiable: 3 };

async function main(paths) {
  if (paths.length === 0) {
    console.error("usage: open-token-verify FILE...");
    return 2;
  }
  const codes = [];
  for (const path of paths) codes.push(await verifyFile(path));
  return codes.includes(1) ? 1 : Math.max(...codes);
}

async function verifyFile(path) {
  let bytes;
  try {
    bytes = await readFile(path);
  } catch (error) {
    console.error(`error: cannot read ${JSON.stringify(path)}: ${error.code}`);
    return 2;
  }
  const { status, hashes, parts, signatures, reasons } = await verify(bytes);
  console.log(JSON.stringify({ file: path, status, hashes, parts, signatures, reasons }));
  return EXIT_CODES[status];
}

process.exitCode = await main(process.argv.slice(2));
