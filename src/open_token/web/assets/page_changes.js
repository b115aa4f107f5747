// A page in a frame of the application: a later version of its session in place of what it shows.

const main = document.getElementById("ot-main");

function parse(html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  return template.content;
}

export const isAtEnd = () => innerHeight + scrollY > lastElement().getBoundingClientRect().bottom + scrollY - 64;
const lastElement = () => main.lastElementChild || main;

/** Replace a block, but leave the rows that a reader has opened open. */
function replaceBlock(block, html) {
  const open = new Set([...block.querySelectorAll("details[open][id]")].map((row) => row.id));
  const current = document.activeElement && block.contains(document.activeElement) && document.activeElement.closest("[id]");
  const marked = block.querySelector(".at[id]");
  const fresh = parse(html).firstElementChild;
  fresh.querySelectorAll("details[id]").forEach((row) => { if (open.has(row.id)) row.open = true; });
  block.replaceWith(fresh);
  if (marked) {
    const again = document.getElementById(marked.id);
    if (again) again.classList.add("at");
  }
  if (current) {
    const again = document.getElementById(current.id);
    if (again) (again.firstElementChild || again).focus({ preventScroll: true });
  }
  return fresh;
}

/** Put a block behind another one, or first into its section; one that is there already stays. */
function place(node, section, last) {
  const before = last || section.querySelector(":scope > h2");
  if (node.parentElement === section && node.previousElementSibling === before) return;
  if (before) before.after(node);
  else section.prepend(node);
}

function findSection(turn, sections) {
  if (sections[turn]) return sections[turn];
  const section = document.createElement("section");
  section.className = "turn";
  main.append(section);
  sections[turn] = section;
  return section;
}

/** Show a later version; return how many rows it adds. Rows that a reader has opened stay open. */
export function applyChange(change) {
  const known = [...main.querySelectorAll(".blk")];
  const sections = {};
  main.querySelectorAll(":scope > section.turn").forEach((section) => {
    const number = section.querySelector("h2 .n");
    sections[number ? Number(number.textContent) : 0] = section;
  });
  let added = 0;
  const lasts = {};
  change.blocks.forEach((block, index) => {
    let node = known[index];
    if (block.html !== null) {
      const rows = node ? node.querySelectorAll(".ev, .row").length : 0;
      node = node ? replaceBlock(node, block.html) : parse(block.html).firstElementChild;
      added += Math.max(0, node.querySelectorAll(".ev, .row").length - rows);
    }
    place(node, findSection(block.turn, sections), lasts[block.turn]);
    lasts[block.turn] = node;
  });
  known.slice(change.blocks.length).forEach((block) => block.remove());
  change.headings.forEach((html, index) => {
    const section = sections[index + 1];
    if (!section) return;
    const heading = section.querySelector(":scope > h2");
    const fresh = parse(html).firstElementChild;
    if (!heading) section.prepend(fresh);
    else if (heading.outerHTML !== html) heading.replaceWith(fresh);
  });
  // A prompt may be left out: then its section has nothing in it.
  main.querySelectorAll(":scope > section.turn").forEach((section) => { if (!section.querySelector(".blk")) section.remove(); });
  replaceSurroundings(change);
  return added;
}

function replaceSurroundings(change) {
  const header = document.querySelector(".wrap > header");
  const open = [...header.querySelectorAll("details[open] > summary")].map((summary) => summary.textContent.split(" ")[1]);
  header.replaceChildren(parse(change.header));
  header.querySelectorAll("details > summary").forEach((summary) => {
    if (open.includes(summary.textContent.split(" ")[1])) summary.parentElement.open = true;
  });
  const strip = document.querySelector(".bar > svg");
  if (strip) strip.replaceWith(parse(change.strip).firstElementChild);
  const outline = document.getElementById("ot-outline");
  const place = outline.scrollTop;
  outline.replaceChildren(...parse(change.outline).firstElementChild.childNodes);
  outline.scrollTop = place;
}

/** In a frame: take the theme of the shell, and pass on the keys that are its. */
export function joinShell(keys) {
  if (parent === window) return;
  document.documentElement.classList.add("framed");
  const theme = parent.document.documentElement.dataset.theme;
  if (theme) document.documentElement.dataset.theme = theme;
  document.addEventListener("keydown", (event) => {
    const find = event.target.closest && event.target.closest("input, textarea");
    if (find && !(event.ctrlKey || event.metaKey)) return;
    if (event.ctrlKey || event.metaKey || keys.includes(event.key)) {
      parent.dispatchEvent(new CustomEvent("page-key", { detail: event }));
    }
  });
}
