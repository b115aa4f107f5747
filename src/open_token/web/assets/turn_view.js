// Turns of a live session with the rows of a page: plain while they are streamed, then rendered by its writer.

import { element, fragment, request } from "/web/assets/dom.js";

const MAX_KEPT = 4000;
const MAX_REQUEST = 100;
const ENDED = ["done", "error", "cancelled"];
const NOTES = {
  planning_enter: "The agent plans and changes nothing.",
  planning_exit: "The agent carries out.",
};

/** Renders the turns of a branch, and only those again that have changed. */
export class TurnView {
  constructor(goBack, append, approve) {
    this.goBack = goBack;
    this.append = append;
    this.approve = approve;
    this.checkpoints = new Map();
    this.nodes = new Map(); // by the id of the turn
    this.changed = new Set();
    this.rendered = new Map(); // HTML by the JSON of its part
    this.wanted = new Map(); // parts to be rendered, with the turns that show them
    this.cards = new Map(); // addresses of cards by their HTML
    this.isAsking = false;
    this.onRendered = () => {};
  }

  setCheckpoints(checkpoints) {
    this.checkpoints = checkpoints;
    for (const turnId of checkpoints.keys()) this.changed.add(turnId);
  }

  markChanged(turnId) {
    this.changed.add(turnId);
  }

  /** Make a container show these turns. */
  render(container, turns) {
    const groups = new Map(); // the rows of subagents, by their loop
    const top = [];
    for (const turn of turns) {
      const node = this.getNode(turn);
      if (turn.loop_id === "root") {
        top.push(node);
        continue;
      }
      if (!groups.has(turn.loop_id)) {
        const group = this.getGroup(turn);
        groups.set(turn.loop_id, { group, nodes: [] });
        top.push(group);
      }
      groups.get(turn.loop_id).nodes.push(node);
    }
    for (const { group, nodes } of groups.values()) {
      placeChildren(group.querySelector(".body"), nodes);
      group.querySelector(".r").textContent = `${nodes.length} turns`;
    }
    placeChildren(container, top);
    this.askForRows();
  }

  getNode(turn) {
    let node = this.nodes.get(turn.turn_id);
    if (node && !this.changed.has(turn.turn_id)) return node;
    if (!node) {
      node = element("div", { class: "live-turn" });
      this.nodes.set(turn.turn_id, node);
    }
    this.changed.delete(turn.turn_id);
    const open = new Set([...node.querySelectorAll("details[data-part][open]")].map((row) => row.dataset.part));
    node.replaceChildren(...(turn.role === "user" ? this.renderPrompt(turn) : this.renderAnswer(turn)));
    node.querySelectorAll("details[data-part]").forEach((row) => { if (open.has(row.dataset.part)) row.open = true; });
    return node;
  }

  getGroup(turn) {
    const name = `loop ${turn.loop_id}`;
    if (!this.nodes.has(name)) {
      this.nodes.set(name, renderRow("span", "subagent", "", "", element("div")));
    }
    return this.nodes.get(name);
  }

  renderPrompt(turn) {
    const checkpoint = turn.loop_id === "root" && this.checkpoints.get(turn.turn_id);
    const texts = turn.blocks.map((block) => describeBlock(block));
    const back = element("button", {
      type: "button", class: "button go-back", title: "Change this message; what follows stays on a branch of its own",
      click: () => this.goBack(checkpoint, turn),
    }, "Go back to here");
    const prompt = element("div", { class: "prompt", dir: "auto" }, texts.join("\n"));
    return [element("div", { class: "ev ask" }, prompt, checkpoint ? back : null)];
  }

  /** Texts stand alone; rows that follow each other share a frame, as in a page. */
  renderAnswer(turn) {
    if (turn.kind === "compaction") {
      const text = turn.summary_full || turn.summary_preview || "";
      return [wrapRows(renderRow("note", "summary", text, "for the model", element("p", {}, text)))];
    }
    const nodes = [];
    const failures = (turn.attempts || []).map((attempt) => attempt.failure_reason);
    if (failures.length) nodes.push(element("p", { class: "day" }, `Asked again after: ${failures.join("; ")}`));
    let run = null;
    turn.blocks.forEach((block, index) => {
      const node = this.renderBlock(turn, block, index);
      if (node === null) return;
      if (node.nodeName !== "DETAILS") {
        run = null;
        nodes.push(node);
        return;
      }
      node.dataset.part = index;
      if (run === null) { run = wrapRows(); nodes.push(run); }
      run.append(node);
    });
    if (turn.failure_reason) nodes.push(element("p", { class: "minus" }, turn.failure_reason));
    return nodes;
  }

  renderBlock(turn, block, index) {
    const isOver = turn.status !== "streaming" || index < turn.blocks.length - 1;
    const text = typeof block.content === "string" ? block.content : "";
    switch (block.type) {
      case "text":
        if (!text.trim()) return null;
        return (isOver && this.useRow(turn, { kind: "say", text })) || element("div", { class: "ev say streaming", dir: "auto" }, text);
      case "thinking":
        if (!text.trim()) return null;
        return (isOver && this.useRow(turn, { kind: "thought", text })) || renderRow("think", "thought", text, "", element("p", {}, text));
      case "tool_use":
        return this.renderCall(turn, turn.tool_calls.find((call) => call.id === block.tool_call_id));
      case "tool_ui":
        return this.renderCard(turn, block.content || {});
      case "tool_bridge":
        return this.renderBridge(block.content || {});
      case "plan_status":
        return this.renderPlan(turn, block.content || {});
      case "tool_result":
        return null;
      default:
        return element("p", { class: "day" }, NOTES[block.type] || describeBlock(block));
    }
  }

