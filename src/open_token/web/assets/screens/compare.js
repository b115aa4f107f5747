// Compare: choose sessions; two of them lie side by side, more are rows of a table.

import {
  debounce, describeEmpty, describeProblem, element, formatClock, formatCost, formatCount, formatDay, formatTokens, getDay,
  request, shortenPath,
} from "/web/assets/dom.js";
import { watchFrame } from "/web/assets/session_page.js";

const MAX_SESSIONS = 12;
const MAX_CANDIDATES = 200;
const HINT = "agent:codex since:2d project:tide words";

export function open(app, route, signal) {
  const view = new CompareView(app, signal);
  view.navigate(route);
  return view;
}

class CompareView {
  constructor(app, signal) {
    this.app = app;
    this.signal = signal;
    this.keys = [];
    this.rows = new Map(); // by key, what is known of a session
    this.candidates = [];
    this.home = "";
    this.version = -1;
    this.build();
    app.setTitle("Compare");
    app.setKeys({
      j: () => this.step(1),
      k: () => this.step(-1),
      "/": () => { this.field.focus(); this.field.select(); },
      Escape: () => document.body.classList.remove("reading"),
    });
    addEventListener("page-key", (event) => this.handlePageKey(event.detail), { signal });
    app.onNews((news) => this.takeNews(news), signal);
  }

  /** The list has changed, or this is the first one. */
  takeNews(news) {
    if (news.version === this.version) return;
    this.version = news.version;
    this.load();
  }

  build() {
    this.field = element("input", {
      type: "search", id: "compare-filter", placeholder: "Filter", autocomplete: "off", spellcheck: "false",
      "aria-label": "Filter sessions", "aria-describedby": "compare-hint", input: debounce(() => this.load(), 150),
    });
    this.count = element("p", { class: "count", role: "status" });
    this.chosen = element("ol", { class: "chosen" });
    this.body = element("div", { class: "candidates" });
    this.show = element("button", {
      type: "button", class: "button back-narrow", click: () => document.body.classList.add("reading"),
    }, "Show");
    this.app.list.hidden = false;
    this.app.list.setAttribute("aria-label", "Sessions to compare");
    this.app.list.replaceChildren(
      element(
        "header", { class: "list-head" },
        element("h1", {}, "Compare"), this.count, this.chosen,
        element("div", { class: "field", role: "search" }, this.field),
        element("p", { id: "compare-hint", class: "hint" }, HINT),
        this.show,
      ),
      this.body,
    );
  }

  /** The sessions stand in the address. */
  async navigate(route) {
    const keys = [...new Set(route.path)].slice(0, MAX_SESSIONS);
    const isSame = keys.join("/") === this.keys.join("/") && this.isShown;
    this.keys = keys;
    if (isSame) return;
    this.isShown = true;
    document.body.classList.toggle("reading", keys.length > 1);
    await this.describeChosen();
    this.renderList();
    if (keys.length === 2) this.showPair();
    else if (keys.length > 2) this.showTable();
    else this.showNothing();
  }

  async load() {
    const asked = this.field.value;
    try {
      const answer = await request(`/web/sessions?filter=${encodeURIComponent(asked)}&limit=${MAX_CANDIDATES}`, { signal: this.signal });
      if (asked !== this.field.value) return;
      this.home = answer.home;
      this.candidates = answer.sessions;
      for (const row of answer.sessions) this.rows.set(row.key, row);
      this.renderList();
    } catch (problem) {
      if (problem.name !== "AbortError") this.body.replaceChildren(describeProblem(problem));
    }
  }

  /** Ask for the sessions of the address that the list has not shown. */
  async describeChosen() {
    await Promise.all(this.keys.filter((key) => !this.rows.has(key)).map(async (key) => {
      try {
        this.rows.set(key, await request(`/web/sessions/${encodeURIComponent(key)}`, { signal: this.signal }));
      } catch { /* the pane says that there is no such session */ }
    }));
  }

