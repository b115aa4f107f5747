// Settings: what is installed where, redaction with a try-out, trusted keys, the archive.

import { debounce, describeProblem, element, formatCount, renderCommands, request, shortenPath } from "/web/assets/dom.js";

const SHOWN = { absent: "not installed", registered: "installed" };

export function open(app, route, signal) {
  app.setTitle("Settings");
  app.pane.classList.add("scrolls");
  const body = element("div", { class: "sheet-wide" }, element("h1", {}, "Settings"));
  app.pane.replaceChildren(body);
  load(app, body, signal);
  return { navigate() {} };
}

async function load(app, body, signal) {
  const waiting = element("p", { class: "waiting-line", role: "status" }, element("progress", { "aria-label": "Checking" }), " Checking this machine");
  body.append(waiting);
  try {
    const state = await request("/web/settings", { signal });
    waiting.remove();
    body.append(
      renderProblems(state),
      renderAgents(state),
      renderArchive(app, state, () => { body.replaceChildren(element("h1", {}, "Settings")); load(app, body, signal); }),
      renderRedaction(state, signal),
      renderSigners(state),
      renderPackages(state),
    );
  } catch (problem) {
    if (problem.name !== "AbortError") waiting.replaceWith(describeProblem(problem));
  }
}

function section(title, ...children) {
  return element("section", { class: "setting" }, element("h2", {}, title), ...children);
}

function renderProblems(state) {
  if (!state.problems.length) return section("State", element("p", { class: "good" }, "No problems were found."));
  return section("State", element("ul", { class: "problems" }, state.problems.map((problem) => element(
    "li", {}, element("strong", {}, problem.text), element("p", {}, ...renderCommands(problem.remedy)),
  ))));
}

function renderAgents(state) {
  if (!state.agents.length) {
    return section("Agents", element("p", {}, ...renderCommands("No sessions of agents were found; `open-token formats` lists the folders searched.")));
  }
  const cell = (value, command) => {
    if (value === null || value === undefined) return element("td", {}, "-");
    const text = SHOWN[value] || value;
    return element("td", {}, text, value === "absent" ? element("code", { class: "remedy" }, command) : null);
  };
  return section("Agents", element("div", { class: "table-wide", tabindex: "0", role: "region", "aria-label": "Agents" }, element(
    "table", { class: "usage" },
    element("thead", {}, element("tr", {}, ["Agent", "Sessions", "Kept", "Hooks", "Skill", "MCP"].map((name) => element("th", { scope: "col" }, name)))),
    element("tbody", {}, state.agents.map((agent) => {
      const label = agent.name.replaceAll("_", "-");
      return element(
        "tr", {},
        element("th", { scope: "row" }, agent.title),
        element("td", {}, Object.entries(agent.places).map(([folder, count]) => element("div", {}, `${count.toLocaleString("en")} in `, element("code", {}, shortenPath(folder, state.home)))),
          agent.unreadable.map((files) => element("div", { class: "minus" }, `${formatCount(files.files, "file")} cannot be read: ${files.reason}`))),
        element("td", {}, agent.keeps_days === null ? "-" : formatCount(agent.keeps_days, "day"), agent.expiring ? element("div", { class: "minus" }, `${agent.expiring} go soon`) : null),
        cell(agent.hook, `open-token hook install --for ${label}`),
        cell(agent.skill, `open-token skill install --for ${label}`),
        cell(agent.mcp, "open-token mcp --help"),
      );
    })),
  )));
}

