// Makes the page tick each second, and puts a fresh one in its place when the server tells of a change; where there is no
// such stream, every other second, or as seldom as data-every says. Without it the page reloads by itself. Ages count from the
// server's instant: this device's clock is not asked what time it is.
import { follow } from "./live.js";

const page = () => document.getElementById("main");
const every = Number(page().dataset.every) || 2000, slowest = 30000;
const spacing = 500; // between two questions, however much happens
const hush = 10000; // between two announcements, so that a screen reader can be used for something else
let base = performance.now(); // when the shown page's data-now was true
let wait = every, timer = 0, asking = null, asked = 0, again = false, failing = false;
let live = null; // the stream, once the page has one

document.documentElement.classList.add("scripted");

// A form's URL is without the fields that are empty, so that it can be passed on.
function go(form) {
  const fields = [...new FormData(form)].filter(([, value]) => value);
  location.assign(form.getAttribute("action") + "?" + new URLSearchParams(fields));
}

document.getElementById("pick")?.addEventListener("change", (e) => {
  const form = e.currentTarget;
  // Another index has other namespaces: let the server choose.
  if (e.target.id === "pick-index") form.querySelector("#pick-namespace")?.removeAttribute("name");
  loading();
  go(form);
});
for (const id of ["pick", "filter"]) {
  document.getElementById(id)?.addEventListener("submit", (e) => {
    e.preventDefault();
    loading();
    go(e.currentTarget);
  });
}

const two = (n) => String(n).padStart(2, "0");

function clock(s) {
  const d = Math.floor(s / 86400), h = Math.floor(s / 3600) % 24, m = Math.floor(s / 60) % 60;
  if (d > 0) return `${d} d ${two(h)}:${two(m)}:${two(s % 60)}`;
  return h > 0 ? `${h}:${two(m)}:${two(s % 60)}` : `${m}:${two(s % 60)}`;
}

function age(s) {
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  return s < 86400 ? `${Math.floor(s / 3600)} h` : `${Math.floor(s / 86400)} d`;
}

function tick() {
  const main = page();
  if (!main.dataset.now) return;
  const now = Number(main.dataset.now) + performance.now() - base;
  const since = (ms) => Math.max(0, Math.floor((now - Number(ms)) / 1000));
  for (const t of main.querySelectorAll("time[data-clock]")) {
    const ahead = Math.ceil((Number(t.dataset.clock) - now) / 1000);
    say(t, ahead > 0 ? "starts in " + clock(ahead) : clock(since(t.dataset.clock)));
  }
  for (const t of main.querySelectorAll("time[data-age]")) say(t, age(since(t.dataset.age)));
}

function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

// morph makes one tree like another one, keeping the nodes that stay: so focus, selection and scroll stay too, and
// explanations that somebody has opened.
function morph(from, to) {
  for (const a of [...from.attributes]) if (!to.hasAttribute(a.name) && a.name !== "open") from.removeAttribute(a.name);
  for (const a of to.attributes) if (from.getAttribute(a.name) !== a.value) from.setAttribute(a.name, a.value);
  const kept = new Map(), wanted = new Set();
  for (const n of to.children) if (n.dataset.key) wanted.add(n.dataset.key);
  for (const n of [...from.children]) {
    if (!n.dataset.key) continue;
    // What goes, goes first: what stays need not be moved then, and a node that is moved loses the focus.
    if (wanted.has(n.dataset.key)) kept.set(n.dataset.key, n); else n.remove();
  }
  let at = from.firstChild;
  for (const want of [...to.childNodes]) {
    const key = want.nodeType === 1 ? want.dataset.key : undefined;
    let have = key ? kept.get(key) : at;
    if (!key) while (have?.dataset?.key && kept.has(have.dataset.key) && !same(have, want)) have = have.nextSibling;
    if (!have || !same(have, want)) {
      const made = from.insertBefore(document.importNode(want, true), at);
      if (key) made.classList.add("new"); // until the next refresh
      continue;
    }
    if (have === at) at = at.nextSibling; else if (from.moveBefore) from.moveBefore(have, at); else from.insertBefore(have, at);
    if (have.nodeType === 1) morph(have, want); else if (have.data !== want.data) have.data = want.data;
  }
  while (at) { const next = at.nextSibling; at.remove(); at = next; }
}

const same = (a, b) => a.nodeType === b.nodeType && a.nodeName === b.nodeName && a.dataset?.key === b.dataset?.key;

