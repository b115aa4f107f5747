// Share: the page as it will be published, and beside it everything that was found in it.

import { describeEmpty, describeProblem, element, formatCount, request } from "/web/assets/dom.js";

const LEVELS = [["secrets", "Secrets"], ["pii", "Secrets and personal data"], ["strict", "Strict"]];
const FORMATS = [["html", "HTML page"], ["markdown", "Markdown"], ["json", "JSON document"]];
const DECISIONS = [["mask", "Mask"], ["keep", "Keep"], ["false for good", "Never a secret"]];
const MAX_PLACES = 3;

export function open(app, route, signal) {
  const view = new ShareView(app, signal);
  view.navigate(route);
  return view;
}

class ShareView {
  constructor(app, signal) {
    this.app = app;
    this.signal = signal;
    this.key = "";
    this.current = "";
    this.values = new Map();
    this.undone = [];
    app.setKeys({
      j: () => this.step(1),
      k: () => this.step(-1),
      m: () => this.decideCurrent("mask"),
      p: () => this.decideCurrent("keep"),
      u: () => this.undo(),
      "/": () => this.word.focus(),
      Escape: () => this.leave(),
    });
    addEventListener("page-key", (event) => this.handlePageKey(event.detail), { signal });
    addEventListener("share-pick", (event) => this.pick(event.detail), { signal });
    addEventListener("share-word", (event) => this.addWord(event.detail), { signal });
    addEventListener("share-drop", (event) => this.drop("dropped", event.detail), { signal });
    addEventListener("share-media", (event) => this.drop("without_media", event.detail), { signal });
  }

  async navigate(route) {
    const key = route.path[0] || "";
    if (key && key === this.key) return;
    this.key = key;
    this.app.setTitle("Share");
    this.app.list.hidden = !key;
    if (!key) {
      this.app.pane.replaceChildren(describeEmpty("Nothing to share yet", "Open a session and choose Share. In a terminal: `open-token redact SESSION --review --to html -o page.html`"));
      return;
    }
    this.app.list.setAttribute("aria-label", "What was found");
    this.app.list.replaceChildren(element("p", { class: "notice" }, "Searching the session"));
    this.app.pane.replaceChildren(element("div", { class: "waiting" }, element("progress", { "aria-label": "Searching" }), " Searching for secrets"));
    try {
      this.take(await request(`/web/share/${encodeURIComponent(key)}`, { signal: this.signal }));
    } catch (problem) {
      if (problem.name === "AbortError") return;
      this.app.list.hidden = true;
      this.app.pane.replaceChildren(describeProblem(problem));
      return;
    }
    this.build();
    this.render();
  }

  take(state) {
    this.state = state;
    this.draft = state.draft;
  }

