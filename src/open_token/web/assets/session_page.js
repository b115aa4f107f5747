// The pane in which a session is read: what can be done with it, and its page in a frame.

import { describeProblem, element, formatBytes, request } from "/web/assets/dom.js";

/** Shows one session at a time in the pane of the application. */
export class SessionPage {
  constructor(app, signal, leave) {
    this.app = app;
    this.signal = signal;
    this.leave = leave;
    this.key = "";
    this.frame = null;
  }

  /** Show a session, at an event if the hash names one. */
  async show(key, hash = "") {
    if (key === this.key && this.frame) {
      if (hash) this.frame.contentWindow.location.hash = hash;
      return;
    }
    this.key = key;
    const { pane } = this.app;
    try {
      const row = await request(`/web/sessions/${encodeURIComponent(key)}`, { signal: this.signal });
      if (key !== this.key) return;
      this.app.setTitle(row.title || row.id);
      const waiting = element("div", { class: "waiting", role: "status" }, element("progress", { "aria-label": "Reading" }), ` Reading ${formatBytes(row.bytes)}`);
      const frame = element("iframe", {
        class: "page", title: row.title || row.id,
        src: `/web/sessions/${encodeURIComponent(key)}/page${hash ? `#${hash}` : ""}`,
      });
      this.frame = frame;
      watchFrame(frame, waiting, this.signal);
      pane.replaceChildren(this.renderToolbar(row), element("div", { class: "frame" }, waiting, frame));
    } catch (problem) {
      if (problem.name !== "AbortError" && key === this.key) pane.replaceChildren(describeProblem(problem));
    }
  }

  close() {
    this.key = "";
    this.frame = null;
  }

  renderToolbar(row) {
    const short = row.id.length > 12 ? row.id.slice(0, 8) : row.id;
    const screens = document.body.dataset.screens.split(" ");
    const has = (name) => screens.includes(name);
    const actions = [
      ["share", "Share", `/share/${row.key}`, `open-token redact ${short} --review -o shared.json`],
      ["", "Hand over", "", `open-token handoff ${short} --to codex`],
      ["compare", "Compare", `/compare/${row.key}`, `open-token diff ${short} last`],
      ["", "Replay", "", `open-token replay view ${short}`],
      ["run", "Continue here", `/run?from=${row.key}`, ""],
    ];
    const buttons = actions
      .filter(([name, , , command]) => command || has(name))
      .map(([name, label, path, command]) => (name && has(name)
        ? element("a", { class: "button", href: path }, label)
        : element("button", { type: "button", class: "button", title: `Copy: ${command}`, click: () => this.copy(command) }, label)));
    return element(
      "div", { class: "toolbar", role: "toolbar", "aria-label": "This session" },
      element("button", { type: "button", class: "button back", click: () => this.leave() }, "Back"),
      element("span", { class: "where" }, row.is_live ? element("span", { class: "live" }) : null, `${row.agent_title}${row.branch ? `, ${row.branch}` : ""}`),
      element("span", { class: "actions" }, buttons),
    );
  }

  /** Copy the command that does what the application has no screen for. */
  copy(command) {
    navigator.clipboard.writeText(command).then(
      () => this.app.say(`Copied: ${command}`),
      () => this.app.say(command),
    );
  }
}

/** Hide the progress as soon as the first rows are there, long before the last ones. */
export function watchFrame(frame, waiting, signal) {
  const timer = setInterval(() => {
    const inner = frame.contentDocument;
    if (!inner || inner.URL === "about:blank" || !inner.querySelector(".blk, .wrap")) {
      const problem = inner && inner.contentType === "application/json" && inner.readyState === "complete";
      if (problem) {
        clearInterval(timer);
        waiting.replaceWith(describeProblem(readProblem(inner)));
        frame.remove();
      }
      return;
    }
    clearInterval(timer);
    waiting.remove();
  }, 50);
  signal.addEventListener("abort", () => clearInterval(timer));
}

function readProblem(inner) {
  try {
    const answer = JSON.parse(inner.body.textContent);
    return { message: answer.error, help: answer.help };
  } catch {
    return { message: "this session cannot be shown", help: "" };
  }
}
