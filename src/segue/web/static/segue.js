// Keeps a page up to date: when the server reports a change, the parts marked `data-live` are fetched again
// and replaced where they differ. The page has no state of its own.
"use strict";

const root = document.documentElement;
root.classList.add("js");

/* On a narrow screen the menu overflows: scroll to the current entry */
const here = document.querySelector(".top nav [aria-current]");
if (here) here.parentElement.scrollLeft = here.offsetLeft - (innerWidth - here.offsetWidth) / 2;

/* Light and dark */
document.getElementById("theme")?.addEventListener("click", () => {
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  try { localStorage.setItem("segue-theme", root.dataset.theme); } catch { /* kept for this page only */ }
});

/* Messages */
const said = document.getElementById("said");
function say(text, bad) {
  if (!said) return;
  said.textContent = text;
  said.classList.toggle("bad", Boolean(bad));
  said.hidden = !text;
}

/* Running times */
function updateTimes() {
  const now = Date.now();
  for (const element of document.querySelectorAll("time[data-ago]")) {
    const seconds = Math.max(0, (now - Number(element.dataset.ago)) / 1000);
    const [size, name] = [[86400, "d"], [3600, "h"], [60, "min"]].find(([size]) => seconds >= size) ?? [0, ""];
    const text = size ? `${Math.floor(seconds / size)} ${name} ago` : "just now";
    if (element.textContent !== text) element.textContent = text;
  }
  for (const element of document.querySelectorAll("time[data-since]")) {
    const seconds = Math.max(0, (now - Number(element.dataset.since)) / 1000);
    element.textContent = formatDuration(seconds);
  }
}
function formatDuration(seconds) {
  if (seconds < 60) return `${Math.floor(seconds)}s`;
  const minutes = Math.floor(seconds / 60), hours = Math.floor(minutes / 60);
  const two = (number) => String(number).padStart(2, "0");
  return hours ? `${hours}h${two(minutes % 60)}m` : `${minutes}m${two(Math.floor(seconds % 60))}s`;
}
setInterval(updateTimes, 1000);
updateTimes();

/* Fetching parts */
async function fetchPart(address) {
  const answer = await fetch(address, { headers: { "x-segue-part": "content" }, cache: "no-store" });
  if (answer.status === 401) throw new Error("Segue was restarted while this page was open. Open the link it printed.");
  const made = document.createElement("template");
  made.innerHTML = await answer.text();
  if (!answer.ok) throw new Error(made.content.querySelector("p")?.textContent || "The page could not be loaded.");
  return made.content;
}

function replace(fresh) {
  for (const element of fresh.querySelectorAll("[data-live]")) {
    const old = document.getElementById(element.id);
    const drawn = element.innerHTML;
    if (!old || old.dataset.drawn === drawn || isBusy(old)) continue;
    const focused = old.contains(document.activeElement) ? document.activeElement : null;
    keepOpen(old, element);
    old.replaceWith(element);
    element.dataset.drawn = drawn;
    if (focused) restoreFocus(focused, element);
  }
  updateTimes();
}
// Open steps stay open with their content; those that changed meanwhile are fetched again.
function keepOpen(old, fresh) {
  for (const opened of old.querySelectorAll("details[id][open]")) {
    const next = fresh.querySelector(`#${CSS.escape(opened.id)}`);
    if (!next) continue;
    next.open = true;
    if (!next.dataset.src) continue;  // its content came with the page
    const body = opened.querySelector(":scope > .body");
    if (body) next.querySelector(":scope > .body")?.replaceWith(body);
    if (opened.dataset.loaded === next.dataset.mark && next.dataset.mark !== "started") next.dataset.loaded = next.dataset.mark;
    else load(next);
  }
}
function restoreFocus(focused, element) {
  const row = focused.closest("details[id]");
  const link = focused.matches("a[href]") ? `a[href="${CSS.escape(focused.getAttribute("href"))}"]` : "";
  const place = focused.id ? `#${CSS.escape(focused.id)}` : link || (row ? `#${CSS.escape(row.id)} > summary` : "");
  if (place) element.querySelector(place)?.focus({ preventScroll: true });
}
// An input in use, or with words that were not sent, is left alone until the next change.
function isBusy(element) {
  const at = document.activeElement;
  if (at && element.contains(at) && (["SELECT", "TEXTAREA"].includes(at.tagName) || (at.tagName === "INPUT" && at.value !== ""))) return true;
  return [...element.querySelectorAll("textarea, input:not([type=hidden])")].some((field) => field.value !== field.defaultValue);
}

