// The files of a session's workspace: folders, download, upload, delete.

import { describeFailure } from "/web/assets/chat.js";
import { element, formatBytes } from "/web/assets/dom.js";

/** A panel with the files of a session; `refresh` shows what is there now. */
export class FilesPanel {
  constructor(app, client, session, signal) {
    this.app = app;
    this.client = client;
    this.session = session;
    this.signal = signal;
    this.folder = "";
    this.place = element("p", { class: "files-place" });
    this.items = element("ul", { class: "panel-items" });
    this.problem = element("div", { role: "alert" });
    this.upload = element("input", { type: "file", multiple: true, hidden: true, change: () => this.send() });
    this.root = element(
      "section", { class: "files-panel", "aria-label": "Files of the workspace", hidden: true },
      element(
        "div", { class: "files-head" }, this.place,
        element("button", { type: "button", class: "button", click: () => this.upload.click() }, "Upload"),
        element("button", { type: "button", class: "button", click: () => { this.root.hidden = true; } }, "Close"),
        this.upload,
      ),
      this.problem, this.items,
    );
  }

  toggle() {
    this.root.hidden = !this.root.hidden;
    if (!this.root.hidden) this.refresh();
  }

  async refresh() {
    if (this.root.hidden) return;
    const folder = this.folder;
    try {
      const entries = await this.client.request("GET", `${this.session.path}/ls/${encodePath(folder)}`, undefined, { signal: this.signal });
      if (folder === this.folder) this.render(entries);
    } catch (problem) {
      this.fail(problem);
    }
  }

  render(entries) {
    this.problem.replaceChildren();
    const parts = this.folder.split("/").filter(Boolean);
    this.place.replaceChildren(
      element("button", { type: "button", class: "link", click: () => this.go("") }, "workspace"),
      ...parts.flatMap((name, index) => [" / ", element("button", { type: "button", class: "link", click: () => this.go(parts.slice(0, index + 1).join("/")) }, name)]),
    );
    const sorted = [...entries].sort((a, b) => b.is_dir - a.is_dir || a.name.localeCompare(b.name));
    this.items.replaceChildren(...sorted.map((entry) => this.renderEntry(entry)));
    if (!sorted.length) this.items.replaceChildren(element("li", { class: "panel-item" }, "There are no files here."));
  }

  renderEntry(entry) {
    const address = `${this.session.path}/files/${encodePath(entry.path)}`;
    const name = entry.is_dir
      ? element("button", { type: "button", class: "link", click: () => this.go(entry.path) }, element("bdi", {}, `${entry.name}/`))
      : element("a", { href: address, download: entry.name, target: "_blank", rel: "noopener" }, element("bdi", {}, entry.name));
    return element(
      "li", { class: "panel-item" }, name,
      element(
        "span", { class: "panel-actions" },
        entry.is_dir ? null : element("span", { class: "found-place" }, formatBytes(entry.size)),
        element("button", { type: "button", class: "button", "aria-label": `Delete ${entry.name}`, click: () => this.remove(entry, address) }, "Delete"),
      ),
    );
  }

  go(folder) {
    this.folder = folder;
    this.refresh();
  }

  async remove(entry, address) {
    if (!confirm(entry.is_dir ? `Delete the folder ${entry.name} with all files in it?` : `Delete the file ${entry.name}?`)) return;
    await this.perform(() => this.client.request("DELETE", address));
  }

  async send() {
    const form = new FormData();
    for (const file of this.upload.files) form.append("files", file, file.name);
    this.upload.value = "";
    await this.perform(async () => {
      const done = await this.client.request("POST", `${this.session.path}/upload/${encodePath(this.folder)}`, form);
      if (done.failed.length) this.app.say(`Not uploaded: ${done.failed.join(", ")}`);
    });
  }

  async perform(action) {
    try {
      await action();
      await this.refresh();
    } catch (problem) {
      this.fail(problem);
    }
  }

  fail(problem) {
    if (!this.signal.aborted) this.problem.replaceChildren(describeFailure(problem));
  }
}

const encodePath = (path) => path.split("/").map(encodeURIComponent).join("/");
