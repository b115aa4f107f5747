// Inside the page that is about to be shared: findings can be chosen, words marked, rows left out.

import { applyChange, joinShell } from "/web/assets/page_changes.js";

const root = document.documentElement;
const main = document.getElementById("ot-main");
const MAX_WORD = 200;
root.dataset.version = document.getElementById("ot-version").value;

const tell = (name, detail) => parent.dispatchEvent(new CustomEvent(name, { detail }));

addEventListener("share-change", (event) => {
  applyChange(event.detail);
  root.dataset.version = event.detail.version;
});
addEventListener("share-state", showState);
addEventListener("share-show", (event) => showFinding(event.detail));

/** Mark each finding on the page as decided or not; values that are kept are marked, too. */
function showState() {
  const { findings, current } = window.shareState;
  const byMarker = new Map(findings.map((finding) => [finding.marker, finding]));
  document.querySelectorAll("mark").forEach((mark) => {
    const finding = byMarker.get(mark.textContent);
    if (finding) dress(mark, finding, current);
  });
  const kept = main.querySelectorAll("[data-kept]");
  kept.forEach((span) => span.replaceWith(...span.childNodes));
  // It takes selections away, so only where text was split.
  if (kept.length) main.normalize();
  for (const finding of findings) if (finding.value) markValue(finding, current);
}

function dress(item, finding, current) {
  item.dataset.finding = finding.id;
  // A row is a control by itself; in one, the list of findings is the way for a keyboard.
  if (!item.closest("summary, a")) {
    item.tabIndex = 0;
    item.setAttribute("role", "button");
  }
  item.title = finding.decision || "undecided";
  item.classList.toggle("undecided", !finding.decision);
  item.classList.toggle("chosen", finding.id === current);
}

function markValue(finding, current) {
  const walk = document.createTreeWalker(main, NodeFilter.SHOW_TEXT);
  const found = [];
  for (let node = walk.nextNode(); node; node = walk.nextNode()) {
    if (node.data.includes(finding.value)) found.push(node);
  }
  for (const node of found) {
    let rest = node;
    for (let at = rest.data.indexOf(finding.value); at >= 0; at = rest.data.indexOf(finding.value)) {
      const value = rest.splitText(at);
      rest = value.splitText(finding.value.length);
      const span = document.createElement("span");
      span.dataset.kept = "";
      span.className = "kept";
      value.replaceWith(span);
      span.append(value);
      dress(span, finding, current);
    }
  }
}

function showFinding(id) {
  const item = document.querySelector(`[data-finding="${CSS.escape(id)}"]`);
  if (!item) return;
  for (let box = item.closest("details"); box; box = box.parentElement && box.parentElement.closest("details")) box.open = true;
  document.body.classList.add("injected");
  item.scrollIntoView({ block: "center" });
}

function pick(event) {
  const item = event.target.closest("[data-finding]");
  if (!item) return false;
  tell("share-pick", item.dataset.finding);
  return true;
}
document.addEventListener("click", (event) => { if (pick(event)) event.preventDefault(); });
document.addEventListener("keydown", (event) => {
  if ((event.key === "Enter" || event.key === " ") && pick(event)) event.preventDefault();
});

// One floating button, which goes to the row under the mouse or the finger, or to selected words.
const button = document.createElement("button");
button.type = "button";
button.className = "share-button";
button.hidden = true;
document.body.append(button);
let action = null;

function offer(label, box, act) {
  button.textContent = label;
  action = act;
  button.hidden = false;
  button.style.setProperty("top", `${Math.max(0, box.top + scrollY)}px`);
  button.style.setProperty("left", `${Math.max(0, box.right + scrollX - button.offsetWidth)}px`);
}

button.addEventListener("click", () => {
  button.hidden = true;
  getSelection().removeAllRanges();
  if (action) action();
});

function offerRow(target) {
  if (!getSelection().isCollapsed || button.contains(target)) return;
  const picture = target.closest("figure");
  const item = picture ? findOwner(picture) : target.closest(".row[id], .ev[id]");
  if (!item || !main.contains(item)) return;
  const box = (picture || item.querySelector(":scope > summary") || item).getBoundingClientRect();
  if (picture) offer("Leave out these images", box, () => tell("share-media", item.id));
  else offer("Leave out", box, () => tell("share-drop", item.id));
}

/** Images of a result stand behind the row of their call. */
function findOwner(picture) {
  const owner = picture.closest(".row[id], .ev[id]");
  if (owner) return owner;
  const before = picture.closest(".shots").previousElementSibling;
  return before && [...before.querySelectorAll(".row[id]")].pop();
}

main.addEventListener("mouseover", (event) => offerRow(event.target));
main.addEventListener("focusin", (event) => offerRow(event.target));
main.addEventListener("click", (event) => offerRow(event.target));
document.addEventListener("selectionchange", () => {
  const selection = getSelection();
  const words = selection.toString().trim();
  if (selection.isCollapsed || words.length < 2 || words.length > MAX_WORD || words.includes("\n")) return;
  const range = selection.getRangeAt(0);
  if (!main.contains(range.commonAncestorContainer)) return;
  offer("Mask these words", range.getBoundingClientRect(), () => tell("share-word", words));
});

joinShell(["Escape", "m", "p", "u"]);
if (window.shareState) showState();
