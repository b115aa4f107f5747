// A session that replays another one as it was recorded: how far it is, pause, speed.

import { element } from "/web/assets/dom.js";

const SPEEDS = [1, 2, 5];
const ENDS = {
  finished: "The replay is over",
  mismatch: "The replay stopped: the answer is not the recorded one",
};

/** The controls; `change` sends what shall be different. */
export class ReplayControls {
  constructor(change) {
    this.change = change;
    this.state = null;
    this.progress = element("progress", { "aria-label": "Replayed" });
    this.text = element("span", {});
    this.pause = element("button", { type: "button", class: "button", click: () => this.change({ status: this.isPaused() ? "playing" : "paused" }) });
    this.alone = element("button", {
      type: "button", class: "button", title: "Go on without waiting for an answer", click: () => this.change({ status: "autonomous" }),
    }, "Do not wait");
    this.speed = element(
      "select", { "aria-label": "Speed", change: () => this.change({ speed: Number(this.speed.value) }) },
      SPEEDS.map((speed) => element("option", { value: speed }, `${speed} times`)),
    );
    this.root = element("div", { class: "replay-line", role: "group", "aria-label": "Replay", hidden: true }, this.progress, this.text, this.pause, this.alone, this.speed);
  }

  isPaused() {
    return this.state.status === "paused";
  }

  /** Show a state of the server; null where nothing is replayed. */
  show(state) {
    this.root.hidden = !state;
    if (!state) return;
    this.state = state;
    const isOver = Object.hasOwn(ENDS, state.status);
    this.progress.max = state.total || 1;
    this.progress.value = state.position;
    this.text.textContent = isOver ? ENDS[state.status] : `${state.position} of ${state.total}`;
    this.pause.textContent = this.isPaused() ? "Go on" : "Pause";
    this.speed.value = String(state.speed);
    for (const control of [this.pause, this.alone, this.speed]) control.hidden = isOver;
    this.alone.hidden = isOver || state.status === "autonomous";
  }
}
