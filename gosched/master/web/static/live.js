// Keeps the page up to date, and finds another master when this one does not answer.
//
// One EventSource says that something has changed. The page then asks for its part #live anew: never more often than
// the stream says, nor than ten times what the last one took, and only while the page can be seen.
"use strict";
(() => {
  const SILENT_MS = 12000;  // without a word from the master, which speaks each 5 s
  const LEAVE_MS = 3000;    // how long this master may be away before the page goes to another one
  const PROBE_MS = 1000;
  const QUIET_MS = 30000;   // times and estimates change without a revision
  const RELATED_MS = 10000; // charts

  // What stays as it is while the rest is brought up to date: charts, and what somebody has opened.
  Idiomorph.defaults.callbacks.beforeNodeMorphed = (node) => !(node instanceof Element && node.hasAttribute("data-keep"));
  Idiomorph.defaults.callbacks.beforeAttributeUpdated = (name, node) => !(name === "open" && node.localName === "details");

  const body = document.body;
  const master = body.dataset.master;
  const others = Object.entries(JSON.parse(body.dataset.others));
  const live = () => document.getElementById("live");
  const notice = document.getElementById("notice");
  const said = document.getElementById("said");
  const link = document.getElementById("link");

  let stream = null, heard = Date.now(), lostAt = 0, known = 0, leader = live().dataset.leader;
  let shown = Number(live().dataset.revision), shownAt = Date.now(), tookMs = 0, everyMs = 2000;
  let asking = false, timer = 0;

  function refresh() {
    clearTimeout(timer);
    timer = 0;
    if (asking || document.hidden || lostAt || !live().hasAttribute("hx-get")) return;
    asking = true;
    const began = performance.now();
    const ended = () => {
      asking = false;
      tookMs = performance.now() - began;
      shownAt = Date.now();
      shown = Number(live().dataset.revision);
      document.dispatchEvent(new Event("refreshed"));
      plan();
    };
    htmx.ajax("GET", live().getAttribute("hx-get"), { target: "#live", swap: "morph:outerHTML" }).then(ended, ended);
  }

  function plan() {
    if (timer || asking) return;
    const wait = known > shown ? Math.max(everyMs, 10 * tookMs) : QUIET_MS;
    timer = setTimeout(refresh, Math.max(0, shownAt + wait - Date.now()));
  }

  function onChange(event) {
    const told = JSON.parse(event.data);
    heard = Date.now();
    found();
    known = told.revision;
    everyMs = told.refresh_s * 1000;
    document.getElementById("revision").textContent = known;
    if (told.leader !== leader) {
      leader = told.leader;
      said.textContent = leader ? `${leader} leads now` : "no master leads";
      known = shown + 1;
    }
    clearTimeout(timer);
    timer = 0;
    plan();
  }

  function listen() {
    if (stream) stream.close();
    stream = new EventSource("/ui/changes");
    stream.addEventListener("change", onChange);
    stream.addEventListener("error", () => lost());
  }

  function found() {
    link.dataset.state = "live";
    link.title = "Live";
    if (!lostAt) return;
    lostAt = 0;
    notice.hidden = true;
    said.textContent = `${master} answers again`;
    shown = -1;
  }

  function lost() {
    if (lostAt) return;
    lostAt = Date.now();
    link.dataset.state = "lost";
    link.title = "Not connected";
    notice.textContent = `${master} does not answer; trying ${others.length ? "the others" : "again"}. What is shown is as of revision ${shown}.`;
    notice.hidden = false;
    probe();
  }

  async function answers(origin) {
    try {
      await fetch(`${origin}/ui/alive`, { mode: "no-cors", cache: "no-store", credentials: "include", signal: AbortSignal.timeout(2000) });
      return true;
    } catch {
      return false;
    }
  }

  async function probe() {
    while (lostAt) {
      await new Promise((resolve) => setTimeout(resolve, PROBE_MS));
      if (document.hidden) continue;
      if (await answers("")) {
        if (lostAt && stream.readyState === EventSource.CLOSED) listen();
        continue;
      }
      if (Date.now() - lostAt < LEAVE_MS) continue;
      for (const [name, address] of others) {
        if (!lostAt || !address) continue;
        const origin = `${location.protocol}//${address}`;
        if (await answers(origin)) {
          notice.textContent = `${master} does not answer; going to ${name}.`;
          location.replace(origin + location.pathname + location.search + location.hash);
          return;
        }
      }
    }
  }

  setInterval(() => {
    if (!lostAt && !document.hidden && Date.now() - heard > SILENT_MS) {
      listen();
      lost();
    }
  }, 2000);
  setInterval(() => { if (!document.hidden && !lostAt) document.dispatchEvent(new Event("related")); }, RELATED_MS);

  // A page that nobody sees listens to nothing.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) {
      stream.close();
      clearTimeout(timer);
      timer = 0;
    } else {
      heard = Date.now();
      shown = -1;
      listen();
    }
  });
  document.addEventListener("refresh-now", () => { shownAt = 0; known = shown + 1; refresh(); });
  addEventListener("pagehide", () => stream.close());
  listen();
})();