  build() {
    this.count = element("p", { class: "count", role: "status" });
    this.level = element("select", { "aria-label": "Level", change: () => this.change({ level: this.level.value }) },
      LEVELS.map(([value, label]) => element("option", { value, selected: value === this.draft.level }, label)));
    this.media = element("input", { type: "checkbox", change: () => this.change({ media: this.media.checked ? "keep" : "drop" }) });
    this.mediaLabel = element("span", {});
    this.word = element("input", { type: "text", "aria-label": "A word to mask", placeholder: "A word to mask everywhere", autocomplete: "off", spellcheck: "false", maxlength: 200 });
    const form = element("form", { class: "share-word", submit: (event) => { event.preventDefault(); this.addWord(this.word.value); } },
      this.word, element("button", { class: "button" }, "Mask it"));
    this.words = element("ul", { class: "chips" });
    this.first = element("select", { "aria-label": "Begin at", change: () => this.change({ first: this.first.value }) });
    this.end = element("select", { "aria-label": "End before", change: () => this.change({ end: this.end.value }) });
    this.leftOut = element("ul", { class: "chips" });
    this.findings = element("ol", { class: "findings", "aria-label": "Findings" });
    this.others = element("p", { class: "buttons-line" });
    this.problem = element("div", {});
    this.app.list.replaceChildren(
      element("header", { class: "list-head" },
        element("h1", {}, "Share"), this.count,
        element("p", { class: "hint-text" }, "The page is exactly what will be published. Select words on it to mask them; point at a row to leave it out.")),
      element("section", { class: "share-part" },
        element("label", { class: "share-line" }, element("span", {}, "Mask"), this.level),
        element("label", { class: "check" }, this.media, this.mediaLabel),
        form, this.words),
      this.problem,
      this.others,
      this.findings,
      element("section", { class: "share-part" },
        element("h2", {}, "Cut"),
        element("label", { class: "share-line" }, element("span", {}, "Begin at"), this.first),
        element("label", { class: "share-line" }, element("span", {}, "End before"), this.end),
        this.leftOut),
    );
    this.format = element("select", { "aria-label": "Format", change: () => this.renderSigning() }, FORMATS.map(([value, label]) => element("option", { value }, label)));
    this.signs = element("input", { type: "checkbox" });
    this.signing = element("label", { class: "check" }, this.signs, element("span", {}, "Sign"));
    this.publishButton = element("button", { type: "button", class: "button primary", click: () => this.publish(false) }, "Publish");
    this.frame = element("iframe", { class: "page", title: "The page as it will be published", src: `/web/share/${encodeURIComponent(this.key)}/page`, load: () => this.tellPage() });
    this.app.pane.replaceChildren(
      element("div", { class: "toolbar", role: "toolbar", "aria-label": "Publish" },
        element("button", { type: "button", class: "button back-narrow", click: () => document.body.classList.remove("reading") }, "Findings"),
        element("a", { class: "button", href: `/sessions/${this.key}` }, "Back to reading"),
        element("span", { class: "actions" }, this.format, this.signing, this.publishButton)),
      element("div", { class: "frame" }, this.frame),
    );
    this.showPage = element("button", { type: "button", class: "button back-narrow", click: () => document.body.classList.add("reading") }, "Page and publish");
    this.app.list.querySelector(".list-head").append(this.showPage);
    this.renderSigning();
  }

  render() {
    const { state, draft } = this;
    const total = state.findings.length;
    this.count.textContent = total ? `${state.undecided} of ${total} undecided` : "nothing found";
    this.level.value = draft.level;
    const keeps = draft.media ? draft.media === "keep" : draft.level === "secrets";
    this.media.checked = keeps;
    this.mediaLabel.textContent = `Images and files${state.media ? ` (${state.media}), which cannot be searched` : ""}`;
    this.words.replaceChildren(...draft.words.map((word) => this.renderChip(word, `Do not mask ${word}`, () => this.change({ words: draft.words.filter((other) => other !== word) }))));
    this.renderPrompts(this.first, "the start", draft.first);
    this.renderPrompts(this.end, "the end", draft.end);
    this.leftOut.replaceChildren(...state.left_out.map((event) => this.renderChip(event.label, `Put back: ${event.label}`, () => this.change({
      dropped: draft.dropped.filter((id) => id !== event.id), without_media: draft.without_media.filter((id) => id !== event.id),
    }))));
    const focused = document.activeElement && document.activeElement.closest("li.finding");
    const again = focused && [focused.dataset.id, document.activeElement.dataset.do];
    this.findings.replaceChildren(...state.findings.map((finding) => this.renderFinding(finding)));
    if (again) {
      const button = this.findings.querySelector(`[data-id="${again[0]}"] [data-do="${again[1]}"]`);
      if (button) button.focus({ preventScroll: true });
    }
    const open_ = state.findings.filter((finding) => !finding.decision);
    this.others.replaceChildren(...(open_.length > 1
      ? [element("button", { type: "button", class: "button", click: () => this.decide(open_, "mask") }, `Mask the other ${open_.length}`)]
      : []));
    this.markCurrent();
  }

