// Memories, schedules and keys of the session server: each a list, a form, and actions.

import { describeFailure } from "/web/assets/chat.js";
import { element } from "/web/assets/dom.js";

const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
const formatTime = (time) => (time ? new Date(time).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" }) : "never");

/** By the name in the address: what is listed, what a new one needs, and what can be done with it. */
export const PANELS = {
  schedules: {
    title: "Schedules",
    about: "A prompt that is sent at certain times, each time in a new session. It runs only while this application or open-token serve runs.",
    empty: "Nothing is scheduled.",
    path: "/api/scheduled-tasks",
    fields: [
      { name: "title", label: "Title", value: "" },
      { name: "prompt", label: "Prompt", value: "", rows: 3 },
      { name: "cron", label: "Minute, hour, day, month, weekday", value: "30 8 * * 1-5" },
      { name: "timezone", label: "Time zone", value: zone },
    ],
    complete: { enabled: true, skip_confirmations: true },
    name: (item) => item.title,
    facts: (item) => `${item.cron} ${item.timezone}, ${item.enabled ? `next ${formatTime(item.next_run_at)}` : "paused"}`,
    actions: (item) => [
      { label: "Run now", method: "POST", path: `/${item.id}/run` },
      item.enabled ? { label: "Pause", method: "POST", path: `/${item.id}/stop` } : { label: "Resume", method: "POST", path: `/${item.id}/start` },
      { label: "Delete", method: "DELETE", path: `/${item.id}`, asks: `Delete the schedule "${item.title}"?` },
    ],
  },
  memories: {
    title: "Memories",
    about: "What agents are told in every session.",
    empty: "Nothing is remembered. Agents add memories when you ask them to remember something.",
    path: "/api/memories",
    fields: [{ name: "content", label: "Remember", value: "", rows: 2, max: 500 }],
    complete: {},
    name: (item) => item.content,
    facts: (item) => `used ${item.hit_count} times${item.disabled ? ", disabled" : ""}`,
    actions: (item) => [
      { label: item.disabled ? "Enable" : "Disable", method: "PATCH", path: `/${item.id}`, body: { disabled: !item.disabled } },
      { label: "Delete", method: "DELETE", path: `/${item.id}`, asks: "Delete this memory?" },
    ],
  },
  keys: {
    title: "Keys",
    about: "With a key, programs use the same session server while open-token serve runs. The web application has its own, which ends with it.",
    empty: "There are no keys.",
    path: "/api/user/api-keys",
    fields: [
      { name: "name", label: "Name", value: "" },
      { name: "scope", label: "May", options: [["full", "read and write"], ["read", "read only"]] },
    ],
    complete: {},
    name: (item) => `${item.name} (${item.masked})`,
    facts: (item) => `${item.scope === "read" ? "read only" : "read and write"}, used ${formatTime(item.last_used_at)}`,
    actions: (item) => [{ label: "Revoke", method: "DELETE", path: `/${item.id}`, asks: `Revoke the key "${item.name}"? Programs that use it are disconnected.` }],
    secret: (item) => item.plaintext,
  },
};

/** Show a panel in the pane of the application. */
export function showPanel(app, client, name, signal, leave) {
  const panel = PANELS[name];
  app.setTitle(panel.title);
  const items = element("ul", { class: "panel-items" });
  const message = element("div", { role: "status" });

  async function load() {
    try {
      const page = await client.request("GET", panel.path, undefined, { query: { limit: "100" }, signal });
      const rows = page.items.map((item) => renderItem(panel, item, act));
      items.replaceChildren(...(rows.length ? rows : [element("li", { class: "panel-item" }, panel.empty)]));
    } catch (problem) {
      if (!signal.aborted) items.replaceChildren(element("li", {}, describeFailure(problem)));
    }
  }

  async function change(method, path, body) {
    message.replaceChildren();
    try {
      const answer = await client.request(method, panel.path + path, body, { signal });
      await load();
      return answer || {};
    } catch (problem) {
      if (!signal.aborted) message.replaceChildren(describeFailure(problem));
      return null;
    }
  }

  async function act(action) {
    if (action.asks && !confirm(action.asks)) return;
    const isDone = await change(action.method, action.path, action.body ?? (action.method === "POST" ? {} : undefined));
    if (isDone) app.say(`${action.label}: done`);
  }

  const form = renderForm(panel, async (values) => {
    const answer = await change("POST", "", { ...panel.complete, ...values });
    if (!answer) return false;
    const secret = panel.secret && panel.secret(answer);
    if (secret) message.replaceChildren(element("p", {}, "Copy it now, it is shown only once: ", element("code", {}, secret)));
    return true;
  });
  app.pane.classList.add("scrolls");
  app.pane.replaceChildren(element(
    "div", { class: "sheet-wide" },
    element("button", { type: "button", class: "button back-narrow", click: leave }, "Back"),
    element("h1", {}, panel.title),
    element("p", {}, panel.about),
    items, message,
    element("h2", {}, "Add"), form,
  ));
  load();
}

function renderItem(panel, item, act) {
  return element(
    "li", { class: "panel-item" },
    element("div", {}, element("bdi", {}, panel.name(item)), element("div", { class: "found-place" }, panel.facts(item))),
    element("div", { class: "panel-actions" }, panel.actions(item).map((action) => element(
      "button", { type: "button", class: "button", "aria-label": `${action.label}: ${panel.name(item)}`, click: () => act(action) }, action.label,
    ))),
  );
}

function renderForm(panel, onSubmit) {
  const inputs = panel.fields.map((field) => [field, renderInput(field)]);
  const button = element("button", { class: "button primary" }, "Add");
  return element(
    "form",
    {
      class: "panel-form",
      submit: async (event) => {
        event.preventDefault();
        button.disabled = true;
        const values = Object.fromEntries(inputs.map(([field, input]) => [field.name, input.value]));
        const isDone = await onSubmit(values);
        button.disabled = false;
        if (isDone) event.target.reset();
      },
    },
    inputs.map(([field, input]) => element("label", {}, element("span", {}, field.label), input)),
    button,
  );
}

function renderInput(field) {
  if (field.options) return element("select", {}, field.options.map(([value, text]) => element("option", { value }, text)));
  if (field.rows) return element("textarea", { rows: field.rows, required: true, maxlength: field.max }, field.value);
  return element("input", { value: field.value, required: true, autocomplete: "off" });
}
