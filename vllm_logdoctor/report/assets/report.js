"use strict";
(() => {
  const DATA = JSON.parse(document.getElementById("chart-data").textContent);
  const charts = [];

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  const two = (n) => String(n).padStart(2, "0");
  const rounded = (v) => (v == null ? "–" : (Math.abs(v) >= 100 ? Math.round(v) : Math.round(v * 10) / 10).toLocaleString("en-US"));

  /* The log's own clock: seconds since the start of the year 2000, without zone. */
  const clock = (seconds, day, second) => {
    const t = new Date(Date.UTC(2000, 0, 1) + seconds * 1000);
    const date = two(t.getUTCMonth() + 1) + "-" + two(t.getUTCDate());
    const time = two(t.getUTCHours()) + ":" + two(t.getUTCMinutes()) + (second ? ":" + two(t.getUTCSeconds()) : "");
    return day ? date + " " + time : time;
  };

  const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800, 604800, 1209600, 2592000];
  const axisX = (chart) => ({
    stroke: () => colour("soft"), grid: { stroke: () => colour("line"), width: 1 }, ticks: { stroke: () => colour("line") },
    space: 74,
    incrs: chart.clock ? STEPS.filter((step) => chart.kind !== "bars" || step >= 60) : undefined,
    values: (u, splits, axis, space, increment) => splits.map((v) => !chart.clock ? rounded(v)
      : increment >= 86400 ? clock(v, true).slice(0, 5) : clock(v, u.scales.x.max - u.scales.x.min > 86400, increment < 60)),
  });
  const COUNTS = [1, 2, 5].flatMap((n) => [...Array(9).keys()].map((power) => n * 10 ** power)).sort((a, b) => a - b);
  const axisY = (chart) => ({
    stroke: () => colour("soft"), grid: { stroke: () => colour("line"), width: 1 }, ticks: { stroke: () => colour("line") },
    size: 62, incrs: chart.unit ? undefined : COUNTS, values: (u, splits) => splits.map((v) => rounded(v) + (chart.unit === "%" ? " %" : "")),
  });
  const moment = (chart, v) => (v == null ? "" : chart.clock ? clock(v, chart.days, true) : (chart.x || "sample") + " " + rounded(v));

  /* Without a cursor the legend has the last values, not empty labels. */
  const lastValues = (u) => { if (u.cursor.idx == null) { u.setLegend({ idx: u.data[0].length - 1 }, false); } };

  const base = (chart, width) => ({
    width, height: chart.height || 180,
    padding: [null, 34, null, null],
    cursor: { sync: chart.sync ? { key: chart.sync } : undefined, drag: { x: true, y: false, setScale: true }, points: { size: 7 } },
    scales: { x: { time: false }, y: { range: (u, low, high) => [0, chart.unit === "%" ? Math.max(100, high || 0) : Math.max(high || 0, chart.limit ? chart.limit.value : 0, 1) * 1.08] } },
    axes: [axisX(chart), axisY(chart)],
    legend: { live: true },
    hooks: { ready: [lastValues], setCursor: [lastValues] },
  });

  /* Of many points only those without neighbours get a dot: no line shows them. */
  const alone = (u, series) => {
    const values = u.data[series], found = [];
    for (let i = u.series[0].idxs[0]; i <= u.series[0].idxs[1]; i++) {
      if (values[i] != null && values[i - 1] == null && values[i + 1] == null) { found.push(i); }
    }
    return found.length ? found : null;
  };

  /* Behind the curves: spans of time in which the server was the limit, and a limit across. */
  const drawBands = (u, chart) => {
    const c = u.ctx;
    c.save();
    c.beginPath(); c.rect(u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height); c.clip();
    c.fillStyle = colour("red") + "26";
    (chart.bands || []).forEach((band) => {
      const left = u.valToPos(band.start, "x", true), right = u.valToPos(band.end, "x", true);
      c.fillRect(left, u.bbox.top, Math.max(right - left, 2), u.bbox.height);
    });
    if (chart.limit) {
      const y = u.valToPos(chart.limit.value, "y", true);
      c.strokeStyle = colour("red"); c.lineWidth = 1.4 * (devicePixelRatio || 1); c.setLineDash([8, 6]);
      c.beginPath(); c.moveTo(u.bbox.left, y); c.lineTo(u.bbox.left + u.bbox.width, y); c.stroke();
    }
    c.restore();
  };

  const lines = (chart, width) => ({
    ...base(chart, width),
    hooks: { ...base(chart, width).hooks, drawAxes: [(u) => drawBands(u, chart)] },
    series: [{ label: chart.clock ? "time" : "at", value: (u, v) => moment(chart, v) }, ...chart.series.map((s) => ({
      label: s.label, stroke: () => colour(s.colour), width: 1.6, spanGaps: false,
      fill: s.fill ? () => colour(s.colour) + "22" : undefined,
      points: chart.data[0].length < 60 ? { show: true } : { show: false, filter: alone },
      value: (u, v) => rounded(v) + (v == null ? "" : " " + chart.unit),
    }))],
  });

  const bars = (chart, width) => ({
    ...base(chart, width),
    scales: { ...base(chart, width).scales, x: { time: false, range: (u, low, high) => [low, high + 60] } },
    series: [{ label: "minute", value: (u, v) => moment(chart, v) }, ...chart.series.map((s) => ({
      label: s.label, stroke: () => colour(s.colour), fill: () => colour(s.colour) + "cc", width: 0, points: { show: false },
      paths: uPlot.paths.bars({ size: [0.9], align: 1 }), value: (u, v, i, at) => (at == null ? "–" : rounded(s.own[at])),
    }))],
  });

  const spans = (chart, width) => ({
    ...base(chart, width),
    height: chart.spans.length * 26 + 50,
    padding: [null, 34, null, 34],
    cursor: { drag: { x: true, y: false, setScale: true }, y: false, points: { show: false } },
    scales: { x: { time: false, range: (u, low, high) => [low, high] }, y: { range: [0, chart.spans.length] } },
    axes: [axisX(chart), { show: false }],
    legend: { show: false },
    series: [{}, { stroke: "transparent", points: { show: false } }],
    hooks: { draw: [(u) => drawSpans(u, chart)], setCursor: [(u) => hoverSpan(u, chart)] },
  });

  const drawSpans = (u, chart) => {
    const c = u.ctx, ratio = devicePixelRatio || 1;
    c.save();
    c.beginPath(); c.rect(u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height); c.clip();
    c.font = 12 * ratio + "px system-ui, sans-serif"; c.textBaseline = "middle"; c.textAlign = "left";
    chart.spans.forEach((span, row) => {
      const left = u.valToPos(span.start, "x", true), right = u.valToPos(span.end, "x", true);
      const high = u.bbox.height / chart.spans.length, top = u.bbox.top + row * high;
      c.fillStyle = colour(span.colour);
      c.fillRect(left, top + high * 0.18, Math.max(right - left, 2), high * 0.64);
      const label = span.label + " · " + span.length, wide = c.measureText(label).width, pad = 6 * ratio;
      const edge = u.bbox.left + u.bbox.width;
      let at = right + pad;
      if (at + wide > edge) { at = left - pad - wide; }
      if (at < u.bbox.left) { at = Math.max(u.bbox.left, Math.min(left, edge - wide)) + pad; }
      c.fillStyle = colour("page");
      c.fillRect(at - pad / 2, top + high * 0.24, wide + pad, high * 0.52);
      c.fillStyle = colour("ink");
      c.fillText(label, at, top + high / 2);
    });
    c.restore();
  };
  const hoverSpan = (u, chart) => {
    const row = Math.floor(u.cursor.top / (u.over.clientHeight / chart.spans.length)), span = chart.spans[row];
    const inside = u.cursor.top >= 0 && span;
    u.over.title = inside ? span.label + ": " + span.length + (span.from ? ", from " + span.from : "") : "";
  };

  const KINDS = { lines, bars, spans };

  const draw = (place) => {
    const chart = DATA[place.dataset.chart];
    place.textContent = "";
    const plot = new uPlot(KINDS[chart.kind](chart, place.clientWidth || 600), chart.data, place);
    charts.push({ place, chart, plot });
    return plot;
  };

  const find = (place) => charts.find((c) => c.place === place);
  const ready = (place) => { if (!find(place)) { draw(place); } return find(place); };
  const zoom = (place, factor) => {
    const { plot, chart } = ready(place), full = [chart.data[0][0], chart.data[0][chart.data[0].length - 1]];
    if (!factor) { plot.setScale("x", { min: full[0], max: full[1] }); return; }
    const { min, max } = plot.scales.x, at = plot.cursor.idx == null ? (min + max) / 2 : chart.data[0][plot.cursor.idx];
    const half = (max - min) * factor / 2, middle = Math.min(Math.max(at, min), max);
    plot.setScale("x", { min: Math.max(full[0], middle - half), max: Math.min(full[1], middle + half) });
  };

  const step = (place, by) => {
    const { plot, chart } = ready(place), xs = chart.data[0];
    const inside = (n) => Math.min(Math.max(n, 0), xs.length - 1), gap = (n) => chart.kind === "lines" && chart.data.slice(1).every((v) => v[n] == null);
    let at = inside((plot.cursor.idx == null ? -1 : plot.cursor.idx) + by);
    if (gap(at)) { at = inside(at + Math.sign(by)); }
    plot.setCursor({ left: plot.valToPos(xs[at], "x"), top: plot.over.clientHeight / 2 });
    place.parentElement.querySelector("output").textContent = chart.kind === "spans" ? ""
      : moment(chart, xs[at]) + ": " + chart.series.map((s, i) => s.label + " " + rounded((s.own || chart.data[i + 1])[at]) + " " + chart.unit).join(", ");
  };

  const keys = {
    ArrowRight: (p) => step(p, 1), ArrowLeft: (p) => step(p, -1), PageDown: (p) => step(p, 10), PageUp: (p) => step(p, -10),
    "+": (p) => zoom(p, 0.5), "-": (p) => zoom(p, 2), Escape: (p) => zoom(p, 0), 0: (p) => zoom(p, 0),
  };

  /* Beside the report the contents are open; above it they would push the first screen down. */
  const wide = matchMedia("(min-width: 70rem)"), contents = document.querySelector("nav.contents details");
  const fold = () => { if (contents) { contents.open = wide.matches; } };
  wide.addEventListener("change", fold);
  fold();

  /* Of many charts only those near the screen are drawn: each keeps a picture of its size in memory. */
  const places = [...document.querySelectorAll(".chart")];
  const near = new IntersectionObserver((seen) => seen.forEach((one) => {
    if (one.isIntersecting) { near.unobserve(one.target); draw(one.target); }
  }), { rootMargin: "1000px" });
  const drawRest = () => places.filter((place) => !find(place)).forEach((place) => { near.unobserve(place); draw(place); });

  places.forEach((place) => {
    place.addEventListener("keydown", (event) => {
      const act = keys[event.key];
      if (act && !event.ctrlKey && !event.metaKey && !event.altKey) { act(place); event.preventDefault(); }
    });
    place.parentElement.querySelectorAll("button").forEach((button) =>
      button.addEventListener("click", () => zoom(place, Number(button.dataset.zoom))));
  });

  if (places.length > 24) { places.forEach((place) => near.observe(place)); } else { drawRest(); }
  addEventListener("beforeprint", drawRest);
  const redraw = () => charts.forEach(({ plot }) => plot.redraw(false, true));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  matchMedia("print").addEventListener("change", redraw);
  let waiting = 0;
  addEventListener("resize", () => {
    cancelAnimationFrame(waiting);
    waiting = requestAnimationFrame(() => charts.forEach(({ place, plot }) => plot.setSize({ width: place.clientWidth, height: plot.height })));
  });
  document.documentElement.dataset.charts = String(charts.length);
})();
