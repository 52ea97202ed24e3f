// The trends of the overview: uPlot, in the colours of the style sheet.
"use strict";
(() => {
  const box = document.getElementById("charts");
  if (!box || typeof uPlot === "undefined") return;
  const SERIES = { total: "--muted", held: "--held", running: "--held", wanted: "--wanted", pending: "--wanted" };
  const HEIGHT = 136, HOUR_S = 3600;
  const POWERS = Array.from({ length: 30 }, (_, i) => 2 ** (28 + i));
  const plots = new Map();
  let newest = null;

  const colour = (name) => {
    const probe = document.createElement("i");
    probe.style.color = `var(${name})`;
    box.append(probe);
    const found = getComputedStyle(probe).color;
    probe.remove();
    return found;
  };

  function amount(chart, value) {
    if (value === null || value === undefined) return "–";
    if (chart === "memory") {
      for (const [unit, size] of [["PiB", 2 ** 50], ["TiB", 2 ** 40], ["GiB", 2 ** 30]]) {
        if (value >= size) return `${Number((value / size).toPrecision(3))} ${unit}`;
      }
      return `${Math.round(value / 2 ** 20)} MiB`;
    }
    return Math.round(chart === "jobs" ? value : value / 1000).toLocaleString("en");
  }

  function options(chart, width, names) {
    const axis = { stroke: colour("--muted"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui" };
    return {
      width, height: HEIGHT, tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
      legend: { show: false }, cursor: { y: false },
      scales: { x: { range: (_, low, high) => [Math.min(low, high - HOUR_S), high] }, y: { range: (_, low, high) => [0, Math.max(1, high * 1.05)] } },
      axes: [{ ...axis, values: "{HH}:{mm}", space: 60 }, { ...axis, size: 56, space: 30, ...(chart === "memory" ? { incrs: POWERS } : {}), values: (_, ticks) => ticks.map((tick) => amount(chart, tick)) }],
      series: [{}, ...names.map((name) => ({
        label: name, stroke: colour(SERIES[name]), width: name === "total" ? 1 : 1.5, dash: name === "total" ? [4, 3] : undefined,
        fill: name === "held" || name === "running" ? colour(SERIES[name]).replace(/rgb\((.*)\)/, "rgba($1, .16)") : undefined, points: { show: false },
      }))],
      hooks: { setCursor: [(plot) => caption(chart, plot, names)] },
    };
  }

  function caption(chart, plot, names) {
    const at = plot.cursor.idx ?? plot.data[0].length - 1;
    const parts = names.map((name, i) => `${amount(chart, plot.data[i + 1][at])} ${name}`);
    const seconds = plot.data[0][at];
    const when = plot.cursor.idx == null || seconds === undefined ? "" : ` at ${new Date(seconds * 1000).toISOString().slice(11, 16)}`;
    const place = plot.root.closest("figure").querySelector("figcaption");
    place.dataset.name ??= place.textContent;
    place.textContent = `${place.dataset.name}: ${parts.join(", ")}${when}`;
  }

  // A resource that the first node brings gets its chart now; the others make room for it.
  function appear() {
    const hidden = [...box.querySelectorAll("figure[hidden]")];
    const come = hidden.filter((figure) => newest.charts[figure.dataset.chart].total.some((amount) => amount > 0));
    for (const figure of come) figure.hidden = false;
    return come.length > 0;
  }

  function draw(resized) {
    const rebuild = appear() || resized;
    for (const figure of box.querySelectorAll("figure:not([hidden])")) {
      const chart = figure.dataset.chart, series = newest.charts[chart], at = figure.querySelector(".plot");
      const names = Object.keys(series), data = [newest.at_s, ...names.map((name) => series[name])];
      let plot = plots.get(chart);
      if (plot && rebuild) { plot.destroy(); plot = null; }
      if (plot) plot.setData(data);
      else plots.set(chart, plot = new uPlot(options(chart, at.clientWidth, names), data, at));
      caption(chart, plot, names);
    }
  }

  async function load() {
    try {
      const answer = await fetch(box.dataset.url, { signal: AbortSignal.timeout(5000) });
      if (answer.ok) { newest = await answer.json(); draw(false); }
    } catch { /* the notice says that the master does not answer */ }
  }

  document.addEventListener("related", load);
  document.addEventListener("theme", () => newest && draw(true));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => newest && draw(true));
  let timer = 0;
  addEventListener("resize", () => { clearTimeout(timer); timer = setTimeout(() => newest && draw(true), 150); });
  load();
})();
