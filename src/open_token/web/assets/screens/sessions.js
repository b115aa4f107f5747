// Sessions and Read: the list of all sessions by day and project, and the page of one of them.

import {
  debounce, describeEmpty, describeProblem, element, formatBytes, formatClock, formatCost, formatCount,
  formatDay, formatTokens, getDay, request, shortenPath,
} from "/web/assets/dom.js";
import { SessionPage } from "/web/assets/session_page.js";

const PAGE = 200;
const HINT = "agent:codex since:2d failed:>0 cost:>5 touched:app.py words";

/** Show the screen; returns what the shell calls when the address changes within it. */
export function open(app, route, signal) {
  const view = new SessionsView(app, signal);
  view.navigate(route);
  return view;
}

class SessionsView {
  constructor(app, signal) {
    this.app = app;
    this.signal = signal;
    this.rows = [];
    this.total = 0;
    this.home = "";
    this.key = "";
    this.page = new SessionPage(app, signal, () => this.leavePage());
    this.filter = new URLSearchParams(location.search).get("filter") || "";
    this.version = -1;
    this.build();
    app.setKeys({
      j: () => this.step(1),
      k: () => this.step(-1),
      "]": () => this.step(1, true),
      "[": () => this.step(-1, true),
      "/": () => { this.field.focus(); this.field.select(); },
      Escape: () => this.leavePage(),
    });
    addEventListener("page-key", (event) => this.handlePageKey(event.detail), { signal });
    app.onNews((news) => this.takeNews(news), signal);
    this.load().then(() => this.welcome());
  }

  build() {
    this.field = element("input", {
      type: "search", id: "session-filter", placeholder: "Filter", autocomplete: "off", spellcheck: "false",
      "aria-label": "Filter sessions", "aria-describedby": "filter-hint", value: this.filter,
      input: debounce(() => this.applyFilter(), 150),
      keydown: (event) => {
        if (event.key === "Escape") { this.field.value = ""; this.applyFilter(); this.field.blur(); }
        if (event.key === "Enter" || event.key === "ArrowDown") { event.preventDefault(); this.step(0); }
      },
    });
    this.count = element("p", { class: "count", role: "status" });
    this.progress = element("div", { class: "indexing", hidden: true });
    this.body = element("div", { class: "groups", click: (event) => this.click(event) });
    this.end = element("div", { class: "end", "aria-hidden": "true" });
    const head = element(
      "header", { class: "list-head" },
      element("h1", {}, "Sessions"),
      this.count,
      element("div", { class: "field", role: "search" }, this.field),
      element("p", { id: "filter-hint", class: "hint" }, HINT),
      this.progress,
    );
    this.app.list.hidden = false;
    this.app.list.setAttribute("aria-label", "Sessions");
    this.app.list.replaceChildren(head, this.body, this.end);
    new IntersectionObserver((seen) => { if (seen[0].isIntersecting) this.loadMore(); }, { root: this.app.list, rootMargin: "600px" })
      .observe(this.end);
  }

  /** The address has changed: show the session that it names. */
  navigate(route) {
    const key = route.path[0] || "";
    const filter = route.query.get("filter") || "";
    if (filter !== this.filter) { this.filter = filter; this.field.value = filter; this.load(); }
    document.body.classList.toggle("reading", Boolean(key));
    this.key = key;
    if (key) this.page.show(key, route.hash);
    else this.showNothing();
    this.markCurrent();
  }

  applyFilter() {
    if (this.field.value === this.filter) return;
    this.filter = this.field.value;
    const query = this.filter ? `?filter=${encodeURIComponent(this.filter)}` : "";
    history.replaceState(null, "", `/sessions${this.key ? `/${this.key}` : ""}${query}`);
    this.load();
  }

  /** Load as many rows as there are now, at least one page of them. */
  async load() {
    const wanted = Math.max(PAGE, Math.min(500, this.rows.length));
    await this.fetchRows(0, wanted);
  }

  async loadMore() {
    if (this.isLoading || this.rows.length >= this.total) return;
    await this.fetchRows(this.rows.length, PAGE);
  }

