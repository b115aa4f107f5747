// One session of the session server: its turns as they are streamed, questions, and the message field.

import { ServerError } from "/client.js";
import { describeProblem, element, formatCount, formatTokens } from "/web/assets/dom.js";
import { FilesPanel } from "/web/assets/run_files.js";
import { ReplayControls } from "/web/assets/run_replay.js";
import { TurnView } from "/web/assets/turn_view.js";

const NEAR_END = 80;

/** Show what went wrong with a request to the session server, in its words. */
export function describeFailure(problem) {
  if (problem instanceof ServerError || problem.help !== undefined) return describeProblem(problem);
  return describeProblem({ message: "the session server does not answer", help: "Is `open-token web` still running?" });
}

/** A field for messages with the choice of a model and of planning. `onSend` says whether it was sent. */
export function renderComposer({ models, onSend, extra = [] }) {
  const field = element("textarea", {
    id: "run-message", rows: "2", placeholder: "Message", "aria-label": "Message to the agent", autocomplete: "off",
    keydown: (event) => {
      if (event.key === "Enter" && !event.shiftKey && !event.isComposing) { event.preventDefault(); form.requestSubmit(); }
      if (event.key === "Escape") field.blur();
    },
  });
  const choice = element("select", { "aria-label": "Model" }, element("option", { value: "" }, "default model"));
  const planning = element("input", { type: "checkbox" });
  const button = element("button", { class: "button primary" }, "Send");
  const form = element(
    "form",
    {
      class: "composer",
      submit: async (event) => {
        event.preventDefault();
        const text = field.value;
        if (!text.trim() || button.disabled) return;
        button.disabled = true;
        const fields = planning.checked ? { mode: "planning" } : { mode: "executing" };
        if (choice.value) fields.model = choice.value;
        const isSent = await onSend(text, fields);
        button.disabled = false;
        if (isSent && field.value === text) field.value = "";
      },
    },
    field,
    element(
      "div", { class: "composer-line" },
      choice,
      element("label", { class: "check" }, planning, " Plan first"),
      element("span", { class: "composer-end" }, extra, button),
    ),
  );
  models.then((known) => {
    choice.replaceChildren(...known.models.map((item) => element("option", { value: item.id, selected: item.id === known.default }, item.label || item.id)));
  }, () => {});
  return { form, field, planning, button };
}

/** A chat in the pane of the application. */
export class Chat {
  constructor(app, client, id, models, { onLeave, onChange, onDelete }) {
    this.app = app;
    this.client = client;
    this.id = id;
    this.handlers = { onLeave, onChange, onDelete };
    this.session = client.session(id);
    this.abort = new AbortController();
    this.turns = new TurnView((checkpoint, turn) => this.goBack(checkpoint, turn), (text) => this.append(text), () => this.approve());
    this.checkpoints = new Map();
    this.queue = [];
    this.isScheduled = false;
    this.endedAt = null;
    this.questionKey = "";
    this.build(models);
    this.turns.onRendered = () => this.schedule();
    this.load();
    const following = this.session.follow((item) => this.take(item), { signal: this.abort.signal });
    following.done.catch((problem) => { if (!this.abort.signal.aborted) this.fail(problem); });
  }

  close() {
    this.abort.abort();
  }

  build(models) {
    this.title = element("span", { class: "where" });
    this.context = element("span", { class: "context" });
    this.branches = element("select", { "aria-label": "Other branches", hidden: true, change: () => this.switchBranch() });
    this.stopButton = element("button", { type: "button", class: "button", hidden: true, click: () => this.change("/stop", {}) }, "Stop");
    this.composer = renderComposer({ models, extra: [this.stopButton], onSend: (text, fields) => this.send(text, fields) });
    this.files = new FilesPanel(this.app, this.client, this.session, this.abort.signal);
    this.replay = new ReplayControls((changes) => this.steerReplay(changes));
    this.problem = element("div", { role: "alert" });
    this.state = element("p", { class: "run-state", role: "status" });
    this.waiting = element("ul", { class: "queue", "aria-label": "Waiting messages" });
    this.questions = element("div", { class: "questions" });
    this.log = element("div", { class: "chat-inner", role: "log", "aria-label": "Conversation" });
    this.scroller = element("div", { class: "chat", tabindex: "0", "aria-label": "Conversation", role: "region" }, this.log);
    this.app.pane.replaceChildren(
      element(
        "div", { class: "toolbar", role: "toolbar", "aria-label": "This session" },
        element("button", { type: "button", class: "button back", click: this.handlers.onLeave }, "Back"),
        this.title,
        element(
          "span", { class: "actions" }, this.context, this.branches,
          element("button", { type: "button", class: "button", title: "Summarize the conversation for the model; the history stays", click: () => this.change("/compact", {}) }, "Compact"),
          element("button", { type: "button", class: "button", click: () => this.files.toggle() }, "Files"),
          element("button", { type: "button", class: "button", title: "Watch it again as it was recorded, in a session of its own", click: () => this.startReplay() }, "Replay"),
          element("button", { type: "button", class: "button", click: () => this.remove() }, "Delete"),
        ),
      ),
      this.files.root,
      this.scroller,
      element("div", { class: "dock" }, this.replay.root, this.problem, this.questions, this.waiting, this.state, this.composer.form),
    );
  }

