// A stream of events that say when the page may have changed. They are taken as wake-ups only: the server draws the page.
"use strict";

// A browser opens six connections to a server over HTTP/1.1, for all its tabs together, and a stream holds one for as long as it
// is open. The tabs agree that no more than four of them hold one, so that there is always a connection to ask for a page;
// the others ask every other second.
const most = 4;
const me = `${Date.now()}-${Math.random()}`;
const tabs = "BroadcastChannel" in window ? new BroadcastChannel("indexd-streams") : null;
const others = new Map(); // what the other tabs have said since this one asked
let part = ""; // this tab's: "asks", "holds", or neither
let freed = () => {}; // a tab has given up its stream

if (tabs) {
  tabs.onmessage = ({ data }) => {
    if (data.part) others.set(data.id, data.part); else others.delete(data.id);
    if (data.ask && part) say(part);
    if (data.freed) freed();
  };
}

function say(next, more) {
  const was = part;
  part = next;
  tabs?.postMessage({ id: me, part, freed: was === "holds" && !next, ...more });
}

// turn tells whether this tab may hold a stream. Of those that ask at once the smaller name goes first.
async function turn() {
  others.clear();
  say("asks", { ask: true });
  await new Promise((done) => setTimeout(done, 150));
  let before = 0;
  for (const [id, theirs] of others) if (theirs === "holds" || id < me) before++;
  return before < most;
}

// follow keeps a stream of url open and calls wake when it tells of a change, and changed when state() is another one. A stream
// that breaks off or is refused is opened again, the later the oftener it did.
export function follow(url, wake, changed) {
  let stream = null, wanted = false, tries = 0, timer = 0, state = "closed";

  const turnTo = (next) => {
    if (state === next) return;
    state = next;
    changed();
  };
  const drop = () => {
    clearTimeout(timer);
    stream?.close();
    stream = null;
    say("");
  };
  const later = (ms) => { timer = setTimeout(open, ms * (0.5 + Math.random())); };

  async function open() {
    clearTimeout(timer);
    if (!wanted || stream || part === "asks") return;
    const mine = await turn();
    if (!wanted) return say("");
    if (!mine) {
      say("");
      turnTo("waiting");
      return later(20000);
    }
    say("holds");
    stream = new EventSource(url);
    stream.onopen = () => { tries = 0; turnTo("open"); };
    stream.onerror = () => {
      drop();
      turnTo(++tries > 3 ? "refused" : "broken");
      later(Math.min(1000 * 2 ** (tries - 1), 30000));
    };
    for (const event of ["snapshot", "upsert", "remove", "stale"]) stream.addEventListener(event, wake);
  }
  freed = () => { if (state === "waiting") later(200); };

  return {
    state: () => state, // closed, open, broken, refused (several times on end), or waiting for another tab's turn to end
    open: () => { wanted = true; open(); },
    close: () => { wanted = false; drop(); turnTo("closed"); },
    // The server did not answer another question: the stream may be dead without knowing it.
    doubt: () => { if (stream) { drop(); turnTo("broken"); later(1000); } },
  };
}
