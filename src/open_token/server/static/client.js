/**
 * A client of the Open-Token session server, for browsers and Node; it needs no other module.
 *
 *   import { Client } from "https://server.example/client.js";
 *   const client = new Client("https://server.example", key);
 *   const session = await client.createSession({ intent: "A first chat" });
 *   const following = session.follow(() => render(session.fold.branch()));
 *   const outcome = await session.send("hello");
 *   following.stop();
 */

const FIRST_PAUSE = 500;
const MAX_PAUSE = 10_000;
/** Milliseconds without a byte after which a stream counts as lost; the server sends every 15 s. */
const SILENCE = 40_000;

/** An answer of the server that is an error: `status`, `code`, and `message` for people. */
export class ServerError extends Error {
  constructor(status, detail, code) {
    super(detail);
    this.name = "ServerError";
    this.status = status;
    this.code = code;
  }
}

/** The server's routes. `key` is an API key or a token, or a function that returns one. */
export class Client {
  constructor(address = "", key = null, { fetch = globalThis.fetch } = {}) {
    this.address = address.replace(/\/$/, "");
    this._key = key;
    this._fetch = fetch.bind(globalThis);
  }

  /** Request a route and return its answer; a body that is not a form is sent as JSON. */
  async request(method, path, body, { query, headers, signal } = {}) {
    const response = await this.open(method, path, body, { query, headers, signal });
    if (response.status === 204) return null;
    const type = response.headers.get("content-type") || "";
    return type.includes("json") ? response.json() : response.blob();
  }

  /** Request a route and return the response, after its status was checked. */
  async open(method, path, body, { query, headers = {}, signal } = {}) {
    const search = new URLSearchParams(query || {}).toString();
    const key = typeof this._key === "function" ? await this._key() : this._key;
    const sent = { ...headers };
    if (key) sent["Authorization"] = `Bearer ${key}`;
    let content = body;
    if (body !== undefined && !(body instanceof FormData)) {
      sent["Content-Type"] = "application/json";
      content = JSON.stringify(body);
    }
    const url = this.address + path + (search ? `?${search}` : "");
    const response = await this._fetch(url, { method, headers: sent, body: content, signal });
    if (!response.ok) throw await toError(response);
    return response;
  }

  /** Create a session. */
  async createSession(settings = {}) {
    const { session_id: id } = await this.request("POST", "/api/sessions", settings);
    return new Session(this, id);
  }

  /** Return a session by its id. */
  session(id) {
    return new Session(this, id);
  }

  /** List sessions: `{items, total, limit, offset}`. */
  listSessions(query = {}) {
    return this.request("GET", "/api/sessions", undefined, { query });
  }
}

/** One session: its commands, and its turns as they are streamed. */
export class Session {
  constructor(client, id) {
    this.client = client;
    this.id = id;
    this.fold = new SessionFold();
  }

  get path() {
    return `/api/sessions/${encodeURIComponent(this.id)}`;
  }

  /**
   * Send a message and return the end of its run. A lost connection is retried with the same id, so
   * that the message is processed once. `fields` are those of `chat:send`.
   */
  async send(message, fields = {}, { signal, retries = 5 } = {}) {
    const body = { client_message_id: createId(), ...toFields(message), ...fields };
    for (let attempt = 0; ; attempt++) {
      try {
        return await this.client.request("POST", `${this.path}/messages`, body, { signal });
      } catch (error) {
        if (attempt >= retries || !isTemporary(error) || signal?.aborted) throw error;
        await pause(attempt, signal);
      }
    }
  }

  /** Send a message without waiting for the end of its run; return the acknowledgement. */
  post(message, fields = {}, options = {}) {
    const body = { client_message_id: createId(), ...toFields(message), ...fields };
    const query = { wait: "false" };
    return this.client.request("POST", `${this.path}/messages`, body, { ...options, query });
  }

  /** Answer a question: `answer` is `{selections}`, `{custom}` or `{answer}`. */
  answer(toolCallId, answer, fields = {}, options = {}) {
    const given = { askuser_answer: { tool_call_id: toolCallId, ...answer } };
    return this.post("", { ...given, ...fields }, options);
  }

  /** Stop the current run. */
  stop() {
    return this.client.request("POST", `${this.path}/stop`, {});
  }

