// Inside a page: it grows with its session, keeps its reader's place, and passes keys to the shell.

const root = document.documentElement;
const main = document.getElementById("ot-main");
const key = location.pathname.split("/")[3];
let version = document.getElementById("ot-version").value;
let source = null;
let unseen = 0;

function parse(html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  return template.content;
}

const isAtEnd = () => innerHeight + scrollY > lastElement().getBoundingClientRect().bottom + scrollY - 64;
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

function findSection(turn, sections) {
  if (sections[turn]) return sections[turn];
  const section = document.createElement("section");
  section.className = "turn";
  main.append(section);
  sections[turn] = section;
  return section;
}

function apply(change) {
  const follows = isAtEnd();
  const known = [...main.querySelectorAll(".blk")];
  const sections = {};
  main.querySelectorAll(":scope > section.turn").forEach((section) => {
    const number = section.querySelector("h2 .n");
    sections[number ? Number(number.textContent) : 0] = section;
  });
  let added = 0;
  change.blocks.forEach((block, index) => {
    if (block.html === null) return;
    if (known[index]) {
      const rows = known[index].querySelectorAll(".ev, .row").length;
      const fresh = replaceBlock(known[index], block.html);
      added += Math.max(0, fresh.querySelectorAll(".ev, .row").length - rows);
      const section = findSection(block.turn, sections);
      if (fresh.parentElement !== section) section.append(fresh);
      return;
    }
    const content = parse(block.html);
    added += content.querySelectorAll(".ev, .row").length;
    findSection(block.turn, sections).append(content);
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
  replaceSurroundings(change);
  version = change.version;
  document.dispatchEvent(new CustomEvent("ot-change"));
  if (follows) {
    main.lastElementChild.scrollIntoView({ block: "end" });
    return;
  }
  unseen += added;
  announce();
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

const more = document.createElement("button");
more.type = "button";
more.className = "more-below";
more.hidden = true;
more.addEventListener("click", () => {
  main.lastElementChild.scrollIntoView({ block: "end" });
  unseen = 0;
  announce();
});
document.body.append(more);
const live = document.createElement("p");
live.className = "sr-only";
live.setAttribute("role", "status");
document.body.append(live);

function announce() {
  more.hidden = unseen === 0;
  more.textContent = unseen === 1 ? "1 new row below" : `${unseen} new rows below`;
  live.textContent = unseen ? more.textContent : "";
}
addEventListener("scroll", () => { if (unseen && isAtEnd()) { unseen = 0; announce(); } }, { passive: true });

function listen() {
  if (document.hidden) {
    if (source) source.close();
    source = null;
    return;
  }
  if (source) return;
  source = new EventSource(`/web/changes?key=${encodeURIComponent(key)}&version=${encodeURIComponent(version)}`);
  source.addEventListener("message", (event) => apply(JSON.parse(event.data)));
  // After an interruption the browser would ask for what has changed since the first version.
  source.addEventListener("error", () => {
    source.close();
    source = null;
    setTimeout(listen, 1000);
  });
}
document.addEventListener("visibilitychange", listen);
addEventListener("pagehide", () => source && source.close());
listen();

if (parent !== window) {
  root.classList.add("framed");
  const theme = parent.document.documentElement.dataset.theme;
  if (theme) root.dataset.theme = theme;
  document.addEventListener("keydown", (event) => {
    const find = event.target.closest && event.target.closest("input, textarea");
    if (find && !(event.ctrlKey || event.metaKey)) return;
    if (event.ctrlKey || event.metaKey || ["[", "]", "Escape"].includes(event.key)) {
      parent.dispatchEvent(new CustomEvent("page-key", { detail: event }));
    }
  });
}
