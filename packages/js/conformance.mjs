// Answers the questions of the conformance kit, one JSON object a line: see docs/how-to/implement.md.

import { createInterface } from "node:readline";
import { fromBase64, fromHex } from "./bytes.mjs";
import {
  buildMarker,
  canonicalize,
  commitToEvents,
  findMarkers,
  parseStrict,
  readExport,
  truncateText,
  verify,
} from "./index.mjs";
import { decodeUtf8 } from "./json.mjs";

const TASKS = {
  canonicalize(question) {
    try {
      const { value, faults } = parseStrict(decodeUtf8(fromBase64(question.file)));
      return faults.size > 0 ? { error: true } : { canonical: canonicalize(value) };
    } catch {
      return { error: true };
    }
  },
  read(question) {
    const { document, problems, isComplete } = readExport(fromBase64(question.file));
    return problems.length > 0 ? { error: true } : { document, complete: isComplete };
  },
  async verify(question) {
    const verdict = await verify(fromBase64(question.file));
    const { status, parts, hashes, source, signatures, statement } = verdict;
    return { status, parts, ...hashes, source, signatures, statement, covered: verdict.isCovered };
  },
  find_markers: (question) => findMarkers(question.text),
  async marker({ key, scope, type, value }) {
    return { marker: await buildMarker(fromHex(key), scope, type, value) };
  },
  truncate: (question) => ({ text: truncateText(question.text) }),
  commit: ({ key, conversation, events }) => commitToEvents(fromHex(key), conversation, events),
};

for await (const line of createInterface({ input: process.stdin })) {
  const question = JSON.parse(line);
  const answer = TASKS[question.task];
  const result = answer === undefined ? { skip: "not implemented" } : await answer(question);
  process.stdout.write(`${JSON.stringify({ id: question.id, ...result })}\n`);
}
