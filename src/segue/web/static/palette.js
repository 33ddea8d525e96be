// The palette: Ctrl-K or / opens it; a few letters lead to a page, a run, a task or an action of this page.
"use strict";

const palette = document.getElementById("palette");
const query = document.getElementById("palette-query");
const list = document.getElementById("palette-list");
let found = [], at = 0, asked = 0, opener = null;

function openPalette() {
  if (!palette || palette.open) return;
  opener = document.activeElement;
  query.value = "";
  palette.showModal();
  query.focus();
  search();
}
function closePalette() { palette.close(); opener?.focus?.(); }

// What can be done on this page without writing anything.
function listActions(words) {
  const buttons = [...document.querySelectorAll("main form[method=post] button")].filter((button) => !button.form.querySelector("[required]") && button.offsetParent);
  const actions = buttons.map((button) => {
    const place = button.closest(".item, .task, .ticket, section, article")?.querySelector("h2, h3, .name")?.textContent.trim() ?? "";
    return { kind: "action", label: button.textContent.trim(), detail: place.slice(0, 80), run: () => button.click() };
  });
  actions.push({ kind: "action", label: "Switch theme", detail: "", run: () => document.getElementById("theme").click() });
  actions.push({ kind: "action", label: "This page as JSON", detail: "", href: `${location.pathname}.json${location.search}` });
  return actions.filter((one) => `${one.label} ${one.detail}`.toLowerCase().includes(words)).slice(0, words ? 8 : 3);
}
async function search() {
  const number = ++asked, words = query.value.trim();
  const answer = await fetch(`/palette.json?q=${encodeURIComponent(words)}`, { cache: "no-store" }).catch(() => null);
  if (number !== asked) return;
  const there = answer?.ok ? (await answer.json()).data.found : [];
  if (number !== asked) return;
  found = [...there, ...listActions(words.toLowerCase())];
  at = 0;
  draw();
}
function draw() {
  list.replaceChildren(...found.map((one, place) => {
    const item = document.createElement("li"), label = document.createElement("span"), detail = document.createElement("small");
    item.id = `palette-${place}`;
    item.setAttribute("role", "option");
    label.textContent = one.label;
    detail.textContent = [one.kind, one.detail].filter(Boolean).join(" · ");
    item.append(label, detail);
    item.addEventListener("click", () => choose(place));
    return item;
  }));
  if (!found.length) { const none = document.createElement("li"); none.className = "dim"; none.textContent = "Nothing is called so."; list.append(none); }
  mark();
}
function mark() {
  [...list.children].forEach((item, place) => item.setAttribute("aria-selected", String(place === at && found.length > 0)));
  if (found.length) { query.setAttribute("aria-activedescendant", `palette-${at}`); list.children[at].scrollIntoView({ block: "nearest" }); }
  else query.removeAttribute("aria-activedescendant");
}
function choose(place) {
  const one = found[place];
  if (!one) return;
  closePalette();
  if (one.href) location.assign(one.href); else one.run();
}

document.addEventListener("keydown", (event) => {
  const writing = event.target.closest?.("input, textarea, select, [contenteditable]");
  if ((event.key === "k" && (event.ctrlKey || event.metaKey)) || (event.key === "/" && !writing && !event.ctrlKey && !event.metaKey && !event.altKey)) {
    event.preventDefault();
    openPalette();
  }
});
document.getElementById("jump")?.addEventListener("click", openPalette);
palette?.addEventListener("click", (event) => { if (event.target === palette) closePalette(); });
query?.addEventListener("input", () => { clearTimeout(query.wait); query.wait = setTimeout(search, 120); });
query?.addEventListener("keydown", (event) => {
  const steps = { ArrowDown: 1, ArrowUp: -1 };
  if (event.key in steps && found.length) { event.preventDefault(); at = (at + steps[event.key] + found.length) % found.length; mark(); }
  if (event.key === "Enter") { event.preventDefault(); choose(at); }
});
