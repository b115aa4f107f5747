"use strict";
(() => {
  const doc = document, root = doc.documentElement, body = doc.body;
  const id = (name) => doc.getElementById(name);
  const all = (query, from) => [...(from || doc).querySelectorAll(query)];
  const main = id("ot-main"), find = id("ot-find"), hits = id("ot-hits"), keys = id("ot-keys");
  root.classList.add("js");
  // What a page is walked through by: its prompts, or the differences of a comparison.
  const jump = body.dataset.jump || ".ask";
  let here = null, found = [], hit = -1, last = null;

  // Visibility by classes only: measuring boxes would force the browser to lay out blocks it may skip.
  const hidden = ".brief .run, .brief .mid, .brief .quiet, .brief .shots, .full .quiet, .full:not(.injected) .inj, .nothoughts .think";
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

  // Find: every occurrence in the conversation, painted without changing the page.
  const limit = 10000;
  const paints = self.CSS && CSS.highlights && self.Highlight;
  const paint = (name, ranges) => {
    if (!paints) return;
    if (ranges.length) CSS.highlights.set(name, new Highlight(...ranges));
    else CSS.highlights.delete(name);
  };
  const makeRange = (node, start, end) => {
    const range = new Range();
    range.setStart(node, start);
    range.setEnd(node, end);
    return range;
  };
  const search = () => {
    const words = find.value.toLowerCase();
    if (words === last) return;
    last = words;
    hit = -1;
    found = [];
    if (words.length > 1) {
      const walk = doc.createTreeWalker(main, NodeFilter.SHOW_TEXT);
      for (let node = walk.nextNode(); node && found.length < limit; node = walk.nextNode()) {
        const text = node.data.toLowerCase();
        // Some letters are longer in lower case: then places in the two texts differ.
        if (text.length !== node.data.length) continue;
        for (let at = text.indexOf(words); at >= 0 && found.length < limit; at = text.indexOf(words, at + words.length)) {
          found.push(makeRange(node, at, at + words.length));
        }
      }
    }
    const count = found.length === limit ? "over " + limit : found.length;
    hits.textContent = words.length < 2 ? "" : found.length ? count + " found" : "no matches";
    paint("ot-hit", found);
    paint("ot-now", []);
  };
  const next = (by) => {
    search();
    if (!found.length) return;
    hit = hit < 0 && by < 0 ? found.length - 1 : (hit + by + found.length) % found.length;
    hits.textContent = hit + 1 + " of " + found.length;
    const range = found[hit], box = range.startContainer.parentElement;
    const item = box.closest(".ev, .row");
    if (item && item.closest(".inj")) body.classList.add("injected");
    if (item && !shown(item) && item.closest(hidden)) mode("all");
    reveal(box);
    if (item) mark(item);
    box.scrollIntoView({ block: "center" });
    paint("ot-now", [range]);
  };

  // Syntax colours: one rough grammar for all languages, applied when code comes into view.
  const notes = { py: "#", python: "#", sh: "#", bash: "#", rb: "#", ruby: "#", yaml: "#", yml: "#", toml: "#", sql: "--", lua: "--", hs: "--" };
  const keywords = "and as async await break case catch class const continue def default del do elif else end enum except export extends false final finally fn for from func function global if impl import in interface is lambda let local match mod mut new nil none not null or package pass private protected pub public raise return self static struct super switch this throw trait true try type typeof use using var void while with yield select where insert into update set delete create table join on then fi done echo";
  const known = new Set(keywords.split(" "));
  const prose = new Set(["text", "txt", "md", "markdown", "log", "plain", "output", "console", "diff"]);
  const token = /"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\.)*`|\/\*[^]*?\*\/|(?:\/\/|#|--).*|\b\d[\w.]*\b|\b[A-Za-z_]+\b/g;
  const colours = ["ot-word", "ot-text", "ot-note", "ot-number"];
  let coloured = 0;
  const classify = (word, language) => {
    if (/^["'`]/.test(word)) return "ot-text";
    if (/^\d/.test(word)) return "ot-number";
    if (/^\w/.test(word)) return known.has(word.toLowerCase()) ? "ot-word" : "";
    if (word.startsWith("/*")) return "ot-note";
    return word.startsWith(notes[language] || "//") ? "ot-note" : "";
  };
  const colour = (pre) => {
    const language = pre.dataset.lang;
    if (prose.has(language)) return;
    const walk = doc.createTreeWalker(pre, NodeFilter.SHOW_TEXT);
    for (let node = walk.nextNode(); node && coloured < 60000; node = walk.nextNode()) {
      if (node.data.length > 200000) continue;
      token.lastIndex = 0;
      for (let one = token.exec(node.data); one && coloured < 60000; one = token.exec(node.data)) {
        const name = classify(one[0], language);
        if (!name) {
          // What is no note in this language is looked at again behind its first sign.
          if (/^[#/-]/.test(one[0])) token.lastIndex = one.index + 1;
          continue;
        }
        CSS.highlights.get(name).add(makeRange(node, one.index, one.index + one[0].length));
        coloured += 1;
      }
    }
  };
  if (paints && self.IntersectionObserver) {
    colours.forEach((name) => CSS.highlights.set(name, new Highlight()));
    const watch = new IntersectionObserver((seen) => seen.forEach((one) => {
      if (!one.isIntersecting) return;
      watch.unobserve(one.target);
      colour(one.target);
    }));
    all("pre[data-lang]", main).slice(0, 20000).forEach((pre) => watch.observe(pre));
  }

  // One button to copy, which goes to the code or message under the mouse.
  const copier = doc.createElement("button");
  copier.type = "button";
  copier.className = "copy";
  copier.tabIndex = -1;
  copier.setAttribute("aria-label", "Copy");
  main.addEventListener("mouseover", (event) => {
    if (copier.contains(event.target)) return;
    const item = event.target.closest("pre, .ev");
    if (item === copier.parentElement) return;
    copier.classList.remove("done");
    if (item && main.contains(item)) item.append(copier);
    else copier.remove();
  });
  copier.addEventListener("click", (event) => {
    event.preventDefault();
    event.stopPropagation();
    const perma = ":scope > .perma", item = copier.parentElement.cloneNode(true);
    item.querySelectorAll(perma).forEach((one) => one.remove());
    copy(item.matches("pre") ? item.textContent : copier.parentElement.innerText);
    copier.classList.add("done");
  });

  const actions = {
    j: () => step(".ev, .row", 1), k: () => step(".ev, .row", -1),
    J: () => step(jump, 1), K: () => step(jump, -1),
    e: () => fail(1), E: () => fail(-1),
    o: () => { const row = here && here.closest(".row"); if (row) row.open = !row.open; },
    x: () => sweep(all(".row", (current() || main).closest("section") || main)),
    d: () => sweep(all(".k-edit, .k-write", main)),
    f: () => mode({ brief: "full", full: "all", all: "brief" }[["brief", "full", "all"].find((one) => body.classList.contains(one))]),
    t: () => {
      const off = body.classList.toggle("nothoughts");
      all('[data-do="t"]').forEach((one) => one.setAttribute("aria-pressed", String(!off)));
    },
    i: () => {
      const on = body.classList.toggle("injected");
      all('[data-do="i"]').forEach((one) => one.setAttribute("aria-pressed", String(on)));
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
    if (/^[1-9]$/.test(key)) { go(all(jump, main)[key - 1], true); return; }
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
    if (item.closest(".inj")) body.classList.add("injected");
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
  // While a prompt is on the screen, its heading does not repeat it.
  if (self.IntersectionObserver) {
    const asked = new IntersectionObserver((seen) => seen.forEach((one) => {
      // The application may have replaced it by then.
      const section = one.target.closest("section");
      if (section) section.classList.toggle("asked", one.isIntersecting);
    }), { rootMargin: "-96px 0px 0px 0px" });
    all("section > .blk .prompt:not(.same)", main).forEach((one) => asked.observe(one));
  }
  let closed = [];
  addEventListener("beforeprint", () => { closed = all("details:not([open])", main); closed.forEach((one) => (one.open = true)); });
  addEventListener("afterprint", () => { closed.forEach((one) => (one.open = false)); closed = []; });
})();
