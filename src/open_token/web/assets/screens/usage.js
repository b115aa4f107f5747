// Usage: tokens and estimated cost by day, project, model, agent or tool, and the dearest sessions.

import { describeEmpty, describeProblem, element, formatTokens, request, shortenPath } from "/web/assets/dom.js";

const GROUPS = [
  ["day", "Day"], ["week", "Week"], ["month", "Month"], ["project", "Project"], ["model", "Model"],
  ["branch", "Branch"], ["agent", "Agent"], ["tool", "Tool"], ["block", "Five hours"],
];
const SPANS = [["7d", "7 days"], ["30d", "30 days"], ["90d", "90 days"], ["", "All"]];
const TIMES = new Set(["day", "week", "month", "block"]);
const MAX_ROWS = 400;

export function open(app, route, signal) {
  const view = new UsageView(app, signal);
  view.navigate(route);
  return view;
}

class UsageView {
  constructor(app, signal) {
    this.app = app;
    this.signal = signal;
    app.setTitle("Usage");
    this.body = element("div", { class: "usage-body" });
    this.by = this.buildChoice("Group by", GROUPS, "by");
    this.since = this.buildChoice("Time", SPANS, "since");
    app.pane.classList.add("scrolls");
    app.pane.replaceChildren(element(
      "div", { class: "sheet-wide" },
      element("h1", {}, "Usage"),
      element("div", { class: "choices" }, this.by, this.since),
      this.body,
    ));
  }

  buildChoice(label, options, name) {
    return element(
      "div", { class: "seg", role: "group", "aria-label": label },
      options.map(([value, text]) => element("button", {
        type: "button", "data-value": value, "aria-pressed": "false",
        click: () => this.choose(name, value),
      }, text)),
    );
  }

  choose(name, value) {
    const query = new URLSearchParams(location.search);
    query.set(name, value);
    this.app.go(`/usage?${query}`);
  }

  async navigate(route) {
    const by = route.query.get("by") || "day";
    const since = route.query.has("since") ? route.query.get("since") : "30d";
    press(this.by, by);
    press(this.since, since);
    const asked = `${by} ${since}`;
    this.asked = asked;
    const timer = setTimeout(() => this.body.replaceChildren(element("p", { class: "waiting-line", role: "status" }, element("progress", { "aria-label": "Counting" }), " Counting")), 300);
    try {
      const answer = await request(`/web/usage?by=${by}&since=${since}`, { signal: this.signal });
      if (asked === this.asked) this.render(answer);
    } catch (problem) {
      if (problem.name !== "AbortError" && asked === this.asked) this.body.replaceChildren(describeProblem(problem));
    } finally {
      clearTimeout(timer);
    }
  }

  render(answer) {
    if (!answer.rows.length) {
      this.body.replaceChildren(answer.index.is_running
        ? describeEmpty("Sessions are being indexed", "Their usage appears here when they have been read.")
        : describeEmpty("Nothing was used in this time", "Choose a longer time. In a terminal: `open-token stats`."));
      return;
    }
    this.body.replaceChildren(
      this.renderTotal(answer.total),
      this.renderTable(answer),
      ...this.renderDearest(answer),
      this.renderRemarks(answer),
    );
  }

  renderTotal(total) {
    const given = total.input + total.cache_read + total.cache_write;
    const figures = [
      [`$${total.cost.toFixed(2)}`, "estimated"],
      [total.sessions.toLocaleString("en"), "sessions"],
      [total.prompts.toLocaleString("en"), "prompts"],
      [total.calls.toLocaleString("en"), `calls, ${total.failures.toLocaleString("en")} failed`],
      [formatTokens(given), "tokens in"],
      [given ? `${Math.round((100 * total.cache_read) / given)} %` : "-", "of them from the cache"],
      [formatTokens(total.output), "tokens out"],
    ];
    return element(
      "dl", { class: "figures" },
      figures.map(([value, label]) => element("div", {}, element("dt", {}, label), element("dd", {}, value))),
    );
  }

