// Search: what was said in all sessions, by session, with who said it; a hit opens its page there.

import { debounce, describeEmpty, describeProblem, element, formatClock, formatCount, formatDay, getDay, request, shortenPath } from "/web/assets/dom.js";
import { SessionPage } from "/web/assets/session_page.js";

const HINT = '"a phrase" migrat* -word role:person agent:codex tool:Bash path:app.py since:2w';

export function open(app, route, signal) {
  const view = new SearchView(app, signal);
  view.navigate(route);
  return view;
}

class SearchView {
  constructor(app, signal) {
    this.app = app;
    this.signal = signal;
    this.words = null;
    this.key = "";
    this.page = new SessionPage(app, signal, () => this.leavePage());
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
  }

  build() {
    this.field = element("input", {
      type: "search", id: "search-words", placeholder: "Search all sessions", autocomplete: "off", spellcheck: "false",
      "aria-label": "Search all sessions", "aria-describedby": "search-hint",
      input: debounce(() => this.apply(), 120),
      keydown: (event) => {
        if (event.key === "Enter" || event.key === "ArrowDown") { event.preventDefault(); this.apply(); this.step(0); }
        if (event.key === "Escape") this.field.blur();
      },
    });
    this.count = element("p", { class: "count", role: "status" });
    this.body = element("div", { class: "groups" });
    this.app.list.hidden = false;
    this.app.list.setAttribute("aria-label", "Search results");
    this.app.list.replaceChildren(
      element(
        "header", { class: "list-head" },
        element("h1", {}, "Search"),
        this.count,
        element("div", { class: "field", role: "search" }, this.field),
        element("p", { id: "search-hint", class: "hint" }, HINT),
      ),
      this.body,
    );
  }

  navigate(route) {
    const words = route.query.get("q") || "";
    const key = route.path[0] || "";
    document.body.classList.toggle("reading", Boolean(key));
    this.key = key;
    this.hash = route.hash;
    if (key) this.page.show(key, route.hash);
    else this.showNothing();
    if (words !== this.words) {
      if (this.field.value !== words) this.field.value = words;
      this.search(words);
    }
    if (!key && document.activeElement !== this.field) this.field.focus();
    this.markCurrent();
  }

  apply() {
    const words = this.field.value;
    if (words === this.words) return;
    const place = this.key ? `/search/${this.key}` : "/search";
    history.replaceState(null, "", `${place}${words ? `?q=${encodeURIComponent(words)}` : ""}${location.hash}`);
    this.search(words);
  }

  async search(words) {
    this.words = words;
    if (!words.trim()) {
      this.count.textContent = "";
      this.body.replaceChildren(describeEmpty("Find what was said", "Prompts, answers, commands, output and reasoning of all agents on this machine. In a terminal: `open-token search WORDS`."));
      return;
    }
    try {
      const answer = await request(`/web/search?q=${encodeURIComponent(words)}`, { signal: this.signal });
      if (words !== this.words) return;
      this.home = answer.home;
      this.render(answer);
    } catch (problem) {
      if (problem.name === "AbortError" || words !== this.words) return;
      this.count.textContent = "";
      this.body.replaceChildren(describeProblem(problem));
    }
  }

  render(answer) {
    const { sessions } = answer;
    const more = answer.is_complete ? "" : "+";
    this.count.textContent = sessions.length ? `${sessions.length}${more} sessions, ${answer.milliseconds} ms` : "";
    if (!sessions.length) {
      const running = answer.index.is_running ? " The index is still being built: older sessions are missing." : "";
      this.body.replaceChildren(describeEmpty("Nothing was found", `All words must be in one event. A masked value cannot be found.${running}`));
      return;
    }
    const terms = findTerms(this.words);
    this.body.replaceChildren(...sessions.map((row) => this.renderSession(row, terms)));
    this.markCurrent();
  }

  renderSession(row, terms) {
    const folder = row.cwd ? shortenPath(row.cwd, this.home) : "";
    const place = [row.agent, folder, row.branch].filter(Boolean).join(" · ");
    return element(
      "section", { class: "found" },
      element("h2", {}, element("bdi", {}, row.title || row.key)),
      element("p", { class: "found-place" }, `${place} · ${formatDay(getDay(row.modified))} ${formatClock(row.modified)}`),
      element("ul", {}, row.hits.map((hit) => element("li", {}, this.renderHit(row, hit, terms)))),
      row.more ? element("p", { class: "found-place" }, `and ${formatCount(row.more, "more event")}`) : null,
    );
  }

  renderHit(row, hit, terms) {
    const who = hit.tool && hit.role === "command" ? hit.tool : hit.role;
    return element(
      "a",
      {
        class: `hit role-${hit.role}`, "data-key": row.key, "data-event": hit.event_id,
        href: `/search/${row.key}?q=${encodeURIComponent(this.words)}#${encodeURIComponent(hit.event_id)}`,
      },
      element("span", { class: "who" }, who),
      element("span", { class: "snippet", dir: "auto" }, ...highlight(hit.snippet, terms)),
      element("span", { class: "seq" }, `#${hit.seq}`),
    );
  }

  markCurrent() {
    this.body.querySelectorAll("a.hit").forEach((link) => {
      const isCurrent = link.dataset.key === this.key && (!this.hash || link.dataset.event === decodeURIComponent(this.hash));
      if (isCurrent) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    });
  }

  step(by, opens = false) {
    const links = [...this.body.querySelectorAll("a.hit")];
    if (!links.length) return;
    let place = links.indexOf(document.activeElement);
    if (place < 0 || opens) place = links.findIndex((link) => link.hasAttribute("aria-current"));
    const next = links[Math.max(0, Math.min(links.length - 1, place < 0 ? 0 : place + by))];
    next.focus();
    next.scrollIntoView({ block: "nearest" });
    if (opens) this.app.go(next.getAttribute("href"));
  }

  leavePage() {
    if (!this.key) return;
    const current = this.body.querySelector("a.hit[aria-current]");
    this.app.go(`/search${this.words ? `?q=${encodeURIComponent(this.words)}` : ""}`);
    if (current) current.focus();
  }

  handlePageKey(event) {
    if (event.key === "Escape") this.leavePage();
    else if (event.key === "[") this.step(-1, true);
    else if (event.key === "]") this.step(1, true);
    else this.app.handleKey(event);
  }

  showNothing() {
    this.page.close();
    this.app.setTitle("Search");
    this.app.pane.replaceChildren(describeEmpty("Nothing is open", "A hit opens its session at that event."));
  }
}

/** The words of a query that can be marked in a text. */
function findTerms(words) {
  return words
    .replace(/(^|\s)-\S+/g, " ")
    .replace(/(^|\s)(agent|project|role|tool|path|since|until|regex):\S+/g, " ")
    .split(/[\s"*]+/)
    .filter((word) => word.length > 1)
    .map((word) => word.toLowerCase());
}

/** Split a text into strings and marked parts. */
function highlight(text, terms) {
  const lower = text.toLowerCase();
  const parts = [];
  let start = 0;
  while (start < text.length) {
    let next = -1;
    let length = 0;
    for (const term of terms) {
      const at = lower.indexOf(term, start);
      if (at >= 0 && (next < 0 || at < next || (at === next && term.length > length))) { next = at; length = term.length; }
    }
    if (next < 0 || lower.length !== text.length) break;
    parts.push(text.slice(start, next), element("mark", {}, text.slice(next, next + length)));
    start = next + length;
  }
  parts.push(text.slice(start));
  return parts;
}