  async load() {
    try {
      const session = await this.client.request("GET", this.session.path, undefined, { signal: this.abort.signal });
      this.title.textContent = session.intent || "Untitled";
      this.app.setTitle(session.intent || "Run");
      await this.loadFacts();
    } catch (problem) {
      this.fail(problem);
    }
  }

  /** What changes with each run: checkpoints, branches, the context window. */
  async loadFacts() {
    const { signal } = this.abort;
    const [{ nodes }, stats] = await Promise.all([
      this.client.request("GET", `${this.session.path}/checkpoints`, undefined, { signal }),
      this.client.request("GET", `${this.session.path}/context-stats`, undefined, { signal }),
    ]);
    this.checkpoints = new Map(nodes.map((node) => [node.turn_id, node.checkpoint_id]));
    this.turns.setCheckpoints(this.checkpoints);
    this.showContext(stats);
    this.schedule();
  }

  showContext(stats) {
    const share = stats.context_window ? Math.round((100 * stats.used_tokens) / stats.context_window) : 0;
    const parts = Object.entries(stats.parts).map(([name, count]) => `${name} ${count}`).join(", ");
    this.context.title = `${stats.used_tokens} of ${stats.context_window} tokens: ${parts}${stats.estimated ? " (estimated)" : ""}`;
    this.context.replaceChildren(
      element("meter", { min: "0", max: "100", high: "80", value: share, "aria-label": "Context in use" }),
      ` ${share} % of ${formatTokens(stats.context_window)}`,
    );
  }

  take(item) {
    if (item.payload && item.payload.turn_id) this.turns.markChanged(item.payload.turn_id);
    if (item.type === "turn:start" && item.payload.role === "user") this.removeFromQueue(item.payload);
    if (item.type === "chat:end") {
      this.endedAt = this.session.fold.head;
      this.refresh();
    }
    if (item.type === "session:updated" || item.type === "chat:start") this.handlers.onChange();
    if (item.type === "session:updated" && item.payload.intent) this.title.textContent = item.payload.intent;
    this.schedule();
  }

  refresh() {
    this.handlers.onChange();
    this.files.refresh();
    this.loadFacts().catch((problem) => this.fail(problem));
  }

  removeFromQueue(turn) {
    const text = (turn.blocks || []).map((block) => block.content).join("\n");
    const place = this.queue.indexOf(text);
    if (place >= 0) this.queue.splice(place, 1);
  }

  /** Render soon, once for many events. */
  schedule() {
    if (this.isScheduled) return;
    this.isScheduled = true;
    setTimeout(() => {
      this.isScheduled = false;
      if (!this.abort.signal.aborted) this.render();
    }, 40);
  }

  render() {
    const { scroller, session: { fold } } = this;
    const follows = scroller.scrollTop + scroller.clientHeight > scroller.scrollHeight - NEAR_END;
    const branch = fold.branch();
    this.turns.render(this.log, branch);
    const isRunning = Boolean(fold.run);
    this.log.setAttribute("aria-busy", String(isRunning));
    this.stopButton.hidden = !isRunning;
    this.composer.button.textContent = isRunning ? "Queue" : "Send";
    const isOver = fold.head !== this.endedAt; // somebody went back to an earlier message
    this.state.textContent = describeState(fold, isOver);
    this.state.classList.toggle("minus", fold.session.status === "failed");
    this.replay.show(fold.session.replay_state);
    this.waiting.replaceChildren(...this.queue.map((text) => element("li", {}, element("b", {}, "waits "), text)));
    this.renderBranches(new Set(branch.map((turn) => turn.turn_id)));
    this.renderQuestions(fold.questions());
    if (follows) scroller.scrollTop = scroller.scrollHeight;
  }

  renderBranches(current) {
    const others = [...this.checkpoints].filter(([turnId]) => turnId && !current.has(turnId));
    this.branches.hidden = !others.length;
    const key = others.map(([, checkpoint]) => checkpoint).join();
    if (this.branches.dataset.key === key) return;
    this.branches.dataset.key = key;
    this.branches.replaceChildren(
      element("option", { value: "" }, `${formatCount(others.length, "message")} on other branches`),
      ...others.map(([turnId, checkpoint]) => element("option", { value: checkpoint }, describeTurn(this.session.fold.turn(turnId)))),
    );
  }