  async fetchRows(offset, limit) {
    this.isLoading = true;
    const asked = this.filter;
    const query = `filter=${encodeURIComponent(asked)}&offset=${offset}&limit=${limit}`;
    try {
      const answer = await request(`/web/sessions?${query}`, { signal: this.signal });
      if (asked !== this.filter) return;
      this.total = answer.total;
      this.known = answer.known;
      this.home = answer.home;
      this.rows = offset ? this.rows.concat(answer.sessions) : answer.sessions;
      this.render();
      this.showIndex(answer.index);
    } catch (problem) {
      if (problem.name === "AbortError" || asked !== this.filter) return;
      this.count.textContent = "";
      this.body.replaceChildren(describeProblem(problem));
    } finally {
      this.isLoading = false;
    }
  }

  takeNews(news) {
    this.showIndex(news.index);
    if (news.version !== this.version) {
      const isFirst = this.version < 0;
      this.version = news.version;
      if (!isFirst) this.load();
    }
  }

  showIndex(index) {
    this.progress.hidden = !index.is_running && !index.problem;
    if (index.is_running) {
      const label = `Indexing ${index.done.toLocaleString("en")} of ${formatCount(index.total, "session")}`;
      let bar = this.progress.querySelector("progress");
      if (!bar) {
        bar = element("progress", { "aria-label": "Indexing" });
        this.progress.replaceChildren(bar, element("span", {}));
      }
      bar.max = index.total || 1;
      bar.value = index.done;
      this.progress.lastChild.textContent = label;
    } else if (index.problem) {
      this.progress.replaceChildren(describeProblem({ message: "The index is not up to date", help: index.problem }));
    }
  }

  render() {
    const { total, known } = this;
    const shown = total === known ? formatCount(total, "session") : `${total.toLocaleString("en")} of ${formatCount(known, "session")}`;
    this.count.textContent = shown;
    if (!total) {
      this.body.replaceChildren(known
        ? describeEmpty("No session matches", "Change the filter, or search what was said with Ctrl-K.")
        : describeEmpty("No sessions yet", "Sessions of your agents appear here. `open-token formats` lists the folders that are searched; `open-token doctor` says what was found."));
      return;
    }
    const focused = document.activeElement && document.activeElement.dataset && document.activeElement.dataset.key;
    const place = this.app.list.scrollTop;
    this.body.replaceChildren(...this.renderDays());
    this.app.list.scrollTop = place;
    if (focused) {
      const row = this.body.querySelector(`[data-key="${CSS.escape(focused)}"]`);
      if (row) row.focus({ preventScroll: true });
    }
    this.markCurrent();
  }

  renderDays() {
    const days = new Map();
    for (const row of this.rows) {
      const day = getDay(row.modified);
      if (!days.has(day)) days.set(day, new Map());
      const projects = days.get(day);
      if (!projects.has(row.cwd)) projects.set(row.cwd, []);
      projects.get(row.cwd).push(row);
    }
    return [...days].map(([day, projects]) => element(
      "section", { class: "day-group" },
      element("h2", {}, formatDay(day)),
      [...projects].map(([folder, rows]) => this.renderProject(folder, rows)),
    ));
  }

  renderProject(folder, rows) {
    const name = folder ? shortenPath(folder, this.home) : "no folder";
    return element(
      "section", { class: "project", "aria-label": name },
      element("h3", { title: folder }, element("bdi", {}, name)),
      element("ul", {}, rows.map((row) => element("li", {}, this.renderRow(row)))),
    );
  }

  renderRow(row) {
    const facts = [];
    if (row.is_indexed) {
      facts.push(element("span", {}, formatCount(row.prompts, "prompt")));
      if (row.failures) facts.push(element("span", { class: "minus" }, `${row.failures} failed`));
      if (row.added || row.removed) {
        facts.push(element("span", {}, element("b", { class: "plus" }, `+${row.added}`), " ", element("b", { class: "minus" }, `-${row.removed}`)));
      }
      if (row.cost) facts.push(element("span", {}, formatCost(row.cost)));
      else if (row.tokens) facts.push(element("span", {}, `${formatTokens(row.tokens)} tok`));
    } else {
      facts.push(element("span", {}, formatBytes(row.bytes)));
    }
    const marks = [];
    if (row.is_copy) marks.push(["handed over", "A copy of another session, not continued"]);
    if (row.is_archived) marks.push(["archived", "In your archive"]);
    if (row.is_gone) marks.push(["gone at the source", "Only your archive still has it"]);
    if (row.masked) marks.push([`${row.masked} masked`, "Secrets that were found and masked"]);
    if (row.error) marks.push(["cannot be read", row.error]);
    const title = row.title || (row.is_indexed ? row.id : `${row.id} (not indexed yet)`);
    return element(
      "a", { class: "session", href: this.linkTo(row.key), "data-key": row.key },
      element(
        "span", { class: "session-title" },
        row.is_live ? element("span", { class: "live", title: "Its agent is writing to it" }, element("span", { class: "sr-only" }, "live ")) : null,
        element("bdi", {}, title),
      ),
      element("time", { datetime: new Date(row.modified * 1000).toISOString() }, formatClock(row.modified)),
      element(
        "span", { class: "session-facts" },
        element("span", { class: "agent" }, row.agent),
        row.branch ? element("span", { class: "branch" }, element("bdi", {}, row.branch)) : null,
        facts,
      ),
      marks.length ? element("span", { class: "marks-line" }, marks.map(([text, help]) => element("span", { class: "badge", title: help }, text))) : null,
    );
  }

