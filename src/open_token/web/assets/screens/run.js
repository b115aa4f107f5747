// Run: the sessions of the session server, and a chat with one of them.

import { Client } from "/client.js";
import { Chat, describeFailure, renderComposer } from "/web/assets/chat.js";
import {
  describeEmpty, element, formatClock, formatCount, formatDay, getDay, request, RequestError,
} from "/web/assets/dom.js";
import { PANELS, showPanel } from "/web/assets/run_panels.js";

const POLL = 4000;
const MAX_TITLE = 80;
const SHOWN = 200;
const STATES = {
  running: "working", waiting_for_input: "waits for you", failed: "failed", interrupted: "stopped", created: "new",
};

/** Show the screen; returns what the shell calls when the address changes within it. */
export function open(app, route, signal) {
  const view = new RunView(app, signal);
  view.navigate(route);
  return view;
}

class RunView {
  constructor(app, signal) {
    this.app = app;
    this.signal = signal;
    this.client = new Client("");
    this.sessions = [];
    this.id = "";
    this.chat = null;
    this.models = this.client.request("GET", "/api/config/models", undefined, { signal });
    this.models.catch(() => {});
    this.build();
    app.setKeys({
      j: () => this.step(1),
      k: () => this.step(-1),
      n: () => app.go("/run"),
      "/": () => this.focusMessage(),
      Escape: () => this.leave(),
    });
    const timer = setInterval(() => { if (!document.hidden) this.load(); }, POLL);
    signal.addEventListener("abort", () => { clearInterval(timer); this.closeChat(); });
    this.load();
  }

  build() {
    this.count = element("p", { class: "count", role: "status" });
    this.body = element("ul", { class: "live-sessions" });
    this.app.list.hidden = false;
    this.app.list.setAttribute("aria-label", "Live sessions");
    this.app.list.replaceChildren(
      element(
        "header", { class: "list-head" },
        element("h1", {}, "Run"),
        this.count,
        element(
          "p", { class: "list-links" },
          element("a", { class: "button primary", href: "/run/new" }, "New session"),
          Object.entries(PANELS).map(([name, panel]) => element("a", { class: "button", href: `/run/${name}` }, panel.title)),
        ),
      ),
      this.body,
    );
  }

  navigate(route) {
    const id = route.path[0] || "";
    const from = route.query.get("from");
    document.body.classList.toggle("reading", Boolean(id || from));
    if (this.chat && this.chat.id === id) return;
    this.closeChat();
    this.id = id;
    this.app.pane.classList.remove("scrolls");
    if (from) this.continueFrom(from);
    else if (Object.hasOwn(PANELS, id)) showPanel(this.app, this.client, id, this.signal, () => this.leave());
    else if (id && id !== "new") this.openChat(id);
    else this.showStart();
    this.markCurrent();
  }

  closeChat() {
    if (this.chat) this.chat.close();
    this.chat = null;
  }

  openChat(id) {
    this.chat = new Chat(this.app, this.client, id, this.models, {
      onLeave: () => this.leave(),
      onChange: () => this.load(),
      onDelete: () => { this.load(); this.app.go("/run"); },
    });
  }

  async load() {
    try {
      const page = await this.client.listSessions({ limit: String(SHOWN) });
      this.sessions = page.items;
      this.count.textContent = page.total ? formatCount(page.total, "session") : "";
      this.renderList(page.total);
    } catch (problem) {
      if (!this.signal.aborted && !this.sessions.length) this.body.replaceChildren(element("li", {}, describeFailure(problem)));
    }
  }

  renderList(total) {
    const focused = this.body.contains(document.activeElement) ? document.activeElement.dataset.key : "";
    if (!this.sessions.length) {
      this.body.replaceChildren(element("li", {}, describeEmpty("No live sessions", "Write a message to start one, or open any session in Sessions and choose Continue here.")));
      return;
    }
    const rows = this.sessions.map((session) => element("li", {}, this.renderRow(session)));
    if (total > rows.length) rows.push(element("li", { class: "found-place" }, `and ${total - rows.length} older`));
    this.body.replaceChildren(...rows);
    this.markCurrent();
    if (focused) this.body.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
  }

  renderRow(session) {
    const seconds = Date.parse(session.updated_at || session.created_at) / 1000;
    const state = STATES[session.status];
    return element(
      "a", { class: "session", href: `/run/${encodeURIComponent(session.id)}`, "data-key": session.id },
      element(
        "span", { class: "session-title" },
        session.status === "running" ? element("span", { class: "live" }) : null,
        element("bdi", {}, session.intent || "Untitled"),
      ),
      element("time", { datetime: session.updated_at }, `${formatDay(getDay(seconds))} ${formatClock(seconds)}`),
      element(
        "span", { class: "session-facts" },
        session.model ? element("span", { class: "agent" }, session.model) : null,
        state ? element("span", { class: session.status === "failed" ? "minus" : "" }, state) : null,
      ),
    );
  }

