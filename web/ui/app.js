// Makes the page tick each second, and puts a fresh one in its place every other second, or as seldom as data-every says. Without it the page
// reloads by itself. Ages count from the server's instant: this device's clock is not asked what time it is.
"use strict";

const every = Number(document.getElementById("main").dataset.every) || 2000, slowest = 30000;
let base = performance.now(); // when the shown page's data-now was true
let wait = every, timer = 0, asking = null, failing = false;

document.documentElement.classList.add("scripted");
document.getElementById("pick")?.addEventListener("change", (e) => {
  const form = e.currentTarget;
  // Another index has other namespaces: let the server choose.
  if (e.target.id === "pick-index") form.querySelector("#pick-namespace")?.removeAttribute("name");
  form.submit();
});

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
  const main = document.getElementById("main");
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
  const kept = new Map();
  for (const n of from.children) if (n.dataset.key) kept.set(n.dataset.key, n);
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
    if (have === at) at = at.nextSibling; else from.insertBefore(have, at);
    if (have.nodeType === 1) morph(have, want); else if (have.data !== want.data) have.data = want.data;
  }
  while (at) { const next = at.nextSibling; at.remove(); at = next; }
}

const same = (a, b) => a.nodeType === b.nodeType && a.nodeName === b.nodeName && a.dataset?.key === b.dataset?.key;

function show(html) {
  const next = new DOMParser().parseFromString(html, "text/html"), main = next.getElementById("main");
  if (!main) throw new Error("no page");
  const before = document.getElementById("main").dataset.headline;
  base = performance.now();
  morph(document.getElementById("main"), main);
  document.title = next.title;
  if (main.dataset.headline && main.dataset.headline !== before) {
    document.getElementById("announce").textContent = main.dataset.headline;
  }
  // A list that somebody has open is left alone.
  for (const id of ["pick-index", "pick-namespace"]) {
    const have = document.getElementById(id), want = next.getElementById(id);
    if (have && want && document.activeElement !== have && !have.isEqualNode(want)) morph(have, want);
  }
  tick();
}

function pulse(text, still) {
  const p = document.getElementById("pulse");
  p.hidden = false;
  p.classList.toggle("still", still);
  say(p, text);
}

function offline(what) {
  const p = document.getElementById("offline");
  if (what && p.hidden) p.textContent = `${what} since ${new Date().toLocaleTimeString()}. This is the last page it sent.`;
  p.hidden = !what;
}

// final: the server has said that asking again changes nothing.
const final = () => "final" in document.getElementById("main").dataset;

async function refresh() {
  asking = new AbortController();
  const giveUp = setTimeout(() => asking.abort(), slowest);
  try {
    const r = await fetch(location.href, { headers: { Accept: "text/html" }, cache: "no-store", signal: asking.signal });
    const html = await r.text();
    failing = !r.ok;
    // A list that the store does not show just now is kept; the server keeps none.
    const keep = r.status >= 500 && "keep" in document.getElementById("main").dataset;
    if (!keep) show(html);
    offline(keep ? "The server could not read the list" : "");
  } catch {
    if (document.hidden) return;
    failing = true;
    offline("The server has not answered");
  } finally {
    clearTimeout(giveUp);
  }
  wait = failing ? Math.max(Math.min(2 * wait, slowest), every) : every;
  state();
}

function state() {
  if (final()) {
    document.getElementById("pulse").hidden = true;
    return;
  }
  const old = "stale" in document.getElementById("main").dataset;
  pulse(failing ? "trying again" : old ? "old view" : "live", failing || old);
}

async function loop() {
  await refresh();
  if (!document.hidden && !final()) timer = setTimeout(loop, wait);
}

document.addEventListener("visibilitychange", () => {
  clearTimeout(timer);
  if (final()) return;
  if (document.hidden) {
    asking?.abort();
    pulse("paused", true);
  } else {
    loop();
  }
});

failing = !document.getElementById("main").dataset.now;
state();
setInterval(tick, 1000);
if (!final()) timer = setTimeout(loop, every);