  renderList() {
    const { keys } = this;
    this.count.textContent = keys.length ? `${keys.length} chosen` : "";
    this.show.disabled = keys.length < 2;
    this.chosen.replaceChildren(...keys.map((key, index) => this.renderChosen(key, index)));
    const first = this.rows.get(keys[0]);
    const near = first && first.cwd ? this.candidates.filter((row) => row.cwd === first.cwd) : [];
    const others = this.candidates.filter((row) => !near.includes(row));
    const focused = document.activeElement && document.activeElement.dataset && document.activeElement.dataset.key;
    this.body.replaceChildren(
      ...this.renderGroup(near.length ? `In ${shortenPath(first.cwd, this.home)}` : "", near),
      ...this.renderGroup(near.length && others.length ? "Elsewhere" : "", others),
    );
    if (!this.candidates.length) {
      this.body.replaceChildren(describeEmpty("No session matches", "Change the filter. `open-token diff A B` compares files."));
    }
    const again = focused && this.body.querySelector(`[data-key="${CSS.escape(focused)}"]`);
    if (again) again.focus({ preventScroll: true });
  }

  renderChosen(key, index) {
    const row = this.rows.get(key);
    const title = row ? row.title || row.id : key;
    return element(
      "li", {},
      element("span", { class: "letter" }, nameColumn(index)), element("bdi", {}, title),
      row && row.branch ? element("small", {}, element("bdi", {}, row.branch)) : null,
      element("button", { type: "button", "aria-label": `Do not compare ${title}`, title: "Do not compare", click: () => this.toggle(key) }, "×"),
    );
  }

  renderGroup(title, rows) {
    if (!rows.length) return [];
    return [
      title ? element("h2", { class: "group-title" }, element("bdi", {}, title)) : "",
      element("ul", { class: "candidate-list" }, rows.map((row) => element("li", {}, this.renderCandidate(row)))),
    ];
  }

  renderCandidate(row) {
    const facts = [row.agent, row.branch, formatCount(row.prompts, "prompt"), row.failures ? `${row.failures} failed` : ""];
    const day = getDay(row.modified);
    return element(
      "label", { class: "candidate" },
      element("input", { type: "checkbox", "data-key": row.key, checked: this.keys.includes(row.key), change: () => this.toggle(row.key) }),
      element("span", { class: "session-title" }, element("bdi", {}, row.title || row.id)),
      element("span", { class: "session-facts" }, facts.filter(Boolean).map((fact) => element("span", {}, fact)),
        element("span", {}, `${formatDay(day)} ${formatClock(row.modified)}`)),
    );
  }

  toggle(key) {
    const keys = this.keys.includes(key) ? this.keys.filter((other) => other !== key) : [...this.keys, key];
    if (keys.length > MAX_SESSIONS) {
      this.app.say(`At most ${MAX_SESSIONS} sessions can be compared`);
      this.renderList();
      return;
    }
    this.app.go(`/${["compare", ...keys].join("/")}`);
  }

  renderToolbar(...actions) {
    return element(
      "div", { class: "toolbar", role: "toolbar", "aria-label": "This comparison" },
      element("button", { type: "button", class: "button back", click: () => document.body.classList.remove("reading") }, "Choose"),
      element("span", { class: "actions" }, actions),
    );
  }

  showPair() {
    const [a, b] = this.keys;
    const waiting = element("div", { class: "waiting", role: "status" }, element("progress", { "aria-label": "Comparing" }), " Comparing");
    const frame = element("iframe", {
      class: "page", title: "Both sessions side by side",
      src: `/web/compare/${encodeURIComponent(a)}/${encodeURIComponent(b)}/page`,
    });
    watchFrame(frame, waiting, this.signal);
    this.app.pane.classList.remove("scrolls");
    this.app.pane.replaceChildren(
      this.renderToolbar(
        element("a", { class: "button", href: `/sessions/${a}` }, "Read A"),
        element("a", { class: "button", href: `/sessions/${b}` }, "Read B"),
        element("a", { class: "button", href: `/compare/${b}/${a}` }, "Swap"),
      ),
      element("div", { class: "frame" }, waiting, frame),
    );
  }

