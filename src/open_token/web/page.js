"use strict";
(() => {
  const doc = document, root = doc.documentElement, body = doc.body;
  const id = (name) => doc.getElementById(name);
  const all = (query, from) => [...(from || doc).querySelectorAll(query)];
  const main = id("ot-main"), find = id("ot-find"), hits = id("ot-hits"), keys = id("ot-keys");
  root.classList.add("js");
  let here = null, found = [], hit = -1, last = "";

  // Visibility by classes only: measuring boxes would force the browser to lay out blocks it may skip.
  const hidden = ".brief .run, .brief .mid, .brief .quiet, .full .quiet, .nothoughts .think";
  const shown = (item) => !item.closest(hidden) && !item.parentElement.closest("details:not([open])");
  const reveal = (item) => {
    for (let box = item.closest("details"); box; box = box.parentElement && box.parentElement.closest("details")) box.open = true;
  };
  const mark = (item) => {
    if (here) here.classList.remove("at");
    here = item;
    if (here) here.classList.add("at");
  };
  const go = (item, link) => {
    if (!item) return;
    mark(item);
    if (item.parentElement) reveal(item.parentElement);
    item.scrollIntoView({ block: "start" });
    const target = item.matches("details") ? item.firstElementChild : item;
    if (!target.hasAttribute("tabindex") && target.tagName !== "SUMMARY") target.tabIndex = -1;
    target.focus({ preventScroll: true });
    if (link && item.id) history.replaceState(null, "", "#" + encodeURIComponent(item.id));
  };
  const top = () => doc.querySelector(".bar").getBoundingClientRect().bottom + 48;
  // The current position: the marked item, else the first one below the bar; at the top of the page, before all.
  const step = (query, by) => {
    const items = all(query, main).filter(query === ".bad" ? () => true : shown);
    let place = items.indexOf(here);
    if (place < 0) {
      const line = here ? here.getBoundingClientRect().top + 1 : scrollY ? top() + 1 : -1;
      let low = 0, high = items.length;
      while (low < high) {
        const middle = (low + high) >> 1;
        if (items[middle].getBoundingClientRect().top > line) high = middle; else low = middle + 1;
      }
      place = by > 0 ? low - 1 : low;
    }
    go(items[Math.max(0, Math.min(items.length - 1, place + by))], true);
  };
  const mode = (name) => {
    body.classList.remove("brief", "full", "all");
    body.classList.add(name);
    all(".seg button").forEach((one) => one.setAttribute("aria-pressed", String(one.dataset.do === name)));
    if (name === "all") all("details.row", main).forEach((one) => (one.open = true));
    if (name === "full") all("details.row", main).forEach((one) => (one.open = false));
  };
  const fail = (by) => {
    if (body.classList.contains("brief")) mode("full");
    step(".bad", by);
  };
  const sweep = (items) => {
    const open = items.some((one) => !one.open);
    items.forEach((one) => (one.open = open));
  };
  const copy = (text) => {
    const said = (words) => { hits.textContent = words; };
    if (navigator.clipboard) navigator.clipboard.writeText(text).then(() => said("copied"), () => said("not copied"));
    else said("not copied");
  };
  const current = () => here || doc.querySelector(":target") || main.querySelector(".ev, .row");

  const search = () => {
    const words = find.value.toLowerCase();
    if (words === last) return;
    last = words;
    hit = -1;
    const some = words.length > 1 ? all(".ev, .row", main).filter((one) => one.textContent.toLowerCase().includes(words)) : [];
    const outer = new Set();
    some.forEach((one) => { for (let up = one.parentElement; up && up !== main; up = up.parentElement) outer.add(up); });
    found = some.filter((one) => !outer.has(one));
    hits.textContent = words.length < 2 ? "" : found.length ? found.length + " found" : "no matches";
    if (self.CSS && CSS.highlights) CSS.highlights.delete("ot-hit");
  };
  const paint = (item) => {
    if (!(self.CSS && CSS.highlights && self.Highlight)) return;
    const ranges = [], walk = doc.createTreeWalker(item, NodeFilter.SHOW_TEXT);
    for (let node = walk.nextNode(); node && ranges.length < 500; node = walk.nextNode()) {
      const text = node.data.toLowerCase();
      for (let at = text.indexOf(last); at >= 0 && ranges.length < 500; at = text.indexOf(last, at + last.length)) {
        if (at + last.length > node.data.length) break;
        const range = new Range();
        range.setStart(node, at);
        range.setEnd(node, at + last.length);
        ranges.push(range);
      }
    }
    CSS.highlights.set("ot-hit", new Highlight(...ranges));
    if (ranges.length) ranges[0].startContainer.parentElement.scrollIntoView({ block: "center" });
  };
  const next = (by) => {
    search();
    if (!found.length) return;
    hit = (hit + by + found.length) % found.length;
    hits.textContent = hit + 1 + " of " + found.length;
    const item = found[hit];
    if (!shown(item)) mode("all");
    reveal(item);
    mark(item);
    item.scrollIntoView({ block: "start" });
    paint(item);
  };

  const actions = {
    j: () => step(".ev, .row", 1), k: () => step(".ev, .row", -1),
    J: () => step(".ask", 1), K: () => step(".ask", -1),
    e: () => fail(1), E: () => fail(-1),
    o: () => { const row = here && here.closest(".row"); if (row) row.open = !row.open; },
    x: () => sweep(all(".row", (current() || main).closest("section") || main)),
    d: () => sweep(all(".k-edit, .k-write", main)),
    f: () => mode({ brief: "full", full: "all", all: "brief" }[["brief", "full", "all"].find((one) => body.classList.contains(one))]),
    t: () => {
      const off = body.classList.toggle("nothoughts");
      all('[data-do="t"]').forEach((one) => one.setAttribute("aria-pressed", String(!off)));
    },
    n: () => next(1), N: () => next(-1),
    c: () => { const item = current(); if (item) copy(location.href.split("#")[0] + "#" + item.id); },
    y: () => { const item = current(); if (item) copy(item.innerText); },
    G: () => { const items = all(".ev, .row", main).filter(shown); go(items[items.length - 1], true); },
    m: () => {
      if (getComputedStyle(id("ot-outline")).display === "none" || body.classList.contains("sheet")) body.classList.toggle("sheet");
      const link = doc.querySelector("#ot-outline a");
      if (link && getComputedStyle(id("ot-outline")).display !== "none") link.focus();
    },
    "?": () => (keys.open ? keys.close() : keys.showModal()),
    "/": () => { find.focus({ preventScroll: true }); find.select(); },
    theme: () => {
      const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
      root.dataset.theme = dark ? "light" : "dark";
    },
    brief: () => mode("brief"), full: () => mode("full"), all: () => mode("all"),
  };

  let before = "";
  doc.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target === find) {
      if (event.key === "Enter") { event.preventDefault(); next(event.shiftKey ? -1 : 1); }
      if (event.key === "Escape") { find.value = ""; search(); find.blur(); }
      return;
    }
    const key = event.key;
    if (keys.open && key !== "?") return;
    if (key === "Escape") { body.classList.remove("sheet"); return; }
    if (key === "g") {
      if (before === "g") { scrollTo(0, 0); mark(null); }
      before = before === "g" ? "" : "g";
      return;
    }
    before = "";
    if (/^[1-9]$/.test(key)) { go(all(".ask", main)[key - 1], true); return; }
    if (key.length === 1 && Object.hasOwn(actions, key)) { event.preventDefault(); actions[key](); }
  });
  doc.addEventListener("click", (event) => {
    const button = event.target.closest("[data-do]");
    if (button) { actions[button.dataset.do](); return; }
    const drawing = event.target.closest("svg");
    if (drawing && !event.target.closest("a")) {
      const box = drawing.getBoundingClientRect(), at = ((event.clientX - box.left) / box.width) * 1000;
      const near = all(".tick, .fail", drawing).sort((a, b) => Math.abs(a.x.baseVal.value - at) - Math.abs(b.x.baseVal.value - at))[0];
      if (near) location.hash = near.parentNode.getAttribute("href");
    }
    if (event.target.closest("nav a")) body.classList.remove("sheet");
    const item = event.target.closest("main .row, main .ev");
    if (item) mark(item);
  });
  let waiting = 0;
  find.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(search, 150); });

  const arrive = () => {
    let name = location.hash.slice(1);
    try { name = decodeURIComponent(name); } catch { return; }
    const item = name && id(name);
    if (!item || !main.contains(item)) return;
    if (!shown(item)) mode("full");
    reveal(item);
    const row = item.closest(".row, .ev");
    mark(row || item);
    (row || item).scrollIntoView({ block: "start" });
  };
  addEventListener("hashchange", arrive);
  arrive();

  const links = new Map(all("#ot-outline a").map((link) => [link.getAttribute("href").slice(1), link]));
  if (self.IntersectionObserver && links.size < 2000) {
    const live = new Set(), names = new Map();
    const watch = new IntersectionObserver((seen) => {
      seen.forEach((one) => (one.isIntersecting ? live.add(one.target) : live.delete(one.target)));
      const now = [...live], item = now.filter((one) => !one.matches("section")).pop() || now.pop();
      if (!item) return;
      links.forEach((link) => link.removeAttribute("aria-current"));
      const link = links.get(names.get(item));
      link.setAttribute("aria-current", "true");
      const box = link.getBoundingClientRect(), nav = id("ot-outline"), frame = nav.getBoundingClientRect();
      if (box.top < frame.top || box.bottom > frame.bottom) nav.scrollTop += box.top - frame.top - frame.height / 2;
    }, { rootMargin: "-15% 0px -75% 0px" });
    links.forEach((_, name) => {
      const item = id(name), part = item && item.matches(".ask") ? item.closest("section") : item;
      if (part) { names.set(part, name); watch.observe(part); }
    });
  }
  let closed = [];
  addEventListener("beforeprint", () => { closed = all("details:not([open])", main); closed.forEach((one) => (one.open = true)); });
  addEventListener("afterprint", () => { closed.forEach((one) => (one.open = false)); closed = []; });
})();