  renderPrompts(select, label, value) {
    const options = [["", label], ...this.state.prompts.map((prompt, index) => [prompt.id, `${index + 1}. ${prompt.label}`])];
    select.replaceChildren(...options.map(([id, text]) => element("option", { value: id, selected: id === value }, text)));
  }

  renderChip(label, help, action) {
    return element("li", {}, element("bdi", {}, label), element("button", { type: "button", "aria-label": help, title: help, click: action }, "×"));
  }

  renderFinding(finding) {
    const buttons = finding.lock
      ? [element("span", { class: "lock" }, finding.lock)]
      : DECISIONS.map(([value, label]) => element("button", {
        type: "button", class: "button", "data-do": value, "aria-pressed": String(finding.decision === value),
        click: () => this.decide([finding], value),
      }, label));
    const shown = this.values.get(finding.id);
    const reveal = element("button", { type: "button", class: "link", click: () => this.reveal(finding) }, shown === undefined ? "Show value" : "Hide value");
    const places = finding.places.slice(0, MAX_PLACES).map((place) => element("li", {},
      element("bdi", {}, place.before.slice(-40)), element("mark", {}, finding.type), element("bdi", {}, place.after.slice(0, 40))));
    return element("li", { class: `finding ${finding.decision ? "decided" : "undecided"}`, "data-id": finding.id, click: () => this.select(finding.id, true) },
      element("h2", {}, finding.type.replaceAll("_", " "), element("small", {}, formatCount(finding.count, "place"))),
      element("p", { class: "shape" }, finding.shape),
      element("ul", { class: "places" }, places),
      shown === undefined ? null : element("pre", { class: "value" }, shown),
      element("p", { class: "finding-actions", role: "group", "aria-label": `Decide: ${finding.type}` }, buttons, reveal));
  }

  renderSigning() {
    const isJson = this.format.value === "json";
    this.signing.hidden = !isJson;
    this.signs.disabled = !this.state.signer;
    this.signing.title = this.state.signer ? `with ${this.state.signer}` : `${this.state.problem}; set sign_key in config.toml`;
  }

  /** Change the draft, on the server first: what it answers is what would be published. */
  async change(changes, isUndo = false) {
    if (!isUndo) this.undone.push(this.draft);
    const draft = { ...this.draft, ...changes };
    this.draft = draft;
    this.problem.replaceChildren();
    this.app.list.setAttribute("aria-busy", "true");
    try {
      const state = await request(`/web/share/${encodeURIComponent(this.key)}`, { body: draft, signal: this.signal });
      if (this.draft !== draft) return;
      this.take(state);
      this.render();
      await this.updatePage();
    } catch (problem) {
      if (problem.name === "AbortError") return;
      this.draft = this.state.draft;
      this.problem.replaceChildren(describeProblem(problem));
    } finally {
      this.app.list.removeAttribute("aria-busy");
    }
  }

  undo() {
    const before = this.undone.pop();
    if (before) this.change(before, true);
  }

  decide(findings, decision) {
    const decisions = { ...this.draft.decisions };
    for (const finding of findings) decisions[finding.id] = decision;
    this.change({ decisions });
  }

  decideCurrent(decision) {
    const finding = this.state && this.state.findings.find((one) => one.id === this.current);
    if (!finding || finding.lock) return;
    this.decide([finding], decision);
    this.step(1);
  }

  addWord(text) {
    const word = text.trim();
    if (word.length < 2) return;
    this.word.value = "";
    if (!this.draft.words.includes(word)) this.change({ words: [...this.draft.words, word] });
  }

  drop(list, id) {
    if (id && !this.draft[list].includes(id)) this.change({ [list]: [...this.draft[list], id] });
  }

  async reveal(finding) {
    if (this.values.delete(finding.id)) { this.render(); return; }
    try {
      const answer = await request(`/web/share/${encodeURIComponent(this.key)}/value`, { body: { finding: finding.id } });
      this.values.set(finding.id, answer.value);
      this.render();
    } catch (problem) {
      this.app.say(problem.message);
    }
  }

