// The logs of a job as they are written: one task's, or the whole gang's, each line with the name of its task.
//
// What is shown is bounded: the newest MAX_LINES lines, each of MAX_LINE characters. Everything is text: nothing that a
// task writes becomes markup. A stream that breaks off is asked for again, and what was shown already is skipped.
"use strict";
(() => {
  const MAX_LINES = 5000;
  const MAX_LINE = 4000;
  const MAX_STREAMS = 20000;  // whose positions are kept
  const TAIL = 2000;  // lines of each stream to begin with
  const FLUSH_MS = 100;
  const AGAIN_MS = [500, 1000, 2000, 5000];
  const COLOURS = 6;
  // Escape sequences of terminals: control sequences, operating system commands, and the others.
  const ESCAPES = /[\u001b\u009b](?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[PX^_][^\u001b]*(?:\u001b\\)?|[ -/]*[0-~])?|\u009b[0-?]*[ -/]*[@-~]/g;
  const CONTROLS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g;

  const panel = document.getElementById("logs");
  const box = document.getElementById("log");
  const state = document.getElementById("log-state");
  const choice = document.getElementById("log-task");
  const search = document.getElementById("log-search");
  const pauseButton = document.getElementById("log-pause");
  const encoder = new TextEncoder();
  const colours = new Map();
  let places = new Map(), halves = new Map(), waiting = [], dropped = 0, lines = 0;
  let missing = false, paused = false, stuck = true, timer = 0, reading = null;

  function clean(text) {
    const last = text.replace(ESCAPES, "").replace(/\r+$/, "");
    return last.slice(last.lastIndexOf("\r") + 1).replace(CONTROLS, "").slice(0, MAX_LINE);
  }

  function colour(task) {
    if (!colours.has(task)) colours.set(task, colours.size % COLOURS);
    return colours.get(task);
  }

  function add(task, kind, text) {
    waiting.push({ task, kind, text: clean(text) });
    if (waiting.length > MAX_LINES) { waiting.shift(); dropped++; }
    if (!timer && !paused) timer = setTimeout(flush, FLUSH_MS);
  }

  function row(line) {
    const element = document.createElement("div");
    element.className = `row ${line.kind} c${colour(line.task)}`;
    const who = document.createElement("span");
    who.className = "who";
    who.textContent = line.task;
    const text = document.createElement("span");
    text.className = "text";
    text.textContent = line.text;
    element.append(who, text);
    element.hidden = !fits(element);
    return element;
  }

  const fits = (element) => !search.value || element.textContent.toLowerCase().includes(search.value.toLowerCase());

  function flush() {
    timer = 0;
    if (!waiting.length) return;
    const rows = waiting.map(row);
    waiting = [];
    lines += rows.length;
    box.append(...rows);
    for (; lines > MAX_LINES; lines--) { box.firstElementChild.remove(); dropped++; }
    if (stuck) box.scrollTop = box.scrollHeight;
    tell();
  }

  function tell(word) {
    if (word) state.dataset.word = word;
    const parts = [state.dataset.word || "", `${(lines + waiting.length).toLocaleString("en")} lines`];
    if (dropped) parts.push(`${dropped.toLocaleString("en")} earlier ones are not kept here`);
    if (paused) parts.push("paused");
    state.textContent = parts.filter(Boolean).join(", ");
  }

  // A chunk is a piece of a stream: it may end in the middle of a line.
  function take(chunk) {
    if (chunk.note) { add(chunk.task, "note", chunk.note); missing ||= chunk.missing; return; }
    const kind = chunk.stream === "stderr" ? "err" : "out";
    const key = `${chunk.allocation} ${chunk.stream}`;
    let bytes = chunk.base64 ? Uint8Array.from(atob(chunk.base64), (c) => c.charCodeAt(0)) : encoder.encode(chunk.text);
    const shown = places.get(key) || 0;
    if (chunk.offset < shown) bytes = bytes.subarray(shown - chunk.offset);
    if (!bytes.length) return;
    if (places.has(key) || places.size < MAX_STREAMS) places.set(key, Math.max(shown, chunk.offset) + bytes.length);
    const half = halves.get(key) || { text: "", task: chunk.task, kind, decoder: new TextDecoder() };
    const parts = (half.text + half.decoder.decode(bytes, { stream: true })).split("\n");
    half.text = parts.pop().slice(-MAX_LINE);
    for (const part of parts) add(chunk.task, kind, part);
    halves.set(key, half);
  }

  // The last line of a log need not end.
  function finish() {
    for (const half of halves.values()) if (half.text) add(half.task, half.kind, half.text);
    halves.clear();
    if (!paused) flush();
  }

  function address(follow) {
    const query = new URLSearchParams();
    if (choice.value) query.set("task", choice.value);
    if (panel.dataset.attempt !== "0") query.set("attempt", panel.dataset.attempt);
    if (follow) { query.set("follow", "true"); query.set("tail", String(TAIL)); }
    return `${panel.dataset.url}?${query}`;
  }

  async function read(signal) {
    const answer = await fetch(address(true), { headers: { Accept: "application/x-ndjson" }, signal, cache: "no-store" });
    if (!answer.ok) {
      const told = await answer.json().catch(() => ({}));
      const error = new Error(told.detail || `refused (${answer.status})`);
      error.final = answer.status < 500 && answer.status !== 429;
      throw error;
    }
    tell("live");
    const decoder = new TextDecoder();
    const reader = answer.body.getReader();
    let rest = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const parts = (rest + decoder.decode(value, { stream: true })).split("\n");
      rest = parts.pop();
      for (const part of parts) if (part) take(JSON.parse(part));
    }
  }

  async function follow() {
    reading?.abort();
    const own = reading = new AbortController();
    places = new Map(); halves = new Map(); waiting = []; dropped = 0; lines = 0; missing = false;
    box.replaceChildren();
    document.getElementById("log-download").href = address(false);
    for (let tries = 0; !own.signal.aborted; tries++) {
      try {
        tell(tries ? "asking again" : "asking");
        await read(own.signal);
        if (!own.signal.aborted) { finish(); tell("ended"); }
        return;
      } catch (error) {
        if (own.signal.aborted) return;
        if (error.final) { tell(error.message); return; }
        if (missing) { finish(); tell("a part is missing"); return; }  // such a stream never ends whole
        tell("interrupted");
        await new Promise((resolve) => setTimeout(resolve, AGAIN_MS[Math.min(tries, AGAIN_MS.length - 1)]));
      }
    }
  }

  box.addEventListener("scroll", () => { stuck = box.scrollHeight - box.scrollTop - box.clientHeight < 30; });
  pauseButton.addEventListener("click", () => {
    paused = !paused;
    pauseButton.textContent = paused ? "Go on" : "Pause";
    pauseButton.setAttribute("aria-pressed", String(paused));
    if (!paused) flush();
    tell();
  });
  document.getElementById("log-wrap").addEventListener("change", (event) => box.classList.toggle("wraps", event.target.checked));
  search.addEventListener("input", () => { for (const element of box.children) element.hidden = !fits(element); });
  choice.addEventListener("change", follow);
  addEventListener("pagehide", () => reading?.abort());
  follow();
})();