  /** Iterate over the events of this session after a position, across lost connections. */
  async *events({ after = this.fold.seen, signal } = {}) {
    let position = after;
    for (let attempt = 0; ; ) {
      try {
        for await (const item of this._stream(position, signal)) {
          attempt = 0;
          position = item.stream_sequence;
          yield item;
        }
        if (signal?.aborted) return;
      } catch (error) {
        if (signal?.aborted) return;
        if (!isTemporary(error)) throw error;
      }
      await pause(attempt++, signal);
      if (signal?.aborted) return;
    }
  }

  async *_stream(position, signal) {
    const query = { after: String(position) };
    const abort = new AbortController();
    const cancel = () => abort.abort();
    signal?.addEventListener("abort", cancel);
    try {
      const options = { query, signal: abort.signal };
      const response = await this.client.open("GET", `${this.path}/events`, undefined, options);
      yield* readEvents(response.body, cancel);
    } finally {
      signal?.removeEventListener("abort", cancel);
      abort.abort();
    }
  }

  /**
   * Apply events to `fold` as they arrive, and call `onChange(item, fold)` after each. Returns
   * `{stop(), done}`: `done` is a promise that rejects when the session cannot be followed.
   */
  follow(onChange = () => {}, { signal } = {}) {
    const abort = new AbortController();
    signal?.addEventListener("abort", () => abort.abort());
    const run = async () => {
      for await (const item of this.events({ signal: abort.signal })) {
        if (this.fold.apply(item)) onChange(item, this.fold);
      }
    };
    const done = run();
    done.catch(() => {});
    return { stop: () => abort.abort(), done };
  }
}

/** A session rebuilt from its events: all turns, the current branch, and the state of the run. */
export class SessionFold {
  constructor() {
    /** The stream sequence of the last event: the position to resume from. */
    this.seen = 0;
    /** The fields of the session that events have reported. */
    this.session = {};
    /** The run in progress, or null. */
    this.run = null;
    /** The payload of the last `chat:end`. */
    this.ended = null;
    /** The last error or notification of the server. */
    this.notice = null;
    this.head = null;
    this._turns = new Map();
    this._parents = new Map();
    this._names = new Map();
  }

  /** Apply an item of `turn:events`; return whether it was new. */
  apply(item) {
    if (item.stream_sequence !== undefined) {
      if (item.stream_sequence <= this.seen) return false;
      this.seen = item.stream_sequence;
    }
    this._take(item.type, item.payload);
    return true;
  }

  /** All turns in the order in which they started, also those of other branches. */
  turns() {
    return [...this._turns.values()];
  }

  /** The turn of an id, or undefined. */
  turn(turnId) {
    return this._turns.get(turnId);
  }

  /** The turns of the current branch. */
  branch() {
    const path = [];
    for (let name = this.head; name != null; name = this._parents.get(name)) {
      const turn = this._turns.get(this._names.get(name));
      if (turn === undefined) break;
      path.push(turn);
    }
    return path.reverse();
  }

  /** The open questions and approvals of the current branch: `{turn, call, questions}`. */
  questions() {
    const open = [];
    for (const turn of this.branch()) {
      for (const call of turn.tool_calls) {
        if (call.status !== "awaiting_answer") continue;
        const questions = findQuestions(call);
        if (questions) open.push({ turn, call, questions });
      }
    }
    return open;
  }

  _take(type, payload) {
    switch (type) {
      case "turn:start":
        this._names.set(payload.id, payload.turn_id);
        this._parents.set(payload.id, payload.parent_id ?? null);
        this.head = payload.id;
        this._replaceTurn(payload);
        break;
      case "turn:end":
        this._replaceTurn(payload);
        break;
      case "turn:patch":
        this._patchTurn(payload);
        break;
      case "memory:inject:done":
        this._ensureTurn(payload).memory_refs = payload.memory_refs;
        break;
      case "chat:start":
        this.run = payload;
        this.session.status = "running";
        break;
      case "chat:end":
        this.run = null;
        this.ended = payload;
        this.session.status = payload.session_status;
        break;
      case "session:updated":
        this._updateSession(payload);
        break;
      case "system:error":
      case "system:notification":
        this.notice = { type, ...payload };
        break;
    }
  }

  _updateSession(payload) {
    const { head, reason, session_id, ...fields } = payload;
    if (reason !== undefined) this.head = head;
    Object.assign(this.session, fields);
  }

