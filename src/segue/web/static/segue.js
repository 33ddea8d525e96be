// Keeps a page up to date: when the server reports a change, the parts marked `data-live` are fetched again
// and replaced where they differ. The page has no state of its own.
"use strict";

const root = document.documentElement;
root.classList.add("js");

/* On a narrow screen menu and tabs overflow: scroll to the current entry of each */
for (const here of document.querySelectorAll(".top nav [aria-current], nav.tabs [aria-current]"))
  here.parentElement.scrollLeft = here.offsetLeft - (innerWidth - here.offsetWidth) / 2;

/* Messages */
const said = document.getElementById("said");
function say(text, bad) {
  if (!said) return;
  said.textContent = text;
  said.classList.toggle("bad", Boolean(bad));
  said.hidden = !text;
  clearTimeout(said.timer);
  if (text && !bad) said.timer = setTimeout(() => { said.hidden = true; }, 8000);  // it lies over what is below
}

/* Running times, which stand still while nothing is heard of the run */
let away = false;
function updateTimes() {
  const now = Date.now();
  for (const element of document.querySelectorAll("time[data-ago]")) {
    const seconds = Math.max(0, (now - Number(element.dataset.ago)) / 1000);
    const [size, name] = [[86400, "d"], [3600, "h"], [60, "min"]].find(([size]) => seconds >= size) ?? [0, ""];
    const text = size ? `${Math.floor(seconds / size)} ${name} ago` : "just now";
    if (element.textContent !== text) element.textContent = text;
  }
  if (!away) for (const element of document.querySelectorAll("time[data-since]")) {
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
    if ("room" in old.dataset) element.style.minHeight = `${old.offsetHeight}px`;  // what is below does not jump
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
let source = null, heard = Date.now(), last = "", lost = null;

function showState(gone) {
  if (!sign) return;
  if (gone && !away) {
    const since = new Date().toLocaleTimeString("en-GB");
    lost = setTimeout(() => { lost = null; say(`No connection since ${since}: this page shows what was true then. Is \`segue serve\` still running?`, true); }, 3000);
  } else if (!gone && away) {
    if (lost === null) say("");
    clearTimeout(lost);
  }
  away = gone;
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
    if (isBusy(body)) return;
    keepOpen(body, fresh);
    body.replaceChildren(fresh);
    const now = [...body.querySelectorAll("details")];
    if (now.length === inside.length) now.forEach((one, place) => { one.open = inside[place]; });
    updateTimes();
    await Promise.all([...body.querySelectorAll("details[data-src][open]")].filter((one) => one.dataset.loaded === undefined).map(load));
  } catch (error) { body.textContent = error.message; }
}
document.addEventListener("toggle", (event) => {
  const row = event.target;
  if (row.matches?.("details[data-src]") && row.open && row.dataset.loaded === undefined) load(row);
}, true);
// An address may name a row, or something inside one: a step, a diff, a card, a conversation.
function findRow(name) {
  const [, kind, key] = /^(step|diff|proof|talk|steps)-(.+)$/.exec(name) ?? [];
  if (kind === "step") return document.querySelector(`.row[data-steps~="${CSS.escape(key)}"]`);
  return kind ? document.getElementById(`task-${key}`) : null;
}
async function openTarget() {
  const name = decodeURIComponent(location.hash.slice(1));
  if (!name) return;
  let found = document.getElementById(name);
  const row = found ? null : findRow(name);
  if (row) {
    row.open = true;
    if (row.dataset.loaded === undefined) await load(row);
    found = document.getElementById(name);
  }
  if (!found?.matches("details")) return;
  for (let at = found; at; at = at.parentElement?.closest("details")) at.open = true;
  found.scrollIntoView({ block: "start" });
  found.querySelector("summary").focus({ preventScroll: true });
}
addEventListener("hashchange", openTarget);
openTarget();

/* Diffs: a click on a line, or Enter, writes a comment on it */
document.addEventListener("click", (event) => {
  const line = event.target.closest(".diff[data-comment] tr[data-line]");
  if (line && getSelection().isCollapsed) writeOn(line);
});
function writeOn(line) {
  const file = line.closest(".diff"), next = line.nextElementSibling;
  if (next?.matches(".write")) { next.remove(); return; }
  const row = document.createElement("tr"), cell = document.createElement("td"), form = document.createElement("form");
  row.className = "write";
  cell.colSpan = 4;
  form.method = "post";
  form.action = file.dataset.comment;
  form.className = "act comment";
  const place = `${file.dataset.path}:${line.dataset.line}`;
  for (const [name, value] of [["file", file.dataset.path], ["line", line.dataset.line]]) {
    const hidden = document.createElement("input");
    Object.assign(hidden, { type: "hidden", name, value });
    form.append(hidden);
  }
  const words = document.createElement("textarea"), buttons = document.createElement("span");
  Object.assign(words, { name: "text", required: true, rows: 2, maxLength: 10000, placeholder: `What should be different at ${place}? The agent gets these words.` });
  words.setAttribute("aria-label", `Comment on ${place}`);
  words.addEventListener("keydown", (event) => { if (event.key === "Escape") { row.remove(); line.closest("[tabindex]")?.focus(); } });
  buttons.className = "acts";
  for (const [label, tone, then] of [["Comment and retry", "strong", "retry"], ["Comment", "", ""]]) {
    const button = document.createElement("button");
    Object.assign(button, { textContent: label, className: tone, name: then ? "then" : "", value: then });
    buttons.append(button);
  }
  form.append(words, buttons);
  form.addEventListener("reset", () => row.remove());
  cell.append(form);
  row.append(cell);
  line.after(row);
  words.focus();
}

/* The keyboard: j and k go through rows, Enter opens, a accepts, r sends back, ? explains */
const shortcuts = document.getElementById("shortcuts");
const ROWS = ".row > summary, .item .item-head a, table.rows td.main > a";
document.getElementById("keys")?.addEventListener("click", () => shortcuts.showModal());
function go(by) {
  const rows = [...document.querySelectorAll(ROWS)].filter((row) => row.checkVisibility());
  const here = document.activeElement?.closest(".row, .item, tr")?.querySelector(ROWS);
  const at = rows.indexOf(rows.find((row) => row === document.activeElement || row === here));
  const next = rows[at < 0 ? (by > 0 ? 0 : rows.length - 1) : Math.min(Math.max(at + by, 0), rows.length - 1)];
  next?.focus();
  next?.scrollIntoView({ block: "nearest" });
}
async function decide(kind) {
  const place = document.activeElement?.closest(".item, .row") ?? document.querySelector(".opened")?.parentElement;
  if (place?.matches(".row") && place.dataset.loaded === undefined) { place.open = true; await load(place); }
  const found = place?.querySelector(kind === "a" ? "form[action$='/accept'] button" : "form.answer textarea, form[action$='/comment'] textarea");
  if (!found) { say("There is nothing to decide here."); return; }
  if (kind === "a") { found.click(); return; }
  const folded = found.closest("details.say");
  if (folded) folded.open = true;
  found.focus();
}
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]") || event.target.closest?.("input, textarea, select")) return;
  const code = event.target.closest?.(".code-of");
  if (code && ["ArrowDown", "ArrowUp", "Enter"].includes(event.key)) {
    const lines = [...code.querySelectorAll("tr[data-line]")], at = lines.findIndex((line) => line.matches(".here"));
    event.preventDefault();
    if (event.key === "Enter") { if (lines[at] && code.closest("[data-comment]")) writeOn(lines[at]); return; }
    const next = lines[Math.min(Math.max(at + (event.key === "ArrowDown" ? 1 : -1), 0), lines.length - 1)];
    lines[at]?.classList.remove("here");
    next?.classList.add("here");
    next?.scrollIntoView({ block: "nearest" });
    return;
  }
  if (event.key === "j" || event.key === "k") go(event.key === "j" ? 1 : -1);
  else if (event.key === "a" || event.key === "r") { event.preventDefault(); decide(event.key); }
  else if (event.key === "?") shortcuts?.showModal();
});

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