  linkTo(key) {
    return `/sessions/${key}${this.filter ? `?filter=${encodeURIComponent(this.filter)}` : ""}`;
  }

  click(event) {
    if (event.target.closest("a.session")) this.app.list.dataset.place = String(this.app.list.scrollTop);
  }

  markCurrent() {
    this.body.querySelectorAll("a.session").forEach((link) => {
      if (link.dataset.key === this.key) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    });
  }

  /** Move to the next or previous row; 0 stays or takes the first. */
  step(by, opens = false) {
    const links = [...this.body.querySelectorAll("a.session")];
    if (!links.length) return;
    let place = links.indexOf(document.activeElement);
    if (place < 0 || opens) place = links.findIndex((link) => link.dataset.key === this.key);
    const next = links[Math.max(0, Math.min(links.length - 1, place < 0 ? 0 : place + by))];
    next.focus();
    next.scrollIntoView({ block: "nearest" });
    if (opens) this.app.go(next.getAttribute("href"));
  }

  leavePage() {
    if (!this.key) return;
    const key = this.key;
    this.app.go(this.filter ? `/sessions?filter=${encodeURIComponent(this.filter)}` : "/sessions");
    const row = this.body.querySelector(`[data-key="${CSS.escape(key)}"]`);
    if (row) row.focus();
  }

  /** A key that was pressed inside the page. */
  handlePageKey(event) {
    if (event.key === "Escape") this.leavePage();
    else if (event.key === "[") this.step(-1, true);
    else if (event.key === "]") this.step(1, true);
    else this.app.handleKey(event);
  }

  /** On the first visit say what there is, and offer to keep what would be deleted. */
  async welcome() {
    if (this.key || !this.known) return;
    try {
      const state = await request("/web/settings/welcome", { signal: this.signal });
      if (state.is_first && !this.key) this.app.pane.replaceChildren(this.renderWelcome(state));
    } catch { /* it is only a greeting */ }
  }

  renderWelcome(state) {
    const agents = formatCount(state.agents, "agent");
    const soon = state.expiring
      ? `${state.expiring.toLocaleString("en")} will be deleted by their agent within ${state.days} days. An archive on this machine keeps them.`
      : "Some agents delete old sessions by themselves. An archive on this machine keeps them.";
    const finish = (request_) => async (event) => {
      const button = event.currentTarget;
      button.disabled = true;
      try {
        const answer = await request_();
        if (answer.archived !== undefined) this.app.say(`${formatCount(answer.archived, "session")} archived`);
        if (!this.key) this.showNothing();
      } catch (problem) {
        this.app.pane.replaceChildren(describeProblem(problem));
      }
    };
    return element(
      "section", { class: "welcome" },
      element("h1", {}, `${formatCount(state.sessions, "session")} of ${agents}`),
      element("p", {}, soon),
      element(
        "p", { class: "buttons" },
        element("button", { type: "button", class: "button primary", click: finish(() => { this.app.say("Archiving"); return request("/web/settings/archive", { body: {} }); }) }, "Keep them"),
        element("button", { type: "button", class: "button", click: finish(() => request("/web/settings/welcome", { body: {} })) }, "Just look"),
      ),
    );
  }

  showNothing() {
    this.page.close();
    this.app.setTitle("Sessions");
    this.app.pane.replaceChildren(describeEmpty("Nothing is open", "Choose a session, or press j and Enter. Ctrl-K searches everything that was said; ? lists the keys."));
  }
}