function renderArchive(app, state, reload) {
  const { archive, index } = state;
  const text = archive
    ? `${formatCount(archive.sessions, "session")} in ${shortenPath(archive.folder, state.home)}${archive.failed ? `, ${archive.failed} could not be archived` : ""}.`
    : "None yet. An archive keeps sessions that their agents delete.";
  const button = element("button", {
    type: "button", class: "button",
    click: async () => {
      button.disabled = true;
      button.textContent = "Archiving";
      try {
        const answer = await request("/web/settings/archive", { body: {} });
        app.say(`${formatCount(answer.archived, "session")} archived`);
        reload();
      } catch (problem) {
        button.replaceWith(describeProblem(problem));
      }
    },
  }, "Archive all sessions now");
  return section(
    "Archive and index",
    element("p", {}, text),
    element("p", {}, button, " ", element("code", {}, "open-token archive --watch"), " keeps it up to date."),
    element("p", {}, index ? `The search index has ${formatCount(index.sessions, "session")}${index.failed ? `; ${index.failed} could not be read` : ""}: ` : "There is no search index yet. ", index ? element("code", {}, shortenPath(index.path, state.home)) : null),
  );
}

function renderRedaction(state, signal) {
  const input = element("textarea", { id: "try-text", rows: "4", spellcheck: "false", placeholder: "Paste a text: it stays on this machine" });
  const level = element("select", { id: "try-level" }, ["secrets", "pii", "strict"].map((name) => element("option", { value: name, selected: name === state.level }, name)));
  const result = element("div", { class: "try-result", role: "status" });
  const run = debounce(async () => {
    if (!input.value) { result.replaceChildren(); return; }
    try {
      const asked = input.value;
      const answer = await request("/web/settings/try", { body: { text: asked, level: level.value }, signal });
      if (asked === input.value) result.replaceChildren(...renderTryOut(answer));
    } catch (problem) {
      if (problem.name !== "AbortError") result.replaceChildren(describeProblem(problem));
    }
  }, 250);
  input.addEventListener("input", run);
  level.addEventListener("change", run);
  const own = state.custom_rules.length ? ` and ${formatCount(state.custom_rules.length, "rule")} of your own: ${state.custom_rules.join(", ")}` : "";
  return section(
    "Redaction",
    element("p", {}, `Sessions are shown and indexed at level ${state.level}. There are ${formatCount(state.rules, "rule")}${own}. Settings are in `, element("code", {}, shortenPath(state.settings_folder, state.home)), "."),
    element("div", { class: "try" },
      element("label", { for: "try-text" }, "Try a text"),
      element("label", { for: "try-level" }, "Level ", level),
      input,
    ),
    result,
  );
}

function renderTryOut(answer) {
  const parts = [element("pre", { dir: "auto" }, ...markMarkers(answer.parts))];
  const lines = answer.findings.map((finding) => `${finding.where}: ${finding.type} (rule ${finding.rule})`);
  for (const near of answer.near) lines.push(`line ${near.line}: ${near.is_allowed ? "allowed" : "not masked"}, ${near.type} (rule ${near.rule}): ${near.why}`);
  if (!lines.length) lines.push("Nothing in this text is masked at this level.");
  parts.push(element("ul", {}, lines.map((line) => element("li", {}, line))));
  return parts;
}

function markMarkers(parts) {
  return parts.map(([text, isMarker]) => (isMarker ? element("mark", {}, text) : text));
}

function renderSigners(state) {
  const { signers } = state;
  if (signers.problem) return section("Trusted keys", describeProblem({ message: signers.problem, help: "" }));
  if (!signers.path) {
    return section("Trusted keys", element("p", {}, ...renderCommands("None. Put a list in OpenSSH's format into `allowed_signers` in the settings folder; `open-token verify` then says who signed an export.")));
  }
  return section("Trusted keys", element("ul", {}, signers.names.map((name) => element("li", {}, name))), element("p", {}, element("code", {}, shortenPath(signers.path, state.home))));
}

function renderPackages(state) {
  const missing = state.packages.filter((item) => !item.is_present);
  return section(
    "Installation",
    element("p", {}, `open-token ${state.version}, Python ${state.python}.`),
    missing.length ? element("ul", {}, missing.map((item) => element("li", {}, element("strong", {}, item.name), ` is missing: ${item.effect}; `, ...renderCommands(item.remedy)))) : null,
  );
}