  markCurrent() {
    this.body.querySelectorAll("a.session").forEach((link) => {
      if (link.dataset.key === this.id) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    });
  }

  step(by) {
    const links = [...this.body.querySelectorAll("a.session")];
    if (!links.length) return;
    let place = links.indexOf(document.activeElement);
    if (place < 0) place = links.findIndex((link) => link.hasAttribute("aria-current"));
    links[Math.max(0, Math.min(links.length - 1, place < 0 ? 0 : place + by))].focus();
  }

  focusMessage() {
    this.app.pane.querySelector("#run-message")?.focus();
  }

  leave() {
    if (this.id || location.search) this.app.go("/run");
  }

  /** A new session begins with its first message. */
  showStart() {
    this.app.setTitle("Run");
    const problem = element("div", { role: "alert" });
    const asks = element("input", { type: "checkbox" });
    const composer = renderComposer({
      models: this.models,
      extra: [element("label", { class: "check" }, asks, " Ask before each tool call")],
      onSend: async (text, fields) => {
        problem.replaceChildren();
        try {
          const settings = asks.checked ? { approvals: [{ tool: "*", action: "ask" }] } : undefined;
          const session = await this.client.createSession({ intent: makeTitle(text), model: fields.model, settings });
          await session.post(text, fields);
          this.load();
          this.app.go(`/run/${encodeURIComponent(session.id)}`);
          return true;
        } catch (failure) {
          problem.replaceChildren(describeFailure(failure));
          return false;
        }
      },
    });
    const hint = element("div", { class: "start-hint" });
    this.models.then((known) => hint.replaceChildren(...describeModels(known)), (failure) => hint.replaceChildren(describeFailure(failure)));
    this.app.pane.replaceChildren(
      element(
        "div", { class: "toolbar", role: "toolbar", "aria-label": "New session" },
        element("button", { type: "button", class: "button back", click: () => this.leave() }, "Back"),
        element("span", { class: "where" }, "New session"),
      ),
      element("div", { class: "chat" }, element("div", { class: "chat-inner" }, element("h1", {}, "What shall the agent do?"), hint)),
      element("div", { class: "dock" }, problem, composer.form),
    );
    if (this.app.isWide()) composer.field.focus();
  }

  /** Copy a session of this machine to the server, and open the copy. */
  async continueFrom(key) {
    this.app.setTitle("Continue here");
    const say = (text) => this.app.pane.replaceChildren(element(
      "div", { class: "notice", role: "status" }, element("progress", { "aria-label": text }), ` ${text}`,
    ));
    try {
      say("Reading the session");
      const row = await request(`/web/sessions/${encodeURIComponent(key)}`, { signal: this.signal });
      const response = await fetch(`/web/run/sessions/${encodeURIComponent(key)}`, { signal: this.signal });
      if (!response.ok) {
        const { error, help } = await response.json();
        throw new RequestError(error, help, response.status);
      }
      const file = await response.blob();
      say("Copying it to the session server");
      const form = new FormData();
      form.append("file", file, "session.open-token.ndjson");
      if (row.title) form.append("name", row.title);
      const created = await this.client.request("POST", "/api/sessions/import", form, { signal: this.signal });
      this.load();
      this.app.go(`/run/${encodeURIComponent(created.session_id)}`, { replace: true });
      this.app.say("This is a copy: the session of the other agent stays as it is");
    } catch (problem) {
      if (!this.signal.aborted) this.app.pane.replaceChildren(describeFailure(problem));
    }
  }
}

function makeTitle(text) {
  const line = text.trim().split("\n")[0];
  return line.length > MAX_TITLE ? `${line.slice(0, MAX_TITLE - 3)}...` : line;
}

/** What answers here, and how to configure a model where only the demo is there. */
function describeModels(known) {
  if (known.models.some((model) => model.id !== "demo")) {
    return [element("p", {}, `${known.default} answers, unless you choose another model below.`)];
  }
  const code = (text) => element("code", {}, text);
  return [
    element("p", {}, "No model is configured: the offline demo answers. Try ", code("list files"), ", ", code("ask"), ", ", code("plan"), " or ", code("long"), "."),
    element("p", {}, "For a real one, set the key of a provider before the command and choose a model in ", code("config.toml"), " of the settings folder:"),
    element("pre", {}, 'export ANTHROPIC_API_KEY=...      # or OPENAI_API_KEY, GOOGLE_API_KEY\n\n[server]\nmodel = "anthropic:claude-sonnet-4-6"'),
  ];
}