  renderTable(answer) {
    const isTime = TIMES.has(answer.by);
    const byTool = answer.by === "tool";
    const measure = (row) => (byTool ? row.counts.calls : row.counts.cost || 0);
    const rows = [...answer.rows];
    if (isTime) rows.reverse();
    else rows.sort((a, b) => measure(b) - measure(a) || countTokens(b.counts) - countTokens(a.counts));
    const most = Math.max(...rows.map(measure), 1e-9);
    const columns = byTool ? ["Calls", "Failed"] : ["Sessions", "Prompts", "Calls", "Failed", "In", "Cached", "Out", "Cost"];
    return element(
      "div", { class: "table-wide", tabindex: "0", role: "region", "aria-label": `Usage by ${answer.by}` },
      element(
        "table", { class: isTime ? "usage times" : "usage" },
        element("thead", {}, element("tr", {},
          element("th", { scope: "col" }, (GROUPS.find(([value]) => value === answer.by) || ["", answer.by])[1]),
          element("th", { scope: "col", class: "bar-cell" }, element("span", { class: "sr-only" }, "share")),
          columns.map((name) => element("th", { scope: "col", class: "number" }, name)))),
        element("tbody", {}, rows.slice(0, MAX_ROWS).map((row) => this.renderRow(row, answer, measure(row) / most, byTool))),
      ),
    );
  }

  renderRow(row, answer, share, byTool) {
    const { counts } = row;
    const bar = element("span", { class: "amount" });
    bar.style.width = `${Math.max(share * 100, share ? 1 : 0)}%`;
    const given = counts.input + counts.cache_read + counts.cache_write;
    const values = byTool
      ? [counts.calls.toLocaleString("en"), counts.failures || ""]
      : [counts.sessions, counts.prompts, counts.calls, counts.failures || "", formatTokens(given), given ? `${Math.round((100 * counts.cache_read) / given)} %` : "", formatTokens(counts.output), counts.cost ? `$${counts.cost.toFixed(2)}` : ""];
    const name = answer.by === "project" ? shortenPath(row.name, answer.home) : row.name;
    return element(
      "tr", {},
      element("th", { scope: "row" }, element("bdi", {}, name), row.is_active ? element("span", { class: "badge" }, "active") : null),
      element("td", { class: "bar-cell" }, bar),
      values.map((value) => element("td", { class: "number" }, String(value))),
    );
  }

  renderDearest(answer) {
    if (!answer.dearest.length) return [];
    return [
      element("h2", {}, "Dearest sessions"),
      element("ol", { class: "dearest" }, answer.dearest.map((row) => element(
        "li", {},
        element("a", { href: `/sessions/${row.key}` }, element("bdi", {}, row.title || row.name)),
        element("span", { class: "number" }, `$${row.counts.cost.toFixed(2)}`),
      ))),
    ];
  }

  renderRemarks(answer) {
    const remarks = [];
    if (!answer.has_prices) remarks.push("No price list is installed: the package genai-prices has one.");
    else if (answer.prices_checked) remarks.push(`Costs are estimated, with prices of ${answer.prices_checked}. Forked, resumed and handed-over sessions are counted once.`);
    const unknown = Object.keys(answer.unpriced);
    if (unknown.length) remarks.push(`No price is known for ${unknown.slice(0, 5).join(", ")}${unknown.length > 5 ? ` and ${unknown.length - 5} more` : ""}: their tokens have no cost.`);
    return element("p", { class: "remarks" }, remarks.join(" "));
  }
}

function countTokens(counts) {
  return counts.input + counts.cache_read + counts.cache_write + counts.output;
}

function press(group, value) {
  group.querySelectorAll("button").forEach((button) => button.setAttribute("aria-pressed", String(button.dataset.value === value)));
}
