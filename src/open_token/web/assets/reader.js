// Inside a page: it grows with its session, keeps its reader's place, and passes keys to the shell.

import { applyChange, isAtEnd, joinShell } from "/web/assets/page_changes.js";

const main = document.getElementById("ot-main");
const key = location.pathname.split("/")[3];
let version = document.getElementById("ot-version").value;
let source = null;
let unseen = 0;

function apply(change) {
  const follows = isAtEnd();
  const added = applyChange(change);
  version = change.version;
  if (follows) {
    main.lastElementChild.scrollIntoView({ block: "end" });
    return;
  }
  unseen += added;
  announce();
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

joinShell(["[", "]", "Escape"]);