function show(html) {
  const next = new DOMParser().parseFromString(html, "text/html"), main = next.getElementById("main"), here = page();
  if (!main) throw new Error("no page");
  const before = here.dataset.headline, inside = here.contains(document.activeElement);
  base = performance.now();
  morph(here, main);
  // What had the focus is gone: whoever uses the keyboard goes on from here, not from the top.
  if (inside && !here.contains(document.activeElement)) here.focus({ preventScroll: true });
  document.title = next.title;
  if (main.dataset.headline && main.dataset.headline !== before) announce(main.dataset.headline);
  // A list that somebody has open is left alone.
  for (const id of ["pick-index", "pick-namespace"]) {
    const have = document.getElementById(id), want = next.getElementById(id);
    if (have && want && document.activeElement !== have && !have.isEqualNode(want)) morph(have, want);
  }
  tick();
}

let announced = -hush, announcing = 0, news = "";

// announce says the latest only, and not often.
function announce(text) {
  news = text;
  if (announcing) return;
  announcing = setTimeout(() => {
    announcing = 0;
    announced = performance.now();
    document.getElementById("announce").textContent = news;
  }, Math.max(0, announced + hush - performance.now()));
}

function pulse(text, still) {
  const p = document.getElementById("pulse");
  p.hidden = false;
  p.classList.toggle("still", still);
  say(p, text);
}

function loading() {
  page().setAttribute("aria-busy", "true");
  pulse("loading", true);
}

function offline(what) {
  const p = document.getElementById("offline");
  if (what && p.hidden) p.textContent = `${what} since ${new Date().toLocaleTimeString()}. This is the last page it sent.`;
  p.hidden = !what;
}

// final: the server has said that asking again changes nothing.
const final = () => "final" in page().dataset;

async function refresh() {
  const mine = asking = new AbortController();
  const giveUp = setTimeout(() => mine.abort(), slowest);
  asked = performance.now();
  try {
    const r = await fetch(location.href, { headers: { Accept: "text/html" }, cache: "no-store", signal: mine.signal });
    if (r.redirected && new URL(r.url).pathname !== location.pathname) return location.reload(); // to sign in again
    const html = await r.text();
    failing = !r.ok;
    // A list that the store does not show just now is kept; the server keeps none. So is what there is while one asks too much.
    const keep = r.status === 429 || r.status >= 500 && "keep" in page().dataset;
    if (!keep) show(html);
    offline(!keep ? "" : r.status === 429 ? "The server has been asked too often" : "The server could not read the list");
  } catch {
    if (asking !== mine) return; // nobody waits for it
    failing = true;
    live?.doubt();
    offline("The server has not answered");
  } finally {
    clearTimeout(giveUp);
    if (asking === mine) asking = null;
  }
  wait = failing ? Math.max(Math.min(2 * wait, slowest), every) : every;
  state();
}

function state() {
  if (final()) {
    document.getElementById("pulse").hidden = true;
    return;
  }
  const old = "stale" in page().dataset;
  const lost = failing || live?.state() === "broken";
  pulse(lost ? "reconnecting" : old ? "old view" : "live", lost || old);
}

// loop asks for the page, and again when that is due. While a stream tells of changes, that is seldom: for what no event tells.
async function loop() {
  clearTimeout(timer);
  again = false;
  await refresh();
  if (document.hidden || asking) return; // or another one is under way
  if (final()) return live?.close();
  if (!live && page().dataset.events) {
    live = follow(page().dataset.events, wake, () => { state(); due(); });
    live.open();
  }
  due();
}

function due() {
  clearTimeout(timer);
  if (document.hidden || final() || asking) return;
  const idle = live?.state() === "open" && !failing ? slowest : wait;
  timer = setTimeout(loop, again ? Math.max(0, asked + spacing - performance.now()) : idle);
}

// wake is called for each event: the first one of a burst asks at once, the others together.
function wake() {
  again = true;
  due();
}

function sleep() {
  clearTimeout(timer);
  if (final()) return;
  live?.close();
  asking?.abort();
  asking = null;
  pulse("paused", true);
}

function rise() {
  if (final()) return;
  pulse("refreshing", true);
  live?.open();
  loop();
}

document.addEventListener("visibilitychange", () => (document.hidden ? sleep() : rise()));
addEventListener("pagehide", () => live?.close());
addEventListener("pageshow", (e) => { if (e.persisted && !document.hidden) rise(); });

failing = !page().dataset.now;
setInterval(tick, 1000);
state();
if (document.hidden) {
  if (!final()) pulse("paused", true);
} else if (page().dataset.events && !final()) {
  live = follow(page().dataset.events, wake, () => { state(); due(); });
  live.open();
  due();
} else {
  due();
}