  async showTable() {
    const { keys } = this;
    this.app.pane.classList.add("scrolls");
    this.app.pane.replaceChildren(this.renderToolbar(), element("p", { class: "waiting-line sheet-wide", role: "status" }, "Comparing ..."));
    try {
      const query = keys.map((key) => `key=${encodeURIComponent(key)}`).join("&");
      const answer = await request(`/web/compare?${query}`, { signal: this.signal });
      if (keys !== this.keys) return;
      this.app.pane.replaceChildren(this.renderToolbar(), this.renderTable(answer.sessions));
    } catch (problem) {
      if (problem.name !== "AbortError" && keys === this.keys) {
        this.app.pane.replaceChildren(this.renderToolbar(), describeProblem(problem));
      }
    }
  }

  renderTable(sessions) {
    const columns = [
      ["Steps", (row) => row.steps], ["Calls", (row) => row.calls], ["Failed", (row) => row.failed],
      ["Time", (row) => row.seconds, formatDuration], ["Input", (row) => row.input_tokens, formatTokens],
      ["Output", (row) => row.output_tokens, formatTokens], ["Cost", (row) => row.cost, formatCost], ["Files", (row) => row.files],
    ].filter(([, read]) => sessions.some((row) => read(row) !== null));
    const head = ["Session", "Model", ...columns.map(([title]) => title)];
    const rows = sessions.map((row, index) => element(
      "tr", {},
      element("th", { scope: "row" },
        element("span", { class: "letter" }, nameColumn(index)), " ",
        element("a", { href: `/sessions/${row.key}` }, element("bdi", {}, row.title)),
        element("small", {}, row.agent)),
      element("td", {}, row.models.join(", ")),
      columns.map(([, read, write]) => this.renderCell(sessions, row, read, write || String)),
    ));
    const [first, ...others] = sessions;
    return element(
      "div", { class: "sheet-wide" },
      element("h1", {}, `${sessions.length} sessions`),
      element("div", { class: "table-wide", tabindex: "0", role: "region", "aria-label": "Totals" },
        element("table", { class: "usage compared-table" },
          element("thead", {}, element("tr", {}, head.map((title, index) => element("th", { scope: "col", class: index > 1 ? "number" : null }, title)))),
          element("tbody", {}, rows))),
      element("h2", {}, "Each beside A"),
      element("ul", { class: "sentences" }, others.map((row, index) => element(
        "li", {},
        element("a", { href: `/compare/${first.key}/${row.key}` }, `A and ${nameColumn(index + 1)}`), " ", row.sentence,
      ))),
      element("p", { class: "remarks" }, "Costs are estimates. The least of each column is in bold."),
    );
  }

  renderCell(sessions, row, read, write) {
    const value = read(row);
    const known = sessions.map(read).filter((other) => other !== null);
    const isLeast = value !== null && known.some((other) => other > value) && value === Math.min(...known);
    const text = value === null ? "" : write(value);
    return element("td", { class: "number" }, isLeast ? element("b", {}, text) : text);
  }

  showNothing() {
    const missing = this.keys.length ? "Choose another session" : "Choose sessions";
    this.app.pane.classList.remove("scrolls");
    this.app.pane.replaceChildren(describeEmpty(missing,
      "Two sessions lie side by side, from the step on at which they part. Three or more become a table. `open-token diff A B` does the same with files."));
  }

  step(by) {
    const boxes = [...this.body.querySelectorAll("input")];
    if (!boxes.length) return;
    const place = boxes.indexOf(document.activeElement);
    const next = boxes[place < 0 ? 0 : Math.max(0, Math.min(boxes.length - 1, place + by))];
    next.focus();
    next.scrollIntoView({ block: "nearest" });
  }

  handlePageKey(event) {
    if (event.key === "Escape") document.body.classList.remove("reading");
    else this.app.handleKey(event);
  }
}

const nameColumn = (index) => String.fromCharCode(65 + index);

function formatDuration(seconds) {
  if (seconds < 60) return `${seconds.toFixed(0)} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 60 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, "0")} min`;
}