  renderQuestions(open) {
    const key = open.map(({ call }) => call.id).join();
    if (key === this.questionKey) return;
    this.questionKey = key;
    this.questions.replaceChildren(...open.map(({ call, questions }) => renderQuestionForm(call, questions, (answer) => this.answer(call.id, answer))));
    this.questions.querySelector("input")?.focus();
  }

  async send(text, fields) {
    return this.perform(async () => {
      const answer = await this.session.post(text, fields);
      if (answer.queued) this.queue.push(text);
      this.scroller.scrollTop = this.scroller.scrollHeight;
      this.schedule();
    });
  }

  answer(callId, answer) {
    return this.perform(() => this.session.answer(callId, answer));
  }

  change(path, body) {
    return this.perform(async () => {
      await this.client.request("POST", this.session.path + path, body);
      this.refresh();
    });
  }

  /** Go back to the point before a message; its text can be changed and sent again. */
  async goBack(checkpoint, turn) {
    const isDone = await this.change("/rewind", { checkpoint_id: checkpoint });
    if (!isDone) return;
    this.composer.field.value = describeTurn(turn, Infinity);
    this.composer.field.focus();
    this.app.say("The later messages stay on a branch of their own");
  }

  async switchBranch() {
    const checkpoint = this.branches.value;
    if (checkpoint) await this.change("/switch-branch", { checkpoint_id: checkpoint });
    this.branches.value = "";
  }

  /** Begin a session that shows this one again, and go there. */
  async startReplay() {
    await this.perform(async () => {
      const replay = await this.client.request("POST", `${this.session.path}/replay`, { speed: 1 });
      this.handlers.onChange();
      this.app.go(`/run/${encodeURIComponent(replay.session_id)}`);
    });
  }

  steerReplay(changes) {
    return this.perform(() => this.client.request("PATCH", `${this.session.path}/replay`, changes));
  }

  approve() {
    this.composer.planning.checked = false;
    return this.send("Carry out the plan.", { mode: "executing" });
  }

  append(text) {
    const { field } = this.composer;
    field.value = field.value ? `${field.value}\n${text}` : text;
    field.focus();
  }

  async remove() {
    if (!confirm("Delete this session from the session server? Its files stay.")) return;
    const isDone = await this.perform(() => this.client.request("DELETE", this.session.path));
    if (isDone) this.handlers.onDelete();
  }

  async perform(action) {
    this.problem.replaceChildren();
    try {
      await action();
      return true;
    } catch (problem) {
      this.fail(problem);
      return false;
    }
  }

  fail(problem) {
    if (!this.abort.signal.aborted) this.problem.replaceChildren(describeFailure(problem));
  }
}

function describeState(fold, isOver) {
  if (fold.run) return "The agent works.";
  if (isOver) return "";
  if (fold.session.status === "failed") {
    const reason = fold.notice && (fold.notice.message || fold.notice.detail);
    return reason ? `The run failed: ${reason}` : "The run failed.";
  }
  if (fold.session.status === "interrupted") return "The run was stopped.";
  return "";
}

/** The text of a turn, cut for lists. */
function describeTurn(turn, length = 60) {
  const text = ((turn && turn.blocks) || []).filter((block) => block.type === "text").map((block) => block.content).join("\n");
  return text.length > length ? `${text.slice(0, length)}...` : text || "(no text)";
}

/** A form for the questions of one call. */
function renderQuestionForm(call, questions, onAnswer) {
  const button = element("button", { class: "button primary" }, "Answer");
  return element(
    "form",
    {
      class: "question",
      submit: async (event) => {
        event.preventDefault();
        button.disabled = true;
        const isSent = await onAnswer(collectAnswer(event.target, questions));
        button.disabled = isSent;
      },
    },
    questions.map((question, index) => renderQuestion(call, question, index)),
    button,
  );
}

function renderQuestion(call, question, index) {
  const type = question.multiSelect ? "checkbox" : "radio";
  return element(
    "fieldset", {},
    element("legend", {}, question.question),
    (question.options || []).map((option, place) => element(
      "label", { class: "choice" },
      element("input", { type, name: `choice-${index}`, value: place }),
      element("span", {}, element("b", {}, option.label), option.description ? element("span", { class: "found-place" }, ` ${option.description}`) : null),
    )),
    element("input", { name: `own-${index}`, placeholder: "In other words", "aria-label": `In other words: ${question.question}`, autocomplete: "off" }),
  );
}

function collectAnswer(form, questions) {
  const given = new FormData(form);
  const selections = {};
  const custom = {};
  questions.forEach((_, index) => {
    const chosen = given.getAll(`choice-${index}`).map(Number);
    const own = given.get(`own-${index}`).trim();
    if (chosen.length) selections[index] = chosen;
    if (own) custom[index] = own;
  });
  return { selections, custom };
}
