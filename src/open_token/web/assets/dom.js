// Building elements, asking the server, and writing numbers: what every screen uses.

/**
 * Create an element. `properties` are attributes; functions are listeners by the name of their
 * event. Children that are strings become text: nothing is ever parsed as HTML here.
 */
export function element(tag, properties = {}, ...children) {
  const created = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") created.addEventListener(name, value);
    else created.setAttribute(name, value === true ? "" : String(value));
  }
  created.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return created;
}

/** Turn HTML that the server rendered with the writer of pages into nodes. */
export function fragment(html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  return template.content;
}

/** An error that the server described in words. */
export class RequestError extends Error {
  constructor(what, help, status) {
    super(what);
    this.help = help;
    this.status = status;
  }
}

/** Ask the server for JSON; with a body the request changes something. */
export async function request(path, { body, signal } = {}) {
  const options = { signal };
  if (body !== undefined) {
    options.method = "POST";
    options.headers = { "Content-Type": "application/json" };
    options.body = JSON.stringify(body);
  }
  let response;
  try {
    response = await fetch(path, options);
  } catch (problem) {
    if (problem.name === "AbortError") throw problem;
    throw new RequestError("the application does not answer", "Is `open-token web` still running?", 0);
  }
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) {
    throw new RequestError(answer.error || "the request failed", answer.help || "", response.status);
  }
  return answer;
}

/** Show an error where the content would be. */
export function describeProblem(problem) {
  return element(
    "div",
    { class: "notice problem", role: "alert" },
    element("strong", {}, problem.message),
    problem.help ? element("p", {}, ...renderCommands(problem.help)) : null,
  );
}

/** An empty state: what could be here, and the command that fills it. */
export function describeEmpty(title, text) {
  return element(
    "div",
    { class: "notice" },
    element("strong", {}, title),
    element("p", {}, ...renderCommands(text)),
  );
}

/** Text with `commands` in backticks set as code. */
export function renderCommands(text) {
  return text.split(/`([^`]*)`/).map((part, index) => (index % 2 ? element("code", {}, part) : part));
}

export function formatCount(number, noun) {
  return `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
}

export function formatTokens(number) {
  if (number < 10000) return String(number);
  for (const [unit, size] of [["G", 1e9], ["M", 1e6], ["k", 1e3]]) {
    if (number >= size) return `${(number / size).toFixed(number / size < 99.95 ? 1 : 0)}${unit}`;
  }
  return String(number);
}

export function formatCost(cost) {
  return cost === null || cost === undefined ? "" : `$${cost.toFixed(2)}`;
}

export function formatBytes(bytes) {
  if (bytes < 1000) return `${bytes} B`;
  if (bytes < 1e6) return `${(bytes / 1e3).toFixed(0)} kB`;
  return `${(bytes / 1e6).toFixed(1)} MB`;
}

/** The local day of a time in seconds, as 2026-11-18. */
export function getDay(seconds) {
  const date = new Date(seconds * 1000);
  const pad = (number) => String(number).padStart(2, "0");
  return `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())}`;
}

export function formatDay(day) {
  const now = Date.now() / 1000;
  if (day === getDay(now)) return "Today";
  if (day === getDay(now - 86400)) return "Yesterday";
  const date = new Date(`${day}T12:00:00`);
  const options = { weekday: "long", day: "numeric", month: "long" };
  if (day.slice(0, 4) !== getDay(now).slice(0, 4)) options.year = "numeric";
  return date.toLocaleDateString("en-GB", options);
}

export function formatClock(seconds) {
  const date = new Date(seconds * 1000);
  return `${String(date.getHours()).padStart(2, "0")}:${String(date.getMinutes()).padStart(2, "0")}`;
}

/** A path below the home directory, as people write it. */
export function shortenPath(path, home) {
  if (home && (path === home || path.startsWith(`${home}/`))) return `~${path.slice(home.length)}`;
  return path;
}

/** Call a function once the calls have paused for some milliseconds. */
export function debounce(action, milliseconds) {
  let timer = 0;
  return (...values) => {
    clearTimeout(timer);
    timer = setTimeout(() => action(...values), milliseconds);
  };
}