let refreshing = false, again = false;
async function refresh() {
  if (!document.querySelector("[data-live]")) return;
  if (document.hidden || refreshing) { again = true; return; }
  refreshing = true;
  again = false;
  try {
    replace(await fetchPart(location.pathname + location.search));
    document.dispatchEvent(new CustomEvent("segue:fresh"));
  } catch (error) {
    if (!(error instanceof TypeError)) say(error.message, true);  // a TypeError is the network: the stream says so
  } finally {
    refreshing = false;
    if (again && !document.hidden) setTimeout(refresh, 300);
  }
}

/* How many things wait for a person, beside the inbox in the menu */
const waiting = document.getElementById("waiting");
let counted = 0, counting = null;
async function countWaiting() {
  if (!waiting || counting) return;
  counting = setTimeout(async () => {
    counted = Date.now();
    counting = null;
    const answer = await fetch("/inbox/count.json", { cache: "no-store" }).catch(() => null);
    if (!answer?.ok) return;
    const number = (await answer.json()).data.waiting;
    waiting.textContent = number;
    waiting.toggleAttribute("data-none", number === 0);
  }, Math.max(0, counted + 2000 - Date.now()));
}

/* The stream */
const from = document.body.dataset.liveFrom;
const sign = document.getElementById("live");
let source = null, heard = Date.now(), last = "";

function showState(away) {
  if (!sign) return;
  sign.classList.remove("off");
  sign.classList.toggle("away", away);
  sign.lastElementChild.textContent = away ? "reconnecting" : "live";
}
function connect() {
  source?.close();
  const mark = last ? `${from.includes("?") ? "&" : "?"}after=${last}` : "";
  source = new EventSource(from + mark);
  source.onopen = () => { heard = Date.now(); showState(false); };
  source.onerror = () => showState(true);
  for (const kind of ["hello", "reset", "change", "events", "beat", "end"]) source.addEventListener(kind, (message) => {
    heard = Date.now();
    if (message.lastEventId) last = message.lastEventId;
    if (kind === "events") document.dispatchEvent(new CustomEvent("segue:events", { detail: JSON.parse(message.data).events }));
    if (kind === "reset") document.dispatchEvent(new CustomEvent("segue:reset"));
    if (kind === "end") { source.close(); showState(true); }
    if (kind !== "end" && kind !== "events") { refresh(); countWaiting(); }  // at a beat, too: no event reports that a process died
  });
}
// Reopen a stream that is closed or silent for long (the machine slept).
function keepConnected() {
  if (document.hidden) return;
  if (!source || source.readyState === EventSource.CLOSED || Date.now() - heard > 45000) { heard = Date.now(); connect(); }
}
// A browser has six connections to one server for all its tabs: hidden tabs give theirs up.
document.addEventListener("visibilitychange", () => {
  if (!from) return;
  if (document.hidden) { source?.close(); source = null; } else { keepConnected(); refresh(); }
});
if (from) { keepConnected(); setInterval(keepConnected, 5000); }

/* Actions: send a form, show the result */
document.addEventListener("submit", async (event) => {
  const form = event.target;
  if (form.method !== "post") return;
  event.preventDefault();
  if (form.dataset.confirm && !confirm(form.dataset.confirm)) return;
  const buttons = form.querySelectorAll("button");
  const body = new URLSearchParams(new FormData(form, event.submitter));
  buttons.forEach((button) => { button.disabled = true; });
  say("Working…");
  try {
    const answer = await fetch(form.action, { method: "POST", body, headers: { accept: "application/json" } });
    const result = await answer.json();
    if (answer.ok) { say(result.data.said); form.reset(); } else { say([result.error.message, result.error.kept, result.error.hint].filter(Boolean).join(" "), true); }
  } catch { say("Segue cannot be reached. Is `segue serve` still running?", true); }
  buttons.forEach((button) => { button.disabled = false; });
  refresh();
});

