// What the tasks of a job use, over the time that the page is looked at: asked for only while it can be seen.
"use strict";
(() => {
  const panel = document.getElementById("usage");
  const said = document.getElementById("usage-state");
  const every = Number(panel.dataset.seconds) * 1000;
  const SAMPLES = 900;  // half an hour
  const MAX_LINES = 16;
  const HEIGHT = 190;
  const COLOURS = ["--held", "--wanted", "--good", "--promised", "--bad", "--busy"];
  const UNITS = [["TiB", 2 ** 40], ["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]];
  const POWERS = Array.from({ length: 50 }, (_, i) => 2 ** i);  // ticks of bytes
  const times = [];
  const lines = new Map();  // name -> [CPUs, memory, GPUs], each as long as times
  const plots = new Map();

  const colour = (name) => {
    const probe = document.createElement("i");
    probe.style.color = `var(${name})`;
    panel.append(probe);
    const found = getComputedStyle(probe).color;
    probe.remove();
    return found;
  };

  function keep(told) {
    times.push(Date.now() / 1000);
    for (const name of Object.keys(told.lines)) {
      if (!lines.has(name) && lines.size < MAX_LINES) lines.set(name, [0, 1, 2].map(() => new Array(times.length - 1).fill(null)));
    }
    for (const [name, columns] of lines) {
      const figures = told.lines[name] || [null, null, null];
      columns.forEach((column, i) => column.push(figures[i]));
    }
    if (times.length <= SAMPLES) return;
    times.shift();
    for (const columns of lines.values()) columns.forEach((column) => column.shift());
  }

  const number = (value) => value >= 100 ? value.toFixed(0) : String(Number(value.toPrecision(3)));

  function amount(figure, value) {
    if (value === null || value === undefined) return "–";
    if (figure === 2) return `${number(100 * value)}%`;
    const [unit, size] = figure === 1 ? UNITS.find(([, least]) => value >= least) || ["B", 1] : ["", 1];
    return `${number(value / size)} ${unit}`.trim();
  }

  function options(figure, width, names) {
    const axis = { stroke: colour("--muted"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui" };
    return {
      width, height: HEIGHT, tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
      cursor: { y: false }, scales: { y: { range: (_, low, high) => [0, Math.max(figure === 1 ? 2 ** 20 : 0.01, high * 1.08)] } },
      axes: [{ ...axis, values: "{HH}:{mm}:{ss}", space: 70 }, { ...axis, size: 64, space: 30, incrs: figure === 1 ? POWERS : undefined, values: (_, ticks) => ticks.map((tick) => amount(figure, tick)) }],
      series: [{ label: "time", value: "{HH}:{mm}:{ss}" }, ...names.map((name, i) => ({
        label: name, stroke: colour(COLOURS[i % COLOURS.length]), width: 1.5, dash: i >= COLOURS.length ? [5, 3] : undefined,
        points: { show: times.length < 3 }, value: (_, value) => amount(figure, value),
      }))],
    };
  }

  function draw(rebuild) {
    const names = [...lines.keys()];
    for (const figure of panel.querySelectorAll("figure")) {
      const at = Number(figure.dataset.figure), place = figure.querySelector(".plot");
      const data = [times, ...names.map((name) => lines.get(name)[at])];
      const old = plots.get(figure);
      if (old && !rebuild && old.series.length === data.length) { old.setData(data); continue; }
      old?.destroy();
      plots.set(figure, new uPlot(options(at, place.clientWidth, names), data, place));
    }
  }

  async function ask() {
    if (document.hidden) return;
    try {
      const answer = await fetch(panel.dataset.url, { signal: AbortSignal.timeout(5000), cache: "no-store" });
      if (!answer.ok) return;
      const told = await answer.json();
      const some = Object.keys(told.lines).length > 0;
      said.textContent = !told.known ? "The leader does not answer; figures come from it."
        : !told.tasks ? "No task holds a place now."
        : some ? `${told.tasks.toLocaleString("en")} tasks hold a place; by their nodes' newest heartbeats.` : "No node has reported figures yet.";
      if (told.known && (some || lines.size)) { keep(told); draw(times.length < 4); }
    } catch { /* the notice says that the master does not answer */ }
  }

  const again = () => lines.size && draw(true);
  document.addEventListener("theme", again);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  let timer = 0;
  addEventListener("resize", () => { clearTimeout(timer); timer = setTimeout(again, 150); });
  document.addEventListener("visibilitychange", ask);
  setInterval(ask, every);
  ask();
})();