  /** Bring the page to the state of the draft, without losing the reader's place. */
  async updatePage() {
    const inner = this.frame.contentWindow;
    const version = inner && inner.document.documentElement.dataset.version;
    if (version && version !== this.state.version) {
      const change = await request(`/web/share/${encodeURIComponent(this.key)}/change?version=${encodeURIComponent(version)}`, { signal: this.signal });
      if (change) inner.dispatchEvent(new CustomEvent("share-change", { detail: change }));
    }
    this.tellPage();
  }

  tellPage() {
    const inner = this.frame.contentWindow;
    if (!inner || !this.state) return;
    inner.shareState = { findings: this.state.findings, current: this.current };
    inner.dispatchEvent(new CustomEvent("share-state"));
  }

  /** A finding was chosen on the page. */
  pick(id) {
    this.select(id, false);
    document.body.classList.remove("reading");
  }

  select(id, showsPlace) {
    if (this.current === id && !showsPlace) return;
    this.current = id;
    this.markCurrent();
    this.tellPage();
    const inner = this.frame.contentWindow;
    if (showsPlace && inner) inner.dispatchEvent(new CustomEvent("share-show", { detail: id }));
  }

  markCurrent() {
    this.findings.querySelectorAll("li.finding").forEach((row) => {
      if (row.dataset.id === this.current) {
        row.setAttribute("aria-current", "true");
        row.scrollIntoView({ block: "nearest" });
      } else row.removeAttribute("aria-current");
    });
  }

  step(by) {
    const findings = this.state ? this.state.findings : [];
    if (!findings.length) return;
    const place = findings.findIndex((finding) => finding.id === this.current);
    const next = place < 0 ? 0 : Math.max(0, Math.min(findings.length - 1, place + by));
    this.select(findings[next].id, true);
  }

  handlePageKey(event) {
    if (event.key === "Escape") this.leave();
    else this.app.handleKey(event);
  }

  leave() {
    if (document.body.classList.contains("reading")) document.body.classList.remove("reading");
    else if (this.key) this.app.go(`/sessions/${this.key}`);
  }

  async publish(isConfirmed) {
    this.publishButton.disabled = true;
    try {
      const body = { to: this.format.value, is_signed: !this.signing.hidden && this.signs.checked, is_confirmed: isConfirmed };
      const response = await fetch(`/web/share/${encodeURIComponent(this.key)}/publish`, {
        method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body),
      });
      if (response.status === 409) {
        this.ask((await response.json()).undecided);
        return;
      }
      if (!response.ok) {
        const answer = await response.json().catch(() => ({}));
        throw Object.assign(new Error(answer.error || "it could not be written"), { help: answer.help || "" });
      }
      const name = decodeURIComponent((response.headers.get("content-disposition") || "").split("''")[1] || "session");
      save(await response.blob(), name);
      this.app.say(`Saved: ${name}`);
    } catch (problem) {
      this.problem.replaceChildren(describeProblem(problem));
      document.body.classList.remove("reading");
    } finally {
      this.publishButton.disabled = false;
    }
  }

  ask(undecided) {
    const dialog = element("dialog", { class: "ask-first", "aria-label": "Publish with undecided findings", close: () => dialog.remove() },
      element("h2", {}, `${formatCount(undecided, "finding")} undecided`),
      element("p", {}, undecided === 1 ? "It will be masked." : "They will be masked."),
      element("p", { class: "buttons-line" },
        element("button", { type: "button", class: "button", click: () => dialog.close() }, "Go back"),
        element("button", { type: "button", class: "button primary", click: () => { dialog.close(); this.publish(true); } }, "Mask and publish")));
    document.body.append(dialog);
    dialog.showModal();
  }
}

/** Let the browser save bytes under a name. */
function save(blob, name) {
  const address = URL.createObjectURL(blob);
  const link = element("a", { href: address, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}
