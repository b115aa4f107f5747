// Reads and verifies Open-Token exports. No dependencies; Node 18 or newer, or a browser.

export { canonicalize, parseStrict, StrictError } from "./json.mjs";
export { readExport } from "./export.mjs";
export { verify } from "./verify.mjs";
export { commitToEvents } from "./commitments.mjs";
export { buildMarker, findMarkers, truncateText } from "./markers.mjs";