/* Filters that apply at once. A list in which somebody types changes with each key, so it waits for Enter or Tab. */
let typing = false;
let chosen = null;
function applyChosen() { const form = chosen; chosen = null; form?.requestSubmit(); }
document.addEventListener("pointerdown", () => { typing = false; });
document.addEventListener("keydown", () => { typing = true; });
document.addEventListener("keyup", (event) => { if (event.key === "Enter") applyChosen(); });
document.addEventListener("focusout", applyChosen);
document.addEventListener("change", (event) => {
  const form = event.target.closest("form[data-auto]");
  if (typing && event.target.matches("select")) chosen = form; else form?.requestSubmit();
});

// A page inside another one has no title of its own, headings below the one it is under, and is not live.
function settle(fresh, row) {
  const above = Number(row.closest("article, section")?.querySelector("h1, h2, h3, h4")?.tagName[1] ?? 1);
  for (const heading of fresh.querySelectorAll("h1, h2, h3, h4")) {
    const made = document.createElement(heading.tagName === "H1" ? "p" : `h${Math.min(above + 1, 6)}`);
    made.className = heading.tagName === "H1" ? "title" : heading.className;
    made.append(...heading.childNodes);
    heading.replaceWith(made);
  }
  for (const part of fresh.querySelectorAll("[data-live]")) { part.removeAttribute("data-live"); part.removeAttribute("id"); }
}

/* Steps: opened from their row or their bar, fetched when opened */
async function load(row) {
  const body = row.querySelector(":scope > .body");
  row.dataset.loaded = row.dataset.mark;
  try {
    const fresh = await fetchPart(row.dataset.src);
    settle(fresh, row);
    const inside = [...body.querySelectorAll("details")].map((one) => one.open);
    body.replaceChildren(fresh);
    [...body.querySelectorAll("details")].forEach((one, place) => { if (place in inside) one.open = inside[place]; });
    updateTimes();
  } catch (error) { body.textContent = error.message; }
}
document.addEventListener("toggle", (event) => {
  const row = event.target;
  if (row.matches?.("details[data-src]") && row.open && row.dataset.loaded === undefined) load(row);
}, true);
function openTarget() {
  const row = location.hash.length > 1 ? document.getElementById(decodeURIComponent(location.hash.slice(1))) : null;
  if (row?.matches("details")) { row.open = true; row.scrollIntoView({ block: "start" }); row.querySelector("summary").focus({ preventScroll: true }); }
}
addEventListener("hashchange", openTarget);
openTarget();

/* The feed: new events are appended; after a gap it is fetched again */
const feed = document.getElementById("feed");
const LINES = 100;
function atEnd() { return feed.scrollHeight - feed.scrollTop - feed.clientHeight < 30; }
if (feed) {
  feed.scrollTop = feed.scrollHeight;
  document.addEventListener("segue:events", (event) => {
    const follow = atEnd();
    for (const line of event.detail) {
      if (!line.text || line.seq <= Number(feed.dataset.last)) continue;
      feed.dataset.last = line.seq;
      if (!feed.querySelector("[data-seq]")) feed.replaceChildren();
      const item = document.createElement("li"), when = document.createElement("time"), where = document.createElement("span"), what = document.createElement("span");
      item.dataset.seq = line.seq;
      when.textContent = new Date(line.ts).toLocaleTimeString("en-GB");
      where.className = "place";
      where.textContent = line.place;
      what.textContent = line.text;
      item.append(when, " ", where, " ", what);
      feed.append(item);
    }
    while (feed.childElementCount > LINES) feed.firstElementChild.remove();
    if (follow) feed.scrollTop = feed.scrollHeight;
  });
  document.addEventListener("segue:reset", async () => {
    const fresh = (await fetchPart(location.pathname + location.search).catch(() => null))?.querySelector("#feed");
    if (fresh) { feed.replaceChildren(...fresh.children); feed.dataset.last = fresh.dataset.last; feed.scrollTop = feed.scrollHeight; }
  });
}
