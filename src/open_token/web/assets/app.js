// The shell: which screen is shown, the menu, keys, theme, and news from the server.

import { describeProblem, element } from "/web/assets/dom.js";

const root = document.documentElement;
const list = document.getElementById("list");
const pane = document.getElementById("pane");
const status = document.getElementById("status");
const names = [...document.querySelectorAll("[data-screen]")].map((link) => link.dataset.screen);

let current = null; // { name, screen, abort }
let screenKeys = {};
const listeners = new Set();

/** What a screen may use. */
export const app = {
  list,
  pane,

  /** Show a path of the application, as a link does. */
  go(path, { replace = false } = {}) {
    if (path === location.pathname + location.search + location.hash) return;
    history[replace ? "replaceState" : "pushState"](null, "", path);
    show();
  },

  /** Say something to everybody, screen readers included. */
  say(text) {
    status.textContent = text;
    clearTimeout(status.timer);
    status.timer = setTimeout(() => { status.textContent = ""; }, 4000);
  },

  /** Keys of the current screen: single characters, while nobody types. */
  setKeys(keys) {
    screenKeys = keys;
  },

  /** Set the title of the window. */
  setTitle(title) {
    document.title = `${title} - Open-Token`;
  },

  /** Call a function with each state that the server reports, until the signal is aborted. */
  onNews(listener, signal) {
    listeners.add(listener);
    signal.addEventListener("abort", () => listeners.delete(listener));
    if (lastNews) listener(lastNews);
  },

  /** Whether the page lies beside its list; on a phone only one of both is shown. */
  isWide: () => matchMedia("(min-width: 56rem)").matches,

  handleKey,
  getTheme: () => root.dataset.theme || "",
};

function parsePath() {
  const parts = location.pathname.split("/").filter(Boolean).map(decodeURIComponent);
  return { name: parts[0] || "sessions", path: parts.slice(1), query: new URLSearchParams(location.search), hash: location.hash.slice(1) };
}

async function show() {
  const route = parsePath();
  document.querySelectorAll("[data-screen]").forEach((link) => {
    if (link.dataset.screen === route.name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  });
  if (current && current.name === route.name) {
    current.screen.navigate(route);
    return;
  }
  if (current) current.abort.abort();
  const abort = new AbortController();
  const entry = { name: route.name, screen: null, abort };
  current = entry;
  screenKeys = {};
  list.hidden = true;
  list.replaceChildren();
  pane.replaceChildren();
  pane.className = "pane";
  document.body.classList.remove("reading");
  try {
    const module = await import(`/web/assets/screens/${route.name}.js`);
    if (current !== entry) return;
    entry.screen = module.open(app, route, abort.signal);
  } catch (problem) {
    if (current === entry) pane.replaceChildren(describeProblem(problem));
  }
}

// News arrive while the window is visible: a hidden one keeps no connection busy.
let source = null;
let lastNews = null;
function listen() {
  if (document.hidden) {
    if (source) source.close();
    source = null;
    return;
  }
  if (source) return;
  source = new EventSource("/web/changes");
  source.addEventListener("message", (event) => {
    lastNews = JSON.parse(event.data);
    root.classList.remove("offline");
    for (const listener of listeners) listener(lastNews);
  });
  source.addEventListener("error", () => root.classList.add("offline"));
  source.addEventListener("open", () => root.classList.remove("offline"));
}

function setTheme(theme) {
  if (theme) root.dataset.theme = theme;
  else delete root.dataset.theme;
  try { localStorage.setItem("theme", theme); } catch { /* a private window forgets it */ }
  document.querySelectorAll("iframe").forEach((frame) => {
    const inner = frame.contentDocument && frame.contentDocument.documentElement;
    if (inner) inner.dataset.theme = theme;
  });
}

function toggleTheme() {
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  setTheme(dark ? "light" : "dark");
}

const KEYS = [
  ["j k", "next, previous row"],
  ["Enter", "open"],
  ["/", "filter or find"],
  ["Ctrl-K", "search all sessions"],
  ["[ ]", "previous, next session"],
  ["Esc", "back to the list"],
  ["g then 1-9", "go to a screen"],
  ["?", "these keys; inside a page, its own"],
];

function showKeys() {
  const dialog = element(
    "dialog",
    { class: "keys", "aria-label": "Keys", close: () => dialog.remove() },
    element("h2", {}, "Keys"),
    element("dl", {}, KEYS.flatMap(([key, text]) => [element("dt", {}, key), element("dd", {}, text)])),
    element("form", { method: "dialog" }, element("button", {}, "Close")),
  );
  // A form in a dialog only closes it; the policy forbids to send one.
  dialog.querySelector("form").addEventListener("submit", (event) => { event.preventDefault(); dialog.close(); });
  document.body.append(dialog);
  dialog.showModal();
}

let before = "";
/** Handle a key, also one that was pressed inside a page; return whether it meant something. */
function handleKey(event) {
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
    event.preventDefault();
    if (names.includes("search")) app.go("/search");
    const field = document.getElementById("search-words");
    if (field) { field.focus(); field.select(); }
    return true;
  }
  if (event.ctrlKey || event.metaKey || event.altKey) return false;
  const field = event.target.closest && event.target.closest("input:not([type=checkbox], [type=radio]), textarea, select, [contenteditable]");
  if (field || document.querySelector("dialog[open]")) return false;
  const key = event.key;
  if (before === "g" && /^[1-9]$/.test(key) && names[key - 1]) {
    before = "";
    app.go(`/${names[key - 1]}`);
    return true;
  }
  before = key === "g" ? "g" : "";
  if (Object.hasOwn(screenKeys, key)) {
    event.preventDefault();
    screenKeys[key](event);
    return true;
  }
  if (key === "?" && event.view === window) {
    event.preventDefault();
    showKeys();
    return true;
  }
  return false;
}

document.addEventListener("keydown", handleKey);
document.addEventListener("click", (event) => {
  const link = event.target.closest("a[href^='/']");
  if (link && !event.ctrlKey && !event.metaKey && !event.shiftKey && event.button === 0 && !link.target) {
    event.preventDefault();
    app.go(link.getAttribute("href"));
  }
  if (event.target.closest("[data-action=theme]")) toggleTheme();
});
addEventListener("popstate", show);
document.addEventListener("visibilitychange", listen);

try {
  const theme = localStorage.getItem("theme");
  if (theme) setTheme(theme);
} catch { /* nothing is remembered here */ }
listen();
show();
