// Lines: a file of a project, each group of lines with the prompt that wrote it.

import { describeEmpty, describeProblem, element, request, shortenPath } from "/web/assets/dom.js";

export function open(app, route, signal) {
  const view = new LinesView(app, signal);
  view.start(route);
  return { navigate: (next) => view.navigate(next) };
}

class LinesView {
  constructor(app, signal) {
    this.app = app;
    this.signal = signal;
    this.folder = element("select", { id: "lines-folder" });
    this.path = element("input", {
      id: "lines-path", type: "text", placeholder: "src/parser.py", autocomplete: "off", spellcheck: "false", required: true,
    });
    this.count = element("p", { class: "count", role: "status" });
    this.body = element("div", { class: "blamed" });
    app.list.hidden = true;
    app.pane.replaceChildren(element(
      "div", { class: "lines-screen" },
      element("h1", {}, "Lines"),
      element("p", { class: "count" }, "Which prompt of which session wrote each line of a file."),
      element(
        "form", { class: "lines-form", submit: (event) => { event.preventDefault(); this.apply(); } },
        element("label", { for: "lines-folder" }, "Folder"), this.folder,
        element("label", { for: "lines-path" }, "File"), this.path,
        element("button", { type: "submit" }, "Show"),
      ),
      this.count,
      this.body,
    ));
    app.setKeys({ "/": () => { this.path.focus(); this.path.select(); } });
  }

  async start(route) {
    try {
      const answer = await request("/web/lines/folders", { signal: this.signal });
      this.folder.replaceChildren(...answer.folders.map((name) => element("option", { value: name }, shortenPath(name, answer.home))));
      if (!answer.folders.length) {
        this.body.replaceChildren(describeEmpty("No folder of a session is on this machine", "Run an agent in a project, then come back."));
        return;
      }
    } catch (problem) {
      if (problem.name !== "AbortError") this.body.replaceChildren(describeProblem(problem));
      return;
    }
    this.navigate(route);
  }

  navigate(route) {
    const folder = route.query.get("folder"), path = route.query.get("path") || "";
    if (folder) this.folder.value = folder;
    this.path.value = path;
    if (path) this.show();
    else this.body.replaceChildren(describeEmpty("Name a file", "`open-token blame FILE:LINE` tells the same in a terminal."));
  }

  apply() {
    const words = new URLSearchParams({ folder: this.folder.value, path: this.path.value });
    this.app.go(`/lines?${words}`);
  }

  async show() {
    this.count.textContent = "Reading the sessions that changed this file ...";
    this.body.replaceChildren();
    try {
      const words = new URLSearchParams({ folder: this.folder.value, path: this.path.value });
      const answer = await request(`/web/lines?${words}`, { signal: this.signal });
      this.count.textContent = `${answer.explained} of ${answer.total} lines were written by sessions on this machine`;
      this.body.replaceChildren(...answer.groups.map((group) => this.renderGroup(group)));
    } catch (problem) {
      if (problem.name === "AbortError") return;
      this.count.textContent = "";
      this.body.replaceChildren(describeProblem(problem));
    }
  }

  renderGroup(group) {
    const origin = group.origin;
    const head = origin
      ? [
        element("a", { href: group.key ? `/sessions/${group.key}#${encodeURIComponent(origin.event_id)}` : null }, origin.prompt || "(no prompt)"),
        element("small", {}, [origin.agent, origin.model, origin.ts.slice(0, 10)].filter(Boolean).join(" · ")),
      ]
      : [element("small", {}, group.commit ? `no session explains this · commit ${group.commit.slice(0, 8)}` : "no session explains this")];
    return element(
      "section", { class: origin ? "line-group" : "line-group unknown" },
      element("div", { class: "line-origin" }, ...head),
      element("ol", { class: "line-texts", start: group.first }, ...group.lines.map((text) => element("li", {}, element("code", {}, text || " ")))),
    );
  }
}