  _ensureTurn(payload) {
    let turn = this._turns.get(payload.turn_id);
    if (turn === undefined) {
      const { turn_id, loop_id } = payload;
      turn = { turn_id, loop_id, role: "assistant", status: "streaming", blocks: [], tool_calls: [] };
      this._turns.set(turn_id, turn);
    }
    return turn;
  }

  _replaceTurn(payload) {
    const { session_id, parent_id, ...fields } = payload;
    Object.assign(this._ensureTurn(payload), fields);
  }

  _patchTurn(patch) {
    const turn = this._ensureTurn(patch);
    const data = patch.data || {};
    if (data.turn) {
      // The legacy dialect sends the whole turn with each patch.
      this._replaceTurn(data.turn);
    } else if (patch.patch_type === "add_content") {
      addContent(turn, data);
    } else if (patch.patch_type === "add_tool_call") {
      addCall(turn, data);
    } else if (patch.patch_type === "set_status") {
      Object.assign(turn, data);
    } else {
      changeCall(turn, data);
    }
  }
}

function addContent(turn, { block_index: index, text_delta: delta, ...fields }) {
  const block = turn.blocks[index];
  if (block === undefined) {
    turn.blocks.push({ ...fields, content: fields.content ?? delta ?? null });
  } else if (delta !== undefined) {
    block.content = (block.content ?? "") + delta;
  } else {
    turn.blocks[index] = { ...block, ...fields };
  }
}

function addCall(turn, { block_index: index, ...fields }) {
  const call = turn.tool_calls.find((known) => known.id === fields.id);
  if (call !== undefined) {
    Object.assign(call, fields);
  } else {
    turn.tool_calls.push({ arguments: "", ...fields });
  }
  if (index === turn.blocks.length) {
    const { id, tool_name, display_name } = fields;
    const marker = { type: "tool_use", content: null, tool_call_id: id };
    turn.blocks.push({ ...marker, tool_name, display_name: display_name || null });
  }
}

function changeCall(turn, { tool_call_id: id, arguments_delta: delta, ...fields }) {
  let call = turn.tool_calls.find((known) => known.id === id);
  if (call === undefined) {
    call = { id, arguments: "" };
    turn.tool_calls.push(call);
  }
  if (delta !== undefined) call.arguments += delta;
  Object.assign(call, fields);
}

/** The questions of a call; null where a call of a subagent, or the client itself, has to answer. */
function findQuestions(call) {
  const reference = call.pending_question_ref;
  if (!reference) return parseQuestions(call);
  const isOwn = reference.child_tool_call_id === call.id;
  return isOwn && reference.kind === "approval" ? reference.questions : null;
}

function parseQuestions(call) {
  try {
    return JSON.parse(call.arguments).questions ?? [];
  } catch {
    return [];
  }
}

/** Iterate over the items of an event stream; `onSilence` is called when nothing comes any more. */
export async function* readEvents(body, onSilence = () => {}) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let buffer = "";
  try {
    for (;;) {
      const timer = setTimeout(onSilence, SILENCE);
      const { done, value } = await reader.read().finally(() => clearTimeout(timer));
      if (done) return;
      const events = (buffer + value).split("\n\n");
      buffer = events.pop();
      for (const event of events) {
        const item = parseEvent(event);
        if (item !== null) yield item;
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

function parseEvent(event) {
  const data = event
    .split("\n")
    .filter((line) => line.startsWith("data: "))
    .map((line) => line.slice("data: ".length));
  if (!data.length) return null;
  const item = JSON.parse(data.join("\n"));
  if (item.type === "system:error" && item.stream_sequence === undefined) {
    throw new ServerError(503, item.payload.message, item.payload.code);
  }
  return item;
}

async function toError(response) {
  let problem = {};
  try {
    problem = await response.json();
  } catch {
    // Not an answer of the server itself, but of a proxy.
  }
  return new ServerError(response.status, problem.detail || response.statusText, problem.code);
}

function isTemporary(error) {
  if (!(error instanceof ServerError)) return true;
  return error.status === 429 || error.status >= 500;
}

function toFields(message) {
  return message === "" ? {} : { message };
}

function createId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return "msg_" + Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function pause(attempt, signal) {
  const limit = Math.min(MAX_PAUSE, FIRST_PAUSE * 2 ** attempt);
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, limit * (0.5 + Math.random() / 2));
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    });
  });
}
