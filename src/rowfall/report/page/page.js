// Draws the charts of a page from the data in it, and takes new states where a load still runs.
"use strict";
(() => {
  const root = document.documentElement;
  const data = JSON.parse(document.getElementById("data").textContent);
  const charts = new Map(Object.entries(data.charts));
  const color = (at) => `var(--c${(at % 8) + 1})`;
  const dashes = [null, "7 4", "2 3", "10 3 2 3"];

  // ---- numbers, as rowfall.core.units writes them ----

  const SI = ["", "k", "M", "G", "T", "P", "E"];
  const IEC = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  const scaled = (value, base, steps) => {
    let power = 0;
    value = Math.max(value, 0);
    while (power < steps - 1 && Math.round(value) >= 1000) { value /= base; power += 1; }
    if (power === 0 && Number.isInteger(value)) return [String(value), 0];
    for (const digits of [2, 1]) {
      if (Number(value.toFixed(digits)) < 10 ** (3 - digits)) return [value.toFixed(digits), power];
    }
    return [value.toFixed(0), power];
  };
  const pairs = [[86400, 3600, "d", "h"], [3600, 60, "h", "min"], [60, 1, "min", "s"]];
  const duration = (seconds) => {
    if (seconds < 0.995) return `${seconds.toFixed(2)} s`;
    if (seconds < 59.95) return `${seconds.toFixed(1)} s`;
    const whole = Math.round(seconds);
    for (const [large, small, above, below] of pairs) {
      if (whole >= large) {
        const rest = Math.floor((whole % large) / small);
        return `${Math.floor(whole / large)} ${above}${rest ? ` ${rest} ${below}` : ""}`;
      }
    }
    return `${whole} s`;
  };
  const written = {
    number: (v) => { const [d, p] = scaled(v, 1000, SI.length); return d + SI[p]; },
    bytes: (v) => { const [d, p] = scaled(v, 1000, SI.length); return `${d} ${SI[p]}B`; },
    memory: (v) => { const [d, p] = scaled(v, 1024, IEC.length); return `${d} ${IEC[p]}`; },
    seconds: duration,
    share: (v) => `${(v * 100).toFixed(v > 0 && v < 0.0095 ? 1 : 0)} %`,
  };
  const say = (value, unit) => (value === null || value === undefined ? "-" : written[unit](value));
  // Beside a tick "4M" reads better than "4.00M".
  const short = (value, unit) => {
    if (unit === "seconds" && value >= 60 && value <= 180 && value % 60) return `${value} s`;
    if (unit === "seconds") return value === 0 ? "0 s" : duration(value).replace(/\.0+ s$/, " s")
      .replace(/(\.\d*?)0+ s$/, "$1 s");
    if (unit === "share") return `${+(value * 100).toFixed(1)} %`;
    return say(value, unit).replace(/(\.\d*?)0+(?=\D|$)/, "$1").replace(/\.(?=\D|$)/, "");
  };
  const TIMES = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800,
    3600, 7200, 10800, 21600, 43200, 86400];
  const ticks = (low, high, unit, count) => {
    const span = high - low;
    if (!(span > 0)) return [low];
    let step;
    if (unit === "seconds") {
      step = TIMES.find((each) => span / each <= count) ?? Math.ceil(span / count / 86400) * 86400;
    } else if (unit === "memory") {
      step = 2 ** Math.ceil(Math.log2(span / count));
    } else {
      const rough = span / count;
      const power = 10 ** Math.floor(Math.log10(rough));
      step = [1, 2, 5, 10].find((each) => each * power >= rough) * power;
    }
    const found = [];
    for (let at = Math.ceil(low / step); at * step <= high * 1.0001; at += 1) {
      found.push(Number((at * step).toPrecision(12)));
    }
    return found;
  };
  const extent = (values) => values.reduce(
    ([low, high], v) => [Math.min(low, v), Math.max(high, v)], [Infinity, -Infinity],
  );

  // ---- charts: each returns its drawing, and the stops of the arrow keys ----

  const powers = (low, high, unit) => {
    if (unit === "memory") {
      const step = Math.max(1, Math.ceil(Math.log2(high / low) / 6)), found = [];
      for (let power = Math.ceil(Math.log2(low * 0.999)); 2 ** power <= high * 1.001; power += step) {
        found.push(2 ** power);
      }
      return found;
    }
    const of = Math.log10(high / low) <= 3 ? [1, 2, 5] : [1];
    const found = [];
    for (let power = Math.floor(Math.log10(low)); 10 ** power <= high; power += 1) {
      for (const digit of of) {
        const value = Number((digit * 10 ** power).toPrecision(3));
        if (value >= low * 0.999 && value <= high * 1.001) found.push(value);
      }
    }
    return found;
  };
  const axis = (of, domain, count) => ({
    label: null, type: of.log ? "log" : "linear", domain,
    ticks: of.log ? powers(...domain, of.unit) : ticks(domain[0], domain[1], of.unit, count),
    tickFormat: (v) => short(v, of.unit),
  });
  // Of a log scale d3 leaves out labels as it likes: here each tick has the one that it is given.
  const sides = (x, y) => [
    Plot.axisX(x.ticks, { text: x.tickFormat, label: null }),
    Plot.axisY(y.ticks, { text: y.tickFormat, label: null }),
  ];
  const named = (chart, left, bottom) => [
    Plot.text([chart.y.title], { frameAnchor: "top-left", dx: 4 - left, dy: -18, text: (d) => `↑ ${d}`,
      textAnchor: "start", fill: "var(--soft)" }),
    Plot.text([chart.x.title], { frameAnchor: "bottom-right", dy: bottom - 2, text: (d) => `${d} →`,
      textAnchor: "end", fill: "var(--soft)" }),
  ];
  const tipped = { fill: "var(--card)", stroke: "var(--grid)", textPadding: 8, lineHeight: 1.25 };

  function line(chart, width) {
    const rows = chart.lines.flatMap((each, at) => each.points.map(([x, y]) => ({ x, y, at })));
    const whole = (chart.x.log ? rows.filter((d) => d.x > 0) : rows);
    let [low, high] = extent(whole.map((d) => d.x));
    for (const mark of chart.marks) if (mark.at > high) high = mark.at;
    if (!chart.x.log && low > 0 && low < high / 2) low = 0;
    if (low === high && chart.x.log) { low /= 2; high *= 2; }
    if (low === high) { low -= Math.min(0.5, low / 2); high += 0.5; }
    const most = Math.max(...whole.map((d) => d.y), 0);
    const near = chart.thresholds;
    const top = Math.max(most, ...near.map((each) => each.value)) * 1.06 || 1;
    const lowest = chart.y.log ? Math.min(...whole.map((d) => d.y)) * 0.8 : 0;
    const left = 62, bottom = 40, marked = chart.marks.length > 0;
    const height = width < 480 ? 240 : 270;
    const by = new Map();
    for (const row of whole) {
      if (!by.has(row.x)) by.set(row.x, []);
      by.get(row.x).push(row);
    }
    const told = [...by].sort(([a], [b]) => a - b).map(([x, found]) => ({
      x,
      y: Math.max(...found.map((d) => d.y)),
      text: [say(x, chart.x.unit), ...found.map((d) => (
        `${chart.lines.length > 1 ? `${chart.lines[d.at].name}: ` : ""}${say(d.y, chart.y.unit)}`
      ))].join("\n"),
    }));
    const x = axis(chart.x, [low, high], width < 480 ? 4 : 7), y = axis(chart.y, [lowest, top], 5);
    const svg = Plot.plot({
      width, height, marginLeft: left, marginBottom: bottom, marginTop: marked ? 44 : 30,
      marginRight: 16,
      x: { ...x, axis: null },
      y: { ...y, axis: null },
      marks: [
        ...sides(x, y),
        Plot.gridY({
          ticks: chart.y.log ? powers(lowest, top, chart.y.unit) : ticks(lowest, top, chart.y.unit, 5),
          stroke: "var(--grid)", strokeOpacity: 0.45 }),
        ...named(chart, left, bottom),
        chart.filled && chart.lines.length === 1
          ? Plot.areaY(whole, { x: "x", y1: lowest, y2: "y", fill: color(0), fillOpacity: 0.14 })
          : null,
        Plot.ruleY([lowest], { stroke: "var(--grid)" }),
        ...chart.lines.map((each, at) => Plot.lineY(whole.filter((d) => d.at === at), {
          x: "x", y: "y", stroke: color(at), strokeWidth: 2, strokeDasharray: dashes[at % 4],
          strokeLinejoin: "round",
        })),
        ...chart.lines.map((each, at) => (each.dots || each.points.length === 1
          ? Plot.dot(whole.filter((d) => d.at === at), { x: "x", y: "y", fill: color(at), r: 4,
            stroke: "var(--card)" })
          : null)),
        Plot.ruleY(near, { y: "value", stroke: "var(--red)", strokeDasharray: "5 4" }),
        Plot.text(near, { y: "value", frameAnchor: "right", dy: -4, textAnchor: "end",
          lineAnchor: "bottom", text: (d) => `${d.name}: ${say(d.value, chart.y.unit)}`, fill: "var(--red)",
          stroke: "var(--card)", strokeWidth: 4 }),
        Plot.ruleX(chart.marks, { x: "at", stroke: "var(--soft)", strokeOpacity: 0.7,
          strokeDasharray: "2 3" }),
        Plot.text(chart.marks.length <= 20 ? chart.marks : [], { x: "at", frameAnchor: "top", dy: -9,
          text: (d, at) => String(at + 1), fill: "var(--text)" }),
        Plot.ruleX(told, Plot.pointerX({ x: "x", stroke: "var(--soft)", strokeOpacity: 0.6 })),
        Plot.tip(told, Plot.pointerX({ x: "x", y: "y", title: "text", ...tipped })),
      ],
    });
    return { svg, stops: told };
  }

  // Of a name that is too long the end tells more: that of a file, the size of a block.
  const fitted = (name, width) => {
    const letters = Math.floor((width - 30) / 6.4);
    return name.length <= letters ? name : `…${name.slice(1 - letters)}`;
  };

  function bar(chart, width) {
    const notes = new Map(chart.notes), groups = new Map(chart.groups);
    const compared = new Map(chart.compared), kinds = [...new Set([...chart.kinds, ...groups.values()])];
    const rows = chart.bars.map(([name, value], at) => ({ name, value, at: String(at),
      beside: compared.get(name), color: color(Math.max(0, kinds.indexOf(groups.get(name)))),
      text: `${name}\n${say(value, chart.x.unit)}${notes.get(name) ? `, ${notes.get(name)}` : ""}${
        compared.has(name) ? `\n${chart.compared_as}: ${say(compared.get(name), chart.x.unit)}` : ""}` }));
    const most = Math.max(...rows.map((d) => Math.max(d.value, d.beside ?? 0))) || 1;
    const high = 34;
    const tail = (d) => `${say(d.value, chart.x.unit)}${
      notes.get(d.name) && width > 480 ? `, ${notes.get(d.name)}` : ""}`;
    const room = Math.min(width / 2, 14 + Math.max(...rows.map((d) => tail(d).length)) * 6.6);
    // A text that would stand across the mark of what is compared stands behind it.
    const pixel = most / Math.max(1, width - room - 2);
    const behind = (d) => (d.beside >= d.value - 4 * pixel
      && d.beside < d.value + (tail(d).length * 6.6 + 10) * pixel ? d.beside : d.value);
    const svg = Plot.plot({
      width, height: rows.length * high + 46, marginLeft: 2, marginRight: room, marginTop: 6,
      marginBottom: 40,
      x: axis(chart.x, [0, most], width < 480 ? 3 : 5),
      y: { axis: null, domain: rows.map((d) => d.at), paddingInner: 0, paddingOuter: 0 },
      marks: [
        Plot.gridX({ ticks: ticks(0, most, chart.x.unit, width < 480 ? 3 : 5),
          stroke: "var(--grid)", strokeOpacity: 0.45 }),
        Plot.text([chart.x.title], { frameAnchor: "bottom-left", dy: 38, text: (d) => `${d} →`,
          textAnchor: "start", fill: "var(--soft)" }),
        Plot.barX(rows, { x: "value", y: "at", fill: "color", insetTop: 19, insetBottom: 4, rx: 2 }),
        // A line of three pixels across the bar, on a ground that parts it from the bar.
        ...[[3, "var(--card)"], [1.5, "var(--text)"]].map(([half, fill]) => Plot.barX(
          rows.filter((d) => d.beside !== undefined), { x1: "beside", x2: "beside", y: "at", fill,
            insetLeft: -half, insetRight: -half, insetTop: 16, insetBottom: 1 })),
        Plot.text(rows, { x: 0, y: "at", text: (d) => fitted(d.name, width), textAnchor: "start", dy: -6,
          fill: "var(--text)", stroke: "var(--card)", strokeWidth: 3 }),
        Plot.text(rows, { x: behind, y: "at", text: tail, textAnchor: "start", dx: 6, dy: 8,
          fill: "var(--text)", stroke: "var(--card)", strokeWidth: 3 }),
        Plot.ruleX([0], { stroke: "var(--grid)" }),
        Plot.tip(rows, Plot.pointer({ x: "value", y: "at", title: "text", maxRadius: 60, ...tipped })),
      ],
    });
    return { svg, stops: rows.map((d) => ({ x: d.value, y: d.at, text: d.text })) };
  }

  function stack(chart, width) {
    const parts = [...new Set(chart.rows.flatMap(([, each]) => each.map(([name]) => name)))];
    const rows = [];
    chart.rows.forEach(([name, each], at) => {
      let from = 0;
      for (const [part, value] of each) {
        rows.push({ at: String(at), name, part, value, from, to: from + value,
          text: `${part}\n${say(value, chart.x.unit)}` });
        from += value;
      }
    });
    const most = Math.max(...rows.map((d) => d.to)) || 1;
    const several = chart.rows.length > 1, inner = width - 24;
    const svg = Plot.plot({
      width, height: chart.rows.length * (several ? 62 : 46) + 46, marginLeft: 8, marginRight: 16,
      marginTop: 4, marginBottom: 40,
      x: axis(chart.x, [0, most], width < 480 ? 4 : 8),
      y: { axis: null, domain: chart.rows.map((_, at) => String(at)), paddingInner: 0.12,
        paddingOuter: 0 },
      marks: [
        Plot.text([chart.x.title], { frameAnchor: "bottom-right", dy: 38, text: (d) => `${d} →`,
          textAnchor: "end", fill: "var(--soft)" }),
        Plot.barX(rows, { x1: "from", x2: "to", y: "at", fill: (d) => color(parts.indexOf(d.part)),
          insetTop: several ? 20 : 2, stroke: "var(--card)", strokeWidth: 1 }),
        several
          ? Plot.text(chart.rows.map(([name], at) => ({ name, at: String(at) })), { x: 0, y: "at",
            text: (d) => fitted(d.name, width), textAnchor: "start", dy: -17, fill: "var(--text)" })
          : null,
        Plot.text(rows.filter((d) => d.value / most * inner > d.part.length * 7 + 10), {
          x: (d) => (d.from + d.to) / 2, y: "at", text: "part", dy: several ? 10 : 1,
          fill: "var(--card)", fontWeight: 600 }),
        Plot.tip(rows, Plot.pointerX({ x: (d) => (d.from + d.to) / 2, y: "at", title: "text",
          ...tipped })),
      ],
    });
    return { svg, stops: rows.map((d) => ({ x: (d.from + d.to) / 2, y: d.at,
      text: `${several ? `${d.name}, ` : ""}${d.text}` })) };
  }

  function histogram(chart, width) {
    const rows = chart.bins.map(([low, high, count]) => ({ low, high, count, x: chart.x.log
      ? Math.sqrt(low * high) : (low + high) / 2,
    text: `${say(low, chart.x.unit)} to ${say(high, chart.x.unit)}\n${count.toLocaleString("en")} ${
      chart.y.title}` }));
    const most = Math.max(...rows.map((d) => d.count)) || 1;
    const left = 62, bottom = 40;
    // On a scale of powers the edges are what people look for.
    const edges = [rows[0].low, ...rows.map((d) => d.high)];
    const every = Math.ceil(edges.length / (width < 480 ? 4 : 8));
    const x = axis(chart.x, [edges[0], edges.at(-1)], width < 480 ? 4 : 7);
    const y = axis(chart.y, [0, most * 1.05], 4);
    if (chart.x.log) {
      x.ticks = edges.filter((_, at) => at % every === 0);
      x.tickFormat = (v) => short(v, chart.x.unit);
    }
    const svg = Plot.plot({
      width, height: 250, marginLeft: left, marginBottom: bottom, marginTop: 30, marginRight: 16,
      x: { ...x, axis: null },
      y: { ...y, axis: null },
      marks: [
        ...sides(x, y),
        Plot.gridY({ ticks: ticks(0, most * 1.05, chart.y.unit, 4), stroke: "var(--grid)",
          strokeOpacity: 0.45 }),
        ...named(chart, left, bottom),
        Plot.rectY(rows, { x1: "low", x2: "high", y: "count", fill: color(0), inset: 0.5 }),
        Plot.ruleY([0], { stroke: "var(--grid)" }),
        Plot.tip(rows, Plot.pointerX({ x: "x", y: "count", title: "text", ...tipped })),
      ],
    });
    return { svg, stops: rows.map((d) => ({ x: d.x, y: d.count, text: d.text })) };
  }

  function heat(chart, width) {
    const xs = [...new Set(chart.cells.map(([x]) => x))];
    const ys = [...new Set(chart.cells.map(([, y]) => y))];
    const told = (pairs) => {
      const found = new Map();
      for (const [x, y, text] of pairs) {
        found.set(`${x}\n${y}`, [...(found.get(`${x}\n${y}`) ?? []), text]);
      }
      return (x, y) => found.get(`${x}\n${y}`) ?? [];
    };
    const marks = told(chart.marks), notes = told(chart.notes);
    const [low, high] = extent(chart.cells.map((each) => each[2]).filter((v) => v !== null));
    const share = (v) => (high > low ? (v - low) / (high - low) : 1);
    const rows = chart.cells.map(([x, y, value]) => ({ x, y, value, mark: marks(x, y).join(", "),
      text: [`${chart.x.title} ${x}, ${chart.y.title} ${y}`,
        `${chart.value.title}: ${say(value, chart.value.unit)}`, ...marks(x, y), ...notes(x, y),
      ].join("\n"),
    }));
    const left = Math.min(110, 24 + Math.max(...ys.map((y) => y.length)) * 7);
    const cell = (width - left - 10) / xs.length, bottom = 42, high_of = 44;
    const marked = rows.filter((d) => d.mark);
    const worded = (d) => cell >= 44 && d.mark.length * 6 < cell - 8;
    const best = chart.best && rows.filter((d) => d.x === chart.best[0] && d.y === chart.best[1]);
    // Black and white are as readable as each other on two thirds of the way, light and dark.
    const ink = (d) => (d.value !== null && share(d.value) > 0.67 ? "var(--on-high)" : "var(--on-low)");
    const svg = Plot.plot({
      width, height: ys.length * high_of + 74, marginLeft: left, marginBottom: bottom, marginTop: 30,
      marginRight: 8,
      x: { domain: xs, label: null, tickSize: 0 },
      y: { domain: ys, label: null, tickSize: 0 },
      marks: [
        ...named(chart, left, bottom),
        Plot.cell(rows, { x: "x", y: "y", inset: 1, rx: 3,
          fill: (d) => (d.value === null ? "none"
            : `color-mix(in oklab, var(--heat-high) ${(share(d.value) * 100).toFixed(0)}%, var(--heat-low))`),
          stroke: (d) => (d.value === null ? "var(--grid)" : "none") }),
        Plot.cell(marked, { x: "x", y: "y", inset: 3, rx: 3, fill: "none", stroke: ink,
          strokeWidth: 1.5, strokeDasharray: "4 3" }),
        best ? Plot.cell(best, { x: "x", y: "y", inset: 0, rx: 3, fill: "none", stroke: "var(--c2)",
          strokeWidth: 3 }) : null,
        ...[true, false].map((with_word) => Plot.text(
          cell >= 44 ? rows.filter((d) => (d.mark !== "" && worded(d)) === with_word) : [], { x: "x",
            y: "y", dy: with_word ? -7 : 0, fill: ink, fontWeight: 600,
            text: (d) => (d.value === null ? "-" : written[chart.value.unit](d.value)) })),
        Plot.text(marked.filter(worded), { x: "x", y: "y", dy: 9, fill: ink, text: "mark" }),
        Plot.tip(rows, Plot.pointer({ x: "x", y: "y", title: "text", ...tipped })),
      ],
    });
    return { svg, stops: rows.map((d) => ({ x: d.x, y: d.y, text: d.text })) };
  }

  const kinds = { line, bar, stack, histogram, heat };

  // ---- drawing, and the arrow keys ----

  const stops = new WeakMap();
  function draw(holder) {
    const chart = charts.get(holder.id);
    const width = Math.floor(holder.clientWidth);
    if (!chart || width < 40) return;
    const made = kinds[chart.kind](chart, width);
    made.svg.setAttribute("aria-hidden", "true"); // the holder says what it shows
    holder.replaceChildren(made.svg);
    holder.dataset.width = String(width);
    stops.set(holder, { at: -1, ...made });
  }
  const drawAll = () => document.querySelectorAll(".chart").forEach(draw);

  function move(holder, by) {
    const now = stops.get(holder);
    if (!now || !now.stops.length) return;
    now.at = Math.min(Math.max(now.at + by, 0), now.stops.length - 1);
    const stop = now.stops[now.at];
    const place = (scale, value) => {
      const found = now.svg.scale(scale);
      return value === undefined || !found ? 0 : found.apply(value) + (found.bandwidth ?? 0) / 2;
    };
    const box = now.svg.getBoundingClientRect();
    const factor = box.width / Number(now.svg.getAttribute("width"));
    // The pointer of the library moves to the value, so that both see one and the same.
    for (const type of ["pointerenter", "pointermove"]) {
      now.svg.dispatchEvent(new PointerEvent(type, { pointerType: "mouse", bubbles: true,
        clientX: box.left + place("x", stop.x) * factor,
        clientY: box.top + place("y", stop.y) * factor }));
    }
    document.getElementById(`${holder.id}-read`).textContent = stop.text.replaceAll("\n", ", ");
  }
  document.addEventListener("keydown", (event) => {
    if (!event.target.classList?.contains("chart")) return;
    const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, Home: -1e9, End: 1e9 };
    if (!(event.key in by)) return;
    event.preventDefault();
    move(event.target, by[event.key]);
  });
  document.addEventListener("focusout", (event) => {
    if (!event.target.classList?.contains("chart")) return;
    const now = stops.get(event.target);
    if (now) now.at = -1;
    now?.svg.dispatchEvent(new PointerEvent("pointerleave", { pointerType: "mouse", bubbles: true }));
    document.getElementById(`${event.target.id}-read`).textContent = "";
  });

  const watched = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      if (Math.abs(target.clientWidth - Number(target.dataset.width)) > 1) draw(target);
    }
  });
  const watch = () => document.querySelectorAll(".chart").forEach((each) => watched.observe(each));

  // ---- light and dark ----

  const themes = ["", "light", "dark"];
  const words = { "": "as the system", light: "light", dark: "dark" };
  function paint(theme) {
    if (theme) root.dataset.theme = theme; else delete root.dataset.theme;
    const button = document.getElementById("theme");
    button.textContent = `Colours: ${words[theme]}`;
    button.setAttribute("aria-label", `Colours: ${words[theme]}`);
  }
  let theme = "";
  try { theme = localStorage.getItem("rowfall-theme") ?? ""; } catch { /* not kept there */ }
  if (!themes.includes(theme)) theme = "";
  paint(theme);
  document.addEventListener("click", (event) => {
    if (event.target.id !== "theme") return;
    theme = themes[(themes.indexOf(theme) + 1) % 3];
    try { localStorage.setItem("rowfall-theme", theme); } catch { /* not kept there */ }
    paint(theme);
  });

  // ---- states of a load that runs ----

  function take(state) {
    const head = document.getElementById("head");
    if (head.dataset.html !== state.head) {
      const focused = document.activeElement?.id === "theme";
      head.innerHTML = state.head;
      head.dataset.html = state.head;
      paint(theme);
      if (focused) document.getElementById("theme").focus();
    }
    const main = document.getElementById("charts");
    const known = new Map([...main.children].map((each) => [each.dataset.id, each]));
    const wanted = state.charts.map((each) => {
      if (each.chart) charts.set(each.id, each.chart); else charts.delete(each.id);
      const old = known.get(each.id);
      if (old && old.dataset.html === each.html && each.chart === null) return old;
      const holder = document.createElement("template");
      holder.innerHTML = each.html;
      const made = holder.content.firstElementChild;
      made.dataset.id = each.id;
      made.dataset.html = each.html;
      if (old && old.contains(document.activeElement)) {
        // Whoever reads in it goes on: only the drawing is new.
        const shown = old.querySelector(".chart");
        if (shown && document.activeElement === shown) { draw(shown); return old; }
        if (!each.chart) return old;
      }
      old?.querySelectorAll("details").forEach((open, at) => {
        const same = made.querySelectorAll("details")[at];
        if (same) same.open = open.open;
      });
      return made;
    });
    main.replaceChildren(...wanted);
    drawAll();
    watch();
  }
  function listen() {
    const live = document.createElement("p");
    live.id = "live";
    live.setAttribute("role", "status");
    document.querySelector("footer").prepend(live);
    const events = new EventSource(data.events);
    const said = (text) => { if (live.textContent !== text) live.textContent = text; };
    events.onopen = () => said("Live: this page follows the load.");
    events.onmessage = (event) => take(JSON.parse(event.data));
    events.addEventListener("end", () => {
      events.close();
      said("The load has ended; this is its last state.");
    });
    events.onerror = () => said("The load's process does not answer; trying again.");
  }

  drawAll();
  watch();
  if (data.events) listen();
  root.dataset.ready = "1";
})();