  renderCall(turn, call) {
    if (!call) return null;
    if (ENDED.includes(call.status)) {
      const { tool_name: tool, arguments: given, result, status } = call;
      const row = this.useRow(turn, { kind: "call", tool, arguments: given, result, status });
      if (row) return row;
    }
    const state = { awaiting_answer: "waits for you", pending: "working" }[call.status] || call.status;
    return renderRow("tool", call.tool_name, call.arguments, state, element("pre", {}, call.arguments));
  }

  renderPlan(turn, { status, plan }) {
    if (!plan) return null;
    const shown = this.useRow(turn, { kind: "say", text: plan }) || element("div", { class: "ev say streaming" }, plan);
    const isReady = status === "ready";
    return element(
      "section", { class: "plan", "aria-label": "Plan" },
      element("p", { class: "found-place" }, isReady ? "Plan" : `Plan: ${status}`),
      shown,
      isReady ? element("button", { type: "button", class: "button", click: () => this.approve() }, "Approve and carry out") : null,
    );
  }

  /** An agent may suggest words for a message; only a person puts them there. */
  renderBridge({ action, payload }) {
    const text = payload && typeof payload.text === "string" ? payload.text : "";
    if (!text) return element("p", { class: "day" }, `The agent asked this page for ${action}.`);
    return element(
      "p", { class: "suggestion" }, "Suggested by the agent: ", element("q", {}, text), " ",
      element("button", { type: "button", class: "button", click: () => this.append(text) }, "Put into the message"),
    );
  }

  /** HTML of an agent is drawn in a frame that can run nothing and reach nothing. */
  renderCard(turn, { resourceHTML: html, resourceUri: address, title, height }) {
    const name = title || "Card";
    if (typeof html !== "string") return element("p", { class: "day" }, `A card of another page: ${address}`);
    const path = this.cards.get(html);
    if (path === undefined) {
      this.cards.set(html, null);
      request("/web/run/cards", { body: { html } }).then((answer) => {
        this.cards.set(html, answer.path);
        this.markChanged(turn.turn_id);
        this.onRendered();
      }, () => {});
    }
    if (!path) return element("p", { class: "day" }, name);
    return element(
      "figure", { class: "card" },
      element("iframe", { sandbox: "", src: path, title: name, height: Math.max(40, Math.min(Number(height) || 300, 2000)) }),
      element("figcaption", {}, name),
    );
  }

  /** Return the row of a part, or null as long as the writer has not rendered it. */
  useRow(turn, part) {
    const key = JSON.stringify(part);
    const html = this.rendered.get(key);
    if (html !== undefined) return fragment(html).firstElementChild;
    if (!this.wanted.has(key)) this.wanted.set(key, { part, turns: new Set() });
    this.wanted.get(key).turns.add(turn.turn_id);
    return null;
  }

  async askForRows() {
    if (this.isAsking || !this.wanted.size) return;
    this.isAsking = true;
    const asked = [...this.wanted].slice(0, MAX_REQUEST);
    asked.forEach(([key]) => this.wanted.delete(key));
    try {
      const { rows } = await request("/web/run/rows", { body: { parts: asked.map(([, { part }]) => part) } });
      asked.forEach(([key, { turns }], index) => {
        if (this.rendered.size >= MAX_KEPT) this.rendered.delete(this.rendered.keys().next().value);
        this.rendered.set(key, rows[index]);
        for (const turnId of turns) this.changed.add(turnId);
      });
    } catch {
      // The plain text stays: nothing is missing from it.
    }
    this.isAsking = false;
    this.onRendered();
  }
}

function describeBlock(block) {
  if (typeof block.content === "string") return block.content;
  if (block.type === "ask_user_answer") return describeAnswer(block.content);
  if (block.content && typeof block.content.text === "string") return block.content.text;
  return block.type.replaceAll("_", " ");
}

function describeAnswer(content) {
  if (!content || typeof content !== "object") return "Answered.";
  if (typeof content.answer === "string") return `Answered: ${content.answer}`;
  const own = Object.values(content.custom || {}).filter(Boolean);
  const chosen = Object.values(content.selections || {}).flat().map((place) => `option ${place + 1}`);
  return `Answered: ${[...chosen, ...own].join(", ")}`;
}

function renderRow(classes, verb, text, outcome, body) {
  return element(
    "details", { class: `row ${classes}` },
    element(
      "summary", {},
      element("span", { class: "k" }, verb), " ",
      element("span", { class: "w", dir: "auto" }, text.slice(0, 200)), " ",
      element("span", { class: "r" }, outcome),
    ),
    element("div", { class: "body" }, body),
  );
}

function wrapRows(...rows) {
  return element("div", { class: "run" }, rows);
}

/** Make an element have these children; those that stay are not touched, so that focus stays. */
function placeChildren(parent, nodes) {
  const kept = new Set(nodes);
  [...parent.children].forEach((child) => { if (!kept.has(child)) child.remove(); });
  nodes.forEach((node, index) => {
    if (parent.children[index] !== node) parent.insertBefore(node, parent.children[index] || null);
  });
}
