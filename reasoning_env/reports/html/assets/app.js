"use strict";
// Completions and names from files are inserted only as text nodes, never as HTML. Only `h` and `appendText` insert text.
(async () => {
const $ = (id) => document.getElementById(id);
const root = document.documentElement;
const MAX_LISTED_GROUPS = 200, MAX_TABLE_ROWS = 100, MAX_MARKED_PARTS = 300, MAX_CONTROL_CHARACTERS = 500;
const CONTROL_CHARACTERS = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]|[\ud800-\udfff]/gu;

function h(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, set] of Object.entries(value)) node.style.setProperty(key, set);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(3).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

async function decompressData() {
  const text = $("data").textContent;
  const bytes = Uint8Array.fromBase64 ? Uint8Array.fromBase64(text) : Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  $("data").remove();
  return JSON.parse(await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text());
}

const REPORT = await decompressData();
const taskNumber = new Map(REPORT.tasks.map(([name], number) => [name, number]));
const taskName = (number) => REPORT.tasks[number][0];
const hasSeveralRuns = REPORT.runs.length > 1;
const FORMAT_FAILURES = new Set(REPORT.forms);
const state = { view: "overview", run: 0, scheme: "", groups: [], groupAt: -1, rollout: 0, listLimit: MAX_LISTED_GROUPS, unfolded: false, comparedRollout: "", matchesFilters: () => true,
  axis: "problem", smooth: 0.1, curveTask: "", figure: "score", order: "name", evalFigure: "score", evalOf: "", evalTasks: false, shownRuns: new Set(), shownSeries: new Set() };

// ------------------------------------------------------------------------------------------------ words and colours

const fixed2 = (value) => (value === null || value === undefined ? "–" : value.toFixed(2));
const fixed3 = (value) => (value === null || value === undefined ? "–" : value.toFixed(3));
const formatCount = (value) => (value === null || value === undefined ? "–" : Math.round(value).toLocaleString("en"));
const countWithNoun = (value, noun) => `${formatCount(value)} ${noun}${value === 1 ? "" : "s"}`;
const formatPercent = (value, digits = 1) => (value === null || value === undefined ? "–" : `${(100 * value).toFixed(digits)} %`);
const formatSigned = (value) => (value > 0 ? "+" : value < 0 ? "−" : "±") + Math.abs(value).toFixed(3);
const outcomeLabel = (outcome) => outcome.replaceAll("_", " ");
const formatInterval = (interval) => `${fixed3(interval[1])} – ${fixed3(interval[2])}`;

function outcomeColour(outcome) {
  if (["right", "partial", "wrong"].includes(outcome)) return `var(--${outcome})`;
  const family = FORMAT_FAILURES.has(outcome) ? "form" : "fault";
  const place = REPORT.outcomes.filter((other) => !["right", "partial", "wrong"].includes(other) && FORMAT_FAILURES.has(other) === FORMAT_FAILURES.has(outcome)).indexOf(outcome);
  return `color-mix(in oklab, var(--${family}) ${100 - 10 * place}%, var(--text))`;
}

function resolvedColour(name) {
  const probe = h("i", { style: { color: name, transition: "none" } });
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

// ------------------------------------------------------------------------------------------------ charts

// A tooltip for the point under the pointer: the lines of `tooltipLines(at)`, or the values of all series. A click calls `onPointClick(at)`.
function tooltip(series, tooltipLines, onPointClick) {
  const box = h("div", { class: "tip" });
  const values = (plot, at) => series.map(({ label, value }, number) => {
    const of = plot.data[number]?.[at];
    return label && of !== null && of !== undefined && h("div", {}, `${label}: `, h("b", {}, value ? value(plot, of, number, at) : String(of)));
  });
  return { hooks: {
    init: (plot) => {
      plot.over.append(box);
      if (onPointClick) {
        plot.over.style.cursor = "pointer";
        plot.over.addEventListener("click", () => plot.cursor.idx !== null && plot.cursor.idx !== undefined && onPointClick(plot.cursor.idx));
      }
    },
    setCursor: (plot) => {
      const { idx, left, top } = plot.cursor;
      box.hidden = idx === null || idx === undefined || left < 0;
      if (box.hidden) return;
      box.replaceChildren(...(tooltipLines ? tooltipLines(idx) : values(plot, idx)).filter(Boolean));
      box.classList.toggle("left", left > plot.over.clientWidth / 2);
      box.style.setProperty("left", `${left}px`);
      box.style.setProperty("top", `${Math.min(top, plot.over.clientHeight - box.offsetHeight)}px`);
    },
  } };
}

const charts = [];
const observer = new ResizeObserver((entries) => {
  for (const { target, contentRect } of entries) if (target.chart && contentRect.width) target.chart.setSize({ width: contentRect.width, height: target.chart.height });
});

// `make(colours)` returns uPlot's `series`, `data` and other options. The chart is redrawn when the colour scheme changes.
function chart(make, height = 230) {
  const place = h("div", { class: "plot", style: { "min-height": `${height}px` } });
  const draw = () => {
    place.chart?.destroy();
    const colours = Object.fromEntries(["text", "muted", "line", "accent", "right", "partial", "wrong", "form", "fault", "card"].map((name) => [name, resolvedColour(`var(--${name})`)]));
    const { data, series, axes = [{}, {}], legend = true, ...options } = make(colours);
    const axis = (own) => ({ stroke: colours.muted, grid: { stroke: colours.line, width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif", labelFont: "12px system-ui, sans-serif", labelSize: 18, labelGap: 0, ...own });
    place.chart = new uPlot({
      width: Math.max(200, place.clientWidth), height, cursor: { drag: { x: false, y: false }, points: { size: 6 } },
      plugins: [tooltip(series, options.tooltipLines, options.onPointClick)], legend: { show: legend && series.length > 2, live: false, markers: { fill: (_, number) => series[number].stroke } }, axes: [axis({ size: 26, ...axes[0] }), axis({ size: 42, ...axes[1] })], series, ...options,
    }, data, place);
  };
  charts.push(draw);
  place.draw = draw;
  observer.observe(place);
  return place;
}

function redrawCharts(node) {
  for (const place of node.querySelectorAll(".plot")) place.draw();
}

const unitRange = { range: [0, 1] };
const lineSeries = (label, stroke, extra = {}) => ({ label, stroke, width: 2, points: { show: false }, value: (_, value) => fixed3(value), ...extra });

function histogram(title, note, labels, stacks, names, label) {
  const sums = stacks.map((_, upTo) => labels.map((_, at) => stacks.slice(0, upTo + 1).reduce((sum, stack) => sum + stack[at], 0)));
  const bars = uPlot.paths.bars({ size: [0.86, 80], radius: 0.12 });
  return card(title, note, chart((c) => ({
    data: [labels.map((_, at) => at), ...sums.toReversed()],
    axes: [{ label, grid: { show: false }, values: (_, splits) => splits.map((at) => labels[at] ?? "") }, { values: (_, splits) => splits.map((value) => (value >= 1e4 ? `${value / 1e3}k` : value)) }],
    scales: { x: { time: false, range: [-0.7, labels.length - 0.3] }, y: { range: (_, __, high) => [0, high * 1.05 || 1] } },
    series: [{ label: label, value: (_, at) => labels[at] ?? "–" }, ...names.toReversed().map(([name, shade], place) => ({ label: name, stroke: c[shade], fill: c[shade], width: 0, paths: bars, points: { show: false }, value: (_, __, ___, at) => (at === null || at === undefined ? "–" : formatCount(stacks[names.length - 1 - place][at])) }))],
  }), 210));
}

function lengthHistogram(run) {
  const bins = run.lengths.bins;
  return histogram("Lengths of completions", `Number of completions by length in ${run.lengths.unit}; each bar covers lengths from its label to the next label.`, bins.map((bin) => (bin[0] < 10_000 ? String(bin[0]) : `${formatCount(bin[0] / 1024)}k`)), [1, 2, 3].map((at) => bins.map((bin) => bin[at])), [["right", "right"], ["partial", "partial"], ["score 0", "wrong"]], run.lengths.unit);
}

// Write the names of models on their lines in a chart, best first. Omit a name that would overlap the name before.
function drawModelNames({ ctx, bbox, valToPos }, models, colour) {
  const size = 10 * devicePixelRatio;
  let above = -Infinity;
  Object.assign(ctx, { font: `${size}px system-ui, sans-serif`, fillStyle: colour, textAlign: "right", textBaseline: "bottom" });
  for (const { name, overall } of models.toSorted((one, other) => other.overall - one.overall)) {
    const y = valToPos(overall, "y", true);
    if (y < above + 1.2 * size) continue;
    ctx.fillText(`${truncate(name, 40)} ${fixed3(overall)}`, bbox.left + bbox.width, y);
    above = y;
  }
}

function passAtKChart(runs) {
  const ks = [...new Set(runs.flatMap((run) => run.pass_at_k.map((row) => row[0])))].sort((a, b) => a - b);
  const values = (run, at) => ks.map((k) => run.pass_at_k.find((row) => row[0] === k)?.[at] ?? null);
  const one = runs.length === 1, models = (one && runs[0].published?.models) || [];
  const fewer = one && runs[0].published?.comparable.tasks.length;
  const apart = fewer && fewer < runs[0].by_task.length ? `; the bars above use only ${formatCount(fewer)} of them` : "";
  const beside = models.length ? ` Dotted: mean scores of published models over all ${formatCount(runs[0].by_task.length)} tasks, including partial credit${apart}.` : "";
  const shown = card("pass@k", `Chance that at least one of k completions is right: unbiased estimate, mean over tasks${one ? ", with 95 % interval" : ""}.${beside}`, chart((c) => ({
    data: [ks, ...runs.flatMap((run) => (one ? [1, 2, 3] : [1]).map((at) => values(run, at))), ...models.map(({ overall }) => ks.map(() => overall))],
    hooks: { draw: [(plot) => drawModelNames(plot, models, c.muted)] },
    bands: one ? [{ series: [3, 2], fill: withAlpha(c.accent, 0.18) }] : [],
    scales: { x: { time: false }, y: unitRange }, axes: [{ label: "k", incrs: [1, 2, 5, 10, 20, 50, 100] }, {}],
    series: [{ label: "k" }, ...runs.flatMap((run, number) => {
      const stroke = c[SHADES[number % SHADES.length]];
      const line = lineSeries(one ? "pass@k" : run.name, stroke, { points: { show: true, size: 7, fill: stroke } });
      return one ? [line, lineSeries("95 % from", stroke, { width: 0, class: "band" }), lineSeries("to", stroke, { width: 0, class: "band" })] : [line];
    }), ...models.map(({ name }) => lineSeries(truncate(name, 40), c.muted, { width: 1, dash: [1, 4], class: "named" }))],
  }), models.length ? 340 : 230));
  shown.classList.toggle("wide", models.length > 0);
  return shown;
}

// ------------------------------------------------------------------------------------------------ pieces

function card(title, note, ...content) {
  return h("div", { class: "card" }, h("h2", {}, title), note ? h("div", { class: "note" }, note) : null, content);
}

const tile = (value, label, note) => h("div", { class: "tile" }, h("span", {}, label), h("b", {}, value), h("span", {}, note ?? ""));

function outcomeBar(outcomes, big = false) {
  const all = outcomes.reduce((sum, value) => sum + value, 0);
  return h("div", { class: big ? "big parts" : "parts", role: "img", "aria-label": "shares of outcomes" }, outcomes.map((value, at) => value ? h("i", {
    title: `${outcomeLabel(REPORT.outcomes[at])}: ${formatCount(value)} (${formatPercent(value / all)})`, style: { width: `${(100 * value) / all}%`, background: outcomeColour(REPORT.outcomes[at]) },
  }) : null));
}

function legend(outcomes) {
  const all = outcomes.reduce((sum, value) => sum + value, 0);
  return h("div", { class: "legend" }, outcomes.map((value, at) => value >= 0.0005 * all && value ? h("span", {}, h("i", { style: { background: outcomeColour(REPORT.outcomes[at]) } }), outcomeLabel(REPORT.outcomes[at]), " ", h("b", {}, formatPercent(value / all))) : null));
}

function intervalBar(interval) {
  const at = (value) => `${100 * Math.min(1, Math.max(0, value))}%`;
  return h("span", { class: "range", title: `95 %: ${formatInterval(interval)}` }, h("i", { class: "bar", style: { width: at(interval[0]) } }),
    h("i", { class: "span", style: { left: at(interval[1]), width: at(interval[2] - interval[1]) } }));
}

// Columns: [heading, value to sort by, content of the cell (default: the value), whether the value is text].
function table(all, rows, sortBy, openRow, descending = true) {
  const hasValue = (heading, value) => (value ?? null) !== null && (heading !== "format failures" || value >= 0.0005);
  const columns = all.filter(([heading, valueIn], number) => number === sortBy || rows.some((row) => hasValue(heading, valueIn(row))));
  sortBy = columns.indexOf(all[sortBy]);
  const body = h("tbody");
  const heads = columns.map(([heading, , , isText], number) => h("th", { class: isText && "name", scope: "col" }, h("button", { onclick: () => {
    descending = number === sortBy ? !descending : !columns[number][3];
    sortBy = number;
    showRows();
  } }, heading)));
  let maxRows = MAX_TABLE_ROWS, sorted = rows;
  const more = h("button", { class: "more", onclick: () => { maxRows = Infinity; showRows(); } });
  const showRows = () => {
    const value = columns[sortBy][1];
    sorted = rows.toSorted((a, b) => {
      const [x, y] = [value(a), value(b)];
      if (x === null || y === null || x === undefined || y === undefined) return (x ?? null) === null ? ((y ?? null) === null ? 0 : 1) : -1;
      return (x < y ? -1 : x > y ? 1 : 0) * (descending ? -1 : 1);
    });
    heads.forEach((head, number) => number === sortBy ? head.setAttribute("aria-sort", descending ? "descending" : "ascending") : head.removeAttribute("aria-sort"));
    more.hidden = sorted.length <= maxRows;
    more.textContent = `Show all ${formatCount(sorted.length)} rows`;
    body.replaceChildren(...sorted.slice(0, maxRows).map((row) => h("tr", openRow ? { "data-go": true, tabindex: 0, onclick: () => openRow(row), onkeydown: (event) => event.key === "Enter" && openRow(row) } : {},
      columns.map(([, valueIn, contentOf, isText]) => h("td", { class: isText && "name" }, withLineBreaks((contentOf ?? valueIn)(row)) ?? "–")))));
  };
  showRows();
  const csvButton = h("button", { class: "csv", title: "Save this table as CSV", onclick: () => saveCsv(columns, sorted) }, "CSV");
  return [h("div", { class: "scroll" }, h("table", { class: "data" }, h("thead", {}, h("tr", {}, heads)), body)), h("div", { class: "row below" }, more, csvButton)];
}

// Format as CSV (RFC 4180). Text that a spreadsheet would read as a formula gets a leading apostrophe.
function saveCsv(columns, rows) {
  const cell = (value) => (typeof value === "number" || value === null || value === undefined ? String(value ?? "") : `"${String(value).replace(/^(?=[=+\-@\t\r])/, "'").replaceAll('"', '""')}"`);
  const lines = [columns.map(([heading]) => cell(heading)), ...rows.map((row) => columns.map(([, valueIn]) => cell(valueIn(row))))];
  downloadFile("table.csv", lines.map((line) => `${line.join(",")}\r\n`), "text/csv");
}

function downloadFile(name, texts, type) {
  const link = h("a", { download: name, href: URL.createObjectURL(new Blob(texts, { type })) });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

// Allow line breaks after the underscores of a name.
const withLineBreaks = (value) => (typeof value === "string" ? value.split(/(?<=_)/).flatMap((piece) => [piece, h("wbr")]) : value);
const changeLabel = (value) => h("span", { class: value > 0.0005 ? "up" : value < -0.0005 ? "down" : "" }, formatSigned(value));

// ------------------------------------------------------------------------------------------------ curves

const SHADES = ["accent", "wrong", "right", "form", "fault", "muted"];
const withAlpha = (shade, alpha) => shade.replace("rgb(", "rgba(").replace(")", `, ${alpha})`);
const AXIS_LABELS = { problem: "problem", step: "step of the trainer", time: "time" };
const runsWithCurves = REPORT.runs.map((_, number) => number).filter((number) => REPORT.runs[number].time.all.groups.length > 1);
const lengthUnit = (runs) => (runs.every((number) => REPORT.runs[number].tokens !== null) ? "tokens" : "characters");

// The values that can be shown as curves: [name, description, function from a curve to values, whether these are shares].
function curveFigures(runs) {
  const unit = lengthUnit(runs);
  const rollouts = (curve) => curve.groups.map((_, at) => Object.values(curve.outcomes).reduce((sum, counts) => sum + counts[at], 0));
  const outcomes = REPORT.outcomes.map((name, number) => [`outcome ${name}`, outcomeLabel(name), (curve) => { const all = rollouts(curve); return all.map((sum, at) => (sum ? (curve.outcomes[number]?.[at] ?? 0) / sum : null)); }, true]);
  return [
    ["score", "mean score", (curve) => curve.score, true], ["accuracy", "accuracy", (curve) => curve.accuracy, true], ["signal", "groups with a signal", (curve) => curve.signal, true],
    ["level", "level of difficulty", (curve) => curve.level, true], ["length", `length in ${unit}`, (curve) => curve[unit], false], ["truncated", "cut off at the limit", (curve) => curve.truncated, true],
    ...outcomes.filter((_, number) => runs.some((run) => REPORT.runs[run].outcomes[number])),
  ].filter(([, , of]) => runs.some((run) => of(REPORT.runs[run].time.all).some((value) => value !== null)));
}

const availableAxes = (runs) => Object.keys(AXIS_LABELS).filter((axis) => axis === "problem" || runs.some((run) => { const at = REPORT.runs[run].time.all[axis]; return at && Math.max(...at) > Math.min(...at); }));
const isLongerThanTwoHours = (runs) => runs.some((run) => Math.max(0, ...(REPORT.runs[run].time.all.time ?? [])) > 2 * 3600);

// The points of a curve that have a value, from left to right.
function curvePoints(curve, values, axis, divisor = 1) {
  if (!curve[axis]) return [];
  const found = values.map((y, at) => ({ x: curve[axis][at] / divisor, y, weight: curve.groups[at] })).filter(({ y }) => y !== null).sort((one, other) => one.x - other.x);
  found.forEach((point, at) => { if (at && point.x <= found[at - 1].x) point.x = found[at - 1].x + 1e-6; });
  return found;
}

// The running mean: over a window with at least one point on each side, weighted by the groups of the points.
function runningMean(found) {
  const half = state.smooth && Math.max(1, (state.smooth * found.length) / 2);
  return found.map((_, at) => {
    const near = found.slice(Math.max(0, Math.ceil(at - half)), Math.floor(at + half) + 1);
    return near.reduce((sum, { y, weight }) => sum + y * weight, 0) / near.reduce((sum, { weight }) => sum + weight, 0);
  });
}

// Lines are [name, shade, points, dash]. Each is drawn as pale points and a line of their running mean.
function curveChart(lines, label, isShare, { height = 230, legend = false } = {}) {
  lines = lines.filter(([, , found]) => found.length);
  if (!lines.length) return h("p", { class: "muted" }, "No data for this chart.");
  const means = lines.map(([, , found]) => runningMean(found));
  const digits = isShare ? fixed3 : formatCount;
  const nearest = (found, x) => found.reduce((best, point, at) => (Math.abs(point.x - x) < Math.abs(found[best].x - x) ? at : best), 0);
  const data = uPlot.join(lines.map(([, , found], number) => [found.map(({ x }) => x), found.map(({ y }) => y), means[number]]));
  return chart((c) => ({
    data, legend, scales: { x: { time: false }, y: isShare ? unitRange : { range: (_, __, high) => [0, high * 1.05 || 1] } },
    axes: [{ label, size: 26 }, { values: (_, splits) => splits.map((value) => (value >= 1e4 ? `${value / 1e3}k` : value)) }],
    tooltipLines: (at) => [h("div", {}, `${label} ${Number(data[0][at].toPrecision(4)).toLocaleString("en")}`), ...lines.map(([name, , found], number) => { const near = nearest(found, data[0][at]); return h("div", {}, `${name}: `, h("b", {}, digits(means[number][near])), ` (${digits(found[near].y)})`); })],
    series: [{ label }, ...lines.flatMap(([name, shade, , dash]) => [
      { label: name, class: "band", paths: () => null, points: { show: true, size: 4, width: 0, fill: withAlpha(c[shade], 0.35), stroke: withAlpha(c[shade], 0.35) } },
      lineSeries(name, c[shade], { dash, spanGaps: true, value: (_, value) => digits(value) }),
    ])],
  }), height);
}

const axisLabel = (axis, runs) => (axis === "time" ? (isLongerThanTwoHours(runs) ? "hours" : "minutes") : AXIS_LABELS[axis]);
const divisorOf = (axis, runs) => (axis === "time" ? (isLongerThanTwoHours(runs) ? 3600 : 60) : 1);

function overTimeCard(run) {
  const number = REPORT.runs.indexOf(run), all = run.time.all;
  const lines = [["mean score", "accent", all.score], ["accuracy", "right", all.accuracy], ["groups with a signal", "form", all.signal, [5, 4]]];
  return card("Over time", "Each pale point is the mean of neighbouring problems; lines are running means.", curveChart(lines.map(([name, shade, values, dash]) => [name, shade, curvePoints(all, values, "problem"), dash]), "problem", true, { legend: true }),
    h("div", { class: "row below" }, h("button", { class: "more", onclick: () => { state.shownRuns = new Set([number]); showView("curves"); } }, "All curves, by task")));
}

// A stacked chart of the shares of outcomes, as running means.
function outcomeChart(curve, axis, divisor, label) {
  const present = REPORT.outcomes.map((_, number) => number).filter((number) => curve.outcomes[number]);
  const sums = curve.groups.map((_, at) => present.reduce((sum, number) => sum + curve.outcomes[number][at], 0));
  const smoothed = present.map((number) => curvePoints(curve, curve.outcomes[number].map((value, at) => value / (sums[at] || 1)), axis, divisor));
  if (!smoothed.length || !smoothed[0].length) return h("p", { class: "muted" }, "No data for this axis.");
  const means = smoothed.map(runningMean);
  const upTo = present.map((_, place) => means[0].map((_, at) => means.slice(0, place + 1).reduce((sum, values) => sum + values[at], 0)));
  const names = present.map((number) => outcomeLabel(REPORT.outcomes[number]));
  return chart(() => ({
    legend: false, data: [smoothed[0].map(({ x }) => x), ...upTo.toReversed()], scales: { x: { time: false }, y: unitRange }, axes: [{ label, size: 26 }, {}],
    tooltipLines: (at) => names.map((name, place) => means[place][at] >= 0.0005 && h("div", {}, `${name}: `, h("b", {}, formatPercent(means[place][at])))).toReversed(),
    series: [{ label }, ...present.toReversed().map((number) => { const shade = resolvedColour(outcomeColour(REPORT.outcomes[number])); return { label: outcomeLabel(REPORT.outcomes[number]), stroke: shade, fill: shade, width: 0, points: { show: false } }; })],
  }), 210);
}

function svg(tag, attributes, styles = {}, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  for (const [name, value] of Object.entries(styles)) node.style.setProperty(name, value);
  node.append(...children);
  return node;
}

// A small chart. Lines are { shade, xs, ys, dots, lows, highs }; the heading has the last value of each.
function smallChart(title, lines, [left, right], top, shown, openRow) {
  const x = (value) => (200 * (value - left)) / (right - left || 1), y = (value) => 64 - (60 * Math.min(top, value)) / (top || 1);
  const path = (xs, ys) => xs.map((value, at) => `${at ? "L" : "M"}${x(value).toFixed(1)} ${y(ys[at]).toFixed(1)}`).join("");
  const drawing = svg("svg", { viewBox: "0 0 200 68", preserveAspectRatio: "none", role: "img" }, {},
    svg("path", { class: "grid", d: `M0 ${y(0)}H200M0 ${y(top / 2)}H200M0 ${y(top)}H200` }),
    ...lines.flatMap(({ shade, xs, ys, dots, lows, highs }) => [
      ...(lows ? [svg("path", { d: `${path(xs, highs)}${path(xs.toReversed(), lows.toReversed()).replace("M", "L")}Z`, class: "area" }, { fill: `var(--${shade})` })] : []),
      ...(dots ? [svg("path", { d: dots.map((point) => `M${x(point.x).toFixed(1)} ${y(point.y).toFixed(1)}h0`).join(""), class: "dots" }, { stroke: `var(--${shade})` })] : []),
      svg("path", { d: path(xs, ys), class: "line" }, { stroke: `var(--${shade})` }),
    ]));
  return h("div", { class: "mini", tabindex: openRow && 0, role: openRow && "button", onclick: openRow, onkeydown: openRow && ((event) => event.key === "Enter" && openRow()) },
    h("div", {}, h("span", {}, withLineBreaks(title)), h("b", {}, lines.map(({ shade, ys }) => h("i", { style: { color: lines.length > 1 ? `var(--${shade})` : "inherit" } }, shown(ys.at(-1)))))), drawing);
}

const selectControl = (label, options, value, set) => h("label", {}, `${label} `, h("select", { "aria-label": label, onchange: (event) => { set(event.target.value); showView("curves", { stay: true }); } }, options.map(([key, text]) => h("option", { value: key, selected: String(key) === String(value) }, text))));

// Buttons that show or hide the lines of a chart, each in the colour of its line.
const lineToggles = (names, shown) => (names.length < 2 ? null : h("div", { class: "chosen-runs" }, names.map(([name, key, shade]) => h("button", { "aria-pressed": String(shown.has(key)), onclick: () => {
  if (!shown.delete(key)) shown.add(key);
  else if (!shown.size) shown.add(key);
  showView("curves", { stay: true });
} }, h("i", { style: { background: `var(--${shade})` } }), name))));

function renderCurves() {
  const shown = runsWithCurves.filter((number) => state.shownRuns.has(number));
  $("curves").replaceChildren(h("div", { class: "stack" }, REPORT.series.length ? evaluationsByStepCard() : null, shown.length ? trainingCurveCards(shown) : null));
}

function trainingCurveCards(shown) {
  const possible = availableAxes(shown), axis = possible.includes(state.axis) ? state.axis : "problem";
  const label = axisLabel(axis, shown), divisor = divisorOf(axis, shown), all = curveFigures(shown);
  const shade = (run) => SHADES[runsWithCurves.indexOf(run) % SHADES.length];
  const of = (run) => (state.curveTask === "" ? REPORT.runs[run].time.all : REPORT.runs[run].time.tasks.find(({ task }) => taskName(task) === state.curveTask));
  const lines = (values) => shown.filter(of).map((run) => [REPORT.runs[run].name, shade(run), curvePoints(of(run), values(of(run)), axis, divisor)]);
  const names = [...new Set(shown.flatMap((run) => REPORT.runs[run].time.tasks.map(({ task }) => taskName(task))))].sort();
  const controls = h("div", { class: "card row controls" }, h("b", {}, "Training"),
    possible.length > 1 && selectControl("over", possible.map((name) => [name, { problem: "problems", step: "steps of the trainer", time: "time" }[name]]), axis, (value) => { state.axis = value; }),
    selectControl("running mean", [[0, "none"], [0.05, "over 5 %"], [0.1, "over 10 %"], [0.2, "over 20 %"]], state.smooth, (value) => { state.smooth = Number(value); }),
    selectControl("task", [["", "all tasks"], ...names.map((name) => [name, name])], state.curveTask, (value) => { state.curveTask = value; }),
    lineToggles(runsWithCurves.map((run) => [REPORT.runs[run].name, run, shade(run)]), state.shownRuns));
  const cards = all.filter(([key]) => !key.startsWith("outcome")).map(([, heading, values, isShare]) => card(capitalise(heading), null, curveChart(lines(values), label, isShare, { height: 200 })));
  for (const run of shown) if (of(run)) cards.push(card(shown.length > 1 ? `Outcomes: ${REPORT.runs[run].name}` : "Outcomes", null, legend(REPORT.outcomes.map((_, number) => (of(run).outcomes[number] ?? []).reduce((sum, value) => sum + value, 0))), outcomeChart(of(run), axis, divisor, label)));
  const where = state.curveTask === "" ? "All tasks" : state.curveTask;
  return [controls, h("div", { class: "note" }, `${where}: each pale point is the mean of neighbouring problems, with nearly equal numbers of groups; lines are running means.`), h("div", { class: "cards" }, cards), names.length > 1 ? curvesByTask(shown, names, all, axis, divisor, shade) : null];
}

const capitalise = (text) => text[0].toUpperCase() + text.slice(1);

// A small chart for each task, all with the same axes.
function curvesByTask(shown, names, all, axis, divisor, shade) {
  const [figure, heading, values, isShare] = all.find(([key]) => key === state.figure) ?? all[0];
  const digits = isShare ? fixed2 : formatCount;
  const charts = names.map((name) => [name, shown.map((run) => [run, REPORT.runs[run].time.tasks.find(({ task }) => taskName(task) === name)]).filter(([, curve]) => curve)
    .map(([run, curve]) => ({ shade: shade(run), dots: curvePoints(curve, values(curve), axis, divisor) })).filter(({ dots }) => dots.length)
    .map((line) => ({ ...line, xs: line.dots.map(({ x }) => x), ys: runningMean(line.dots) }))]).filter(([, lines]) => lines.length);
  const places = charts.flatMap(([, lines]) => lines.flatMap(({ xs }) => xs));
  const top = isShare ? 1 : Math.max(0, ...charts.flatMap(([, lines]) => lines.flatMap(({ ys }) => ys)));
  const last = ([, lines]) => lines[0].ys.at(-1), change = ([, lines]) => last([0, lines]) - lines[0].ys[0];
  const orders = { name: () => 0, last: (one, other) => last(one) - last(other), change: (one, other) => change(one) - change(other) };
  charts.sort(orders[state.order] ?? orders.name);
  return h("div", { class: "card wide" }, h("h2", {}, "By task"),
    h("div", { class: "note" }, `${capitalise(heading)}, from 0 to ${isShare ? 1 : formatCount(top)}; the number is the last value of the running mean. Click a task to see all its curves.`),
    h("div", { class: "row controls" }, selectControl("figure", all.map(([key, text]) => [key, text]), figure, (value) => { state.figure = value; }),
      selectControl("order", [["name", "by name"], ["last", "lowest first"], ["change", "greatest fall first"]], state.order, (value) => { state.order = value; })),
    h("div", { class: "minis" }, charts.map(([name, lines]) => smallChart(name, lines, [Math.min(...places), Math.max(...places)], top, digits, () => { state.curveTask = state.curveTask === name ? "" : name; showView("curves"); }))));
}

// ------------------------------------------------------------------------------------------------ evaluations of a training

// The values of a series by step. `of` is `c:CATEGORY`, `t:TASK`, or empty for the mean over all tasks.
function valuesByStep({ runs, steps }, figure, of) {
  const row = (run) => (of === "" ? run.of_tasks : of.startsWith("c:") ? run.categories.find(({ category }) => `c:${category}` === of) : run.by_task.find(({ task }) => `t:${taskName(task)}` === of));
  return runs.map((number, at) => [steps[at], row(REPORT.runs[number])?.[figure]]).filter(([, value]) => value).map(([step, value]) => ({ step, mean: value[0], low: value[1], high: value[2] }));
}

function evaluationsByStepCard() {
  const shown = REPORT.series.map((_, number) => number).filter((number) => state.shownSeries.has(number));
  const shade = (number) => SHADES[number % SHADES.length], figure = state.evalFigure;
  const rowsOf = (of) => shown.map((number) => [number, valuesByStep(REPORT.series[number], figure, of)]).filter(([, rows]) => rows.length);
  const some = (name) => [...new Set(shown.flatMap((number) => REPORT.series[number].runs.flatMap((run) => REPORT.runs[run][name].map((row) => (name === "categories" ? row.category : taskName(row.task))))))].sort();
  const categories = some("categories"), ofTasks = some("by_task"), steps = shown.flatMap((number) => REPORT.series[number].steps);
  const minis = (names, mark) => h("div", { class: "minis" }, names.map((name) => smallChart(name, rowsOf(`${mark}:${name}`).map(([number, rows]) => ({ shade: shade(number), xs: rows.map(({ step }) => step), ys: rows.map(({ mean }) => mean), lows: rows.map(({ low }) => low), highs: rows.map(({ high }) => high) })),
    [Math.min(...steps), Math.max(...steps)], 1, fixed2, () => { state.evalOf = state.evalOf === `${mark}:${name}` ? "" : `${mark}:${name}`; showView("curves"); })));
  const shownRows = rowsOf(state.evalOf);
  const what = state.evalOf === "" ? "unweighted mean over tasks" : state.evalOf.slice(2);
  const plot = chart((c) => ({
    legend: false, data: uPlot.join(shownRows.map(([, rows]) => [rows.map(({ step }) => step), rows.map(({ mean }) => mean), rows.map(({ low }) => low), rows.map(({ high }) => high)])),
    scales: { x: { time: false }, y: unitRange }, axes: [{ label: "step of the trainer", size: 26 }, {}],
    bands: shownRows.map(([number], place) => ({ series: [3 * place + 3, 3 * place + 2], fill: withAlpha(c[shade(number)], 0.18) })),
    series: [{ label: "step" }, ...shownRows.flatMap(([number]) => [
      lineSeries(REPORT.series[number].name, c[shade(number)], { spanGaps: true, points: { show: true, size: 7, fill: c[shade(number)] } }),
      ...["95 % from", "to"].map((label) => lineSeries(label, c[shade(number)], { width: 0, spanGaps: true, class: "band" })),
    ])],
  }), 260);
  const byTask = h("details", { open: state.evalTasks, ontoggle: (event) => { state.evalTasks = event.target.open; if (state.evalTasks && event.target.childElementCount === 1) event.target.append(minis(ofTasks, "t")); } }, h("summary", {}, `All tasks: ${formatCount(ofTasks.length)}`));
  return h("div", { class: "card wide" }, h("h2", {}, "Evaluations by step"), h("div", { class: "note" }, `${figure === "score" ? "Mean score" : "Accuracy"}, ${what}, with 95 % intervals.`),
    h("div", { class: "row controls" }, selectControl("figure", [["score", "mean score"], ["accuracy", "accuracy"]], figure, (value) => { state.evalFigure = value; }),
      selectControl("of", [["", "all tasks"], ...categories.map((name) => [`c:${name}`, `category: ${name}`]), ...ofTasks.map((name) => [`t:${name}`, name])], state.evalOf, (value) => { state.evalOf = value; }),
      lineToggles(REPORT.series.map(({ name }, number) => [name, number, shade(number)]), state.shownSeries)),
    plot, h("h2", { class: "below-plot" }, "By category"), minis(categories, "c"), byTask, h("h2", { class: "below-plot" }, "Step by step"), h("div", { class: "note" }, `Change: difference in mean score from the previous evaluation, on the same problems, with 95 % interval.`), shown.map((number) => stepTable(REPORT.series[number], shown.length > 1)));
}

// A table of the evaluations of a training, with the change from the previous evaluation on the same problems.
function stepTable({ name, runs, steps }, headed) {
  const rows = runs.map((run, at) => ({ run, step: steps[at], ...REPORT.runs[run], change: at ? findComparison(runs[at - 1], run)?.overall : undefined }));
  return [headed ? h("div", { class: "note" }, name) : null, table([
    ["step", (row) => row.step], ["score", (row) => row.of_tasks.score[0], (row) => [intervalBar(row.of_tasks.score), ` ${fixed3(row.of_tasks.score[0])}`]],
    ["change", (row) => row.change?.change, (row) => (row.change ? h("span", { class: changeClass(row.change), title: `95 %: ${formatSigned(row.change.low)} to ${formatSigned(row.change.high)}` }, formatSigned(row.change.change), h("small", {}, ` ${formatSigned(row.change.low)} to ${formatSigned(row.change.high)}`)) : null)],
    ["accuracy", (row) => row.of_tasks.accuracy[0], (row) => formatPercent(row.of_tasks.accuracy[0])], ["format failures", (row) => row.format, (row) => formatPercent(row.format)], ["tokens", (row) => row.tokens, (row) => formatCount(row.tokens)], ["problems", (row) => row.groups, (row) => formatCount(row.groups)],
  ], rows, 0, (row) => { selectRun(row.run); showView("overview"); }, false)];
}

// ------------------------------------------------------------------------------------------------ overview

function renderOverview() {
  const run = REPORT.runs[state.run], cards = [];
  const { score, accuracy } = run.evaluation ? run.of_tasks : run;
  const facts = run.facts.map(([name, value]) => h("span", {}, `${name} `, h("b", {}, value)));
  const last = run.pass_at_k.at(-1);
  const tiles = [
    tile(fixed3(score[0]), "mean score", `95 %: ${formatInterval(score)}${run.evaluation ? ", over tasks" : ""}`),
    tile(formatPercent(accuracy[0]), "accuracy", `${formatPercent(accuracy[1])} – ${formatPercent(accuracy[2])}`),
    run.signal !== null && !run.evaluation && tile(formatPercent(run.signal), "groups with a signal", "scores differ"),
    last && last[0] > 1 && tile(formatPercent(last[1]), `pass@${last[0]}`, `${formatPercent(last[2])} – ${formatPercent(last[3])}`),
    run.format >= 0.0005 && tile(formatPercent(run.format), "format failures", "no valid answer"),
    tile(formatCount(run.tokens ?? run.characters), "mean length", `${run.tokens === null ? "characters" : "tokens"} of a completion`),
    tile(formatCount(run.rollouts), "rollouts", `${countWithNoun(run.groups, "group")}, ${countWithNoun(run.by_task.length, "task")}`),
    run.failed > 0 && tile(formatCount(run.failed), "failed completions", "never came; not in the scores"),
  ];
  cards.push(h("div", { class: "card wide" }, h("h2", {}, "Outcomes of the rollouts"), outcomeBar(run.outcomes, true), legend(run.outcomes)));
  if (run.time.all.groups.length > 1) cards.push(overTimeCard(run));
  if (run.published) cards.push(publishedCard(run));
  if (run.pass_at_k.length > 1) cards.push(passAtKChart([run]));
  cards.push(histogram("Scores", "Number of rollouts by reward, rounded to 0.05.", run.scores.map((_, at) => fixed2(at / (run.scores.length - 1))), [run.scores], [["rollouts", "accent"]], "score"));
  cards.push(lengthHistogram(run));
  $("overview").replaceChildren(facts.length ? h("div", { class: "facts" }, facts) : "", h("div", { class: "tiles" }, tiles.filter(Boolean)), h("div", { class: "cards" }, cards));
}

function publishedCard(run) {
  const { models, own, comparable } = run.published;
  const rows = (of, ours) => [...models.map((model) => [model.name, of(model), false]), ...Object.entries(ours).map(([kind, score]) => [`this run, ${kind}`, score, true])]
    .filter(([, score]) => score !== null && score !== undefined).sort((a, b) => b[1] - a[1]);
  const bars = (pairs) => h("div", { class: "bars" }, pairs.map(([name, score, ours]) => [
    h("span", { class: ours && "ours" }, name), h("div", { class: "parts" }, h("i", { style: { width: `${100 * score}%`, background: ours ? "var(--accent)" : "var(--muted)" } })), h("span", { class: ours && "ours" }, fixed3(score)),
  ]));
  const same = comparable.tasks.length > 0;
  return h("div", { class: "card wide" }, h("h2", {}, "Beside published models"),
    same ? [h("div", { class: "note" }, `Mean scores over the ${countWithNoun(comparable.tasks.length, "task")} with the questions and the scoring of the published runs. “As published” is the score by the published rule.`), bars(rows((model) => model.comparable, comparable.own))] : null,
    h("details", { open: !same }, h("summary", {}, `All tasks: ${formatCount(run.by_task.length)}`), h("div", { class: "note" }, "In the other tasks, questions or verifiers have changed since publication: compare with care."), bars(rows((model) => model.overall, own))));
}

// A line for each task: this run's interval, the best and median published models, and the model that the user chose.
function publishedTaskChart(run) {
  const { models, comparable } = run.published;
  const known = new Set(comparable.tasks);
  const rows = run.by_task.filter((row) => models.some((model) => Object.hasOwn(model.tasks, taskName(row.task))));
  let chosenModel = -1;
  const place = h("div", { class: "forest" });
  const fill = () => {
    const lines = rows.map((row) => {
      const scores = models.filter((model) => Object.hasOwn(model.tasks, taskName(row.task))).map((model) => model.tasks[taskName(row.task)]).sort((a, b) => a - b);
      return { row, best: scores.at(-1), median: scores[Math.floor((scores.length - 1) / 2)], own: models[chosenModel]?.tasks[taskName(row.task)] };
    }).sort((x, y) => x.row.score[0] - (x.own ?? x.best) - (y.row.score[0] - (y.own ?? y.best)));
    const at = (value) => `${100 * Math.min(1, Math.max(0, value))}%`;
    const mark = (kind, value, title) => value === undefined ? null : h("i", { class: kind, title: `${title}: ${fixed3(value)}`, style: { left: at(value) } });
    place.replaceChildren(...lines.map(({ row, best, median, own }) => h("div", { class: "line", onclick: () => openRollouts({ task: row.task }) },
      h("span", {}, taskName(row.task), known.has(taskName(row.task)) ? "" : " *"),
      h("div", { class: "axis" }, h("i", { class: "span", style: { left: at(row.score[1]), width: at(row.score[2] - row.score[1]) } }), mark("best", best, "best published"), mark("median", median, "median of the published"), mark("chosen", own, models[chosenModel]?.name), mark("own", row.score[0], "this run")),
      h("b", {}, fixed3(row.score[0])))));
  };
  const pick = h("select", { "aria-label": "Published model to show", onchange: (event) => { chosenModel = Number(event.target.value); fill(); } }, h("option", { value: -1 }, "beside the best model"), models.map((model, number) => h("option", { value: number }, model.name)));
  fill();
  const key = [["own", "this run, with its 95 % interval"], ["best", "best published model"], ["median", "median of the published"], ["chosen", "the model chosen"]];
  return card("Tasks beside published models", "From 0 to 1, the largest deficit first. * Questions or scoring have changed since publication.", pick, h("div", { class: "legend keys" }, key.map(([kind, meaning]) => h("span", {}, h("i", { class: kind }), meaning))), place);
}

// ------------------------------------------------------------------------------------------------ tasks

function renderTasks() {
  const run = REPORT.runs[state.run];
  const models = run.published?.models ?? [];
  const openRow = (row) => openRollouts({ task: row.task });
  const name = ["task", (row) => taskName(row.task), null, true];
  const columns = [
    name, ["category", (row) => REPORT.tasks[row.task][1], null, true], ["score", (row) => row.score[0], (row) => [intervalBar(row.score), ` ${fixed3(row.score[0])}`]],
    ["accuracy", (row) => row.accuracy[0], (row) => formatPercent(row.accuracy[0])],
    ["signal", (row) => row.signal, (row) => formatPercent(row.signal, 0)], ["format failures", (row) => row.format, (row) => formatPercent(row.format)],
    ["same answer", (row) => row.same_answer, (row) => formatPercent(row.same_answer, 0)],
    [run.tokens === null ? "characters" : "tokens", (row) => row.tokens ?? row.characters, (row) => formatCount(run.tokens === null ? row.characters : row.tokens)],
  ];
  if (run.level !== null) columns.push(["level", (row) => row.level, (row) => fixed2(row.level)]);
  columns.push(["groups", (row) => row.groups, (row) => formatCount(row.groups)]);
  const cards = [card("Tasks", `Click a heading to sort, a row to read its rollouts. Bars go from 0 to 1, with ticks at the quarters; the lines in bars are 95 % intervals over problems. Same answer: share of the most frequent answer among the task's last 1,000 answers; it grows if a policy collapses.`, table(columns, run.by_task, 2, openRow, false))];
  cards.push(card("Categories", "Unweighted means over tasks.", table([
    ["category", (row) => row.category, null, true], ["tasks", (row) => row.tasks], ["score", (row) => row.score[0], (row) => [intervalBar(row.score), ` ${fixed3(row.score[0])}`]],
    ["accuracy", (row) => row.accuracy[0], (row) => formatPercent(row.accuracy[0])], ["format failures", (row) => row.format, (row) => formatPercent(row.format)],
  ], run.categories, 2, (row) => openRollouts({ category: row.category }), false)));
  if (models.length) cards.push(publishedTaskChart(run));
  if (run.level !== null) cards.push(levelHeatmap(run));
  cards.push(card("Outcomes by task", null, legend(run.outcomes), table([
    name, ["right", (row) => row.outcomes[0] / row.rollouts, (row) => formatPercent(row.outcomes[0] / row.rollouts)],
    ["outcomes", (row) => 1 - row.outcomes[0] / row.rollouts, (row) => outcomeBar(row.outcomes)], ["format failures", (row) => row.format, (row) => formatPercent(row.format)],
  ], run.by_task, 2, openRow)));
  const corrected = run.by_task.filter((row) => row.plain);
  if (corrected.length) cards.push(card("What the corrections changed", "Mean score of the same completions with reasoning-gym's verifiers (plain) and with the corrected verifiers (strict).", table([
    name, ["plain", (row) => row.plain[0], (row) => fixed3(row.plain[0])], ["strict", (row) => row.plain[1], (row) => fixed3(row.plain[1])],
    ["difference", (row) => Math.abs(row.plain[1] - row.plain[0]), (row) => changeLabel(row.plain[1] - row.plain[0])],
    ["changed", (row) => row.plain[2], (row) => `${formatCount(row.plain[2])} of ${formatCount(row.plain[3])}`],
  ], corrected, 3, openRow)));
  $("tasks").replaceChildren(h("div", { class: "stack" }, cards));
}

function levelHeatmap(run) {
  const bins = [...new Set(run.cells.map((cell) => cell.bin))].sort((a, b) => a - b);
  const cells = new Map(run.cells.map((cell) => [`${cell.task} ${cell.bin}`, cell]));
  const label = (bin) => (bin < 0 ? "default" : `${(bin / 10).toFixed(1)}–${((bin + 1) / 10).toFixed(1)}`);
  const lines = (rows) => rows.map((row) => h("tr", {}, h("th", { scope: "row", onclick: () => openRollouts({ task: row.task }) }, taskName(row.task)), bins.map((bin) => {
    const cell = cells.get(`${row.task} ${bin}`);
    if (!cell) return h("td");
    return h("td", { title: `${taskName(row.task)}, level ${label(bin)}: ${fixed3(cell.score[0])}, 95 %: ${formatInterval(cell.score)}, ${countWithNoun(cell.groups, "group")}`,
      style: { background: `color-mix(in oklab, var(--hot) ${100 * cell.score[0]}%, var(--cold))`, cursor: "pointer" },
      onclick: () => openRollouts({ task: row.task, low: bin < 0 ? "" : bin / 10, high: bin < 0 ? "" : (bin + 1) / 10 }) },
    fixed2(cell.score[0]), h("small", {}, `±${fixed2((cell.score[2] - cell.score[1]) / 2).slice(1)}  n ${formatCount(cell.groups)}`));
  })));
  const body = h("tbody", {}, lines(run.by_task.slice(0, MAX_TABLE_ROWS)));
  const more = h("button", { class: "more", hidden: run.by_task.length <= MAX_TABLE_ROWS, onclick: () => { body.append(...lines(run.by_task.slice(MAX_TABLE_ROWS))); more.hidden = true; } }, `Show all ${formatCount(run.by_task.length)} tasks`);
  return card("Tasks by level", "Mean score ± half of its 95 % interval, and number of groups n. Click a cell to read its rollouts.", h("div", { class: "scroll" }, h("table", { class: "heat", style: { width: `${220 + 110 * bins.length}px` } },
    h("thead", {}, h("tr", {}, h("th"), bins.map((bin) => h("th", { scope: "col" }, label(bin))))),
    body)), h("div", { class: "row below" }, more));
}

// ------------------------------------------------------------------------------------------------ run against run

const comparedRuns = REPORT.comparisons.length ? [REPORT.comparisons[0].a, REPORT.comparisons[0].b] : [0, 1];
if (REPORT.series.length) comparedRuns.splice(0, 2, REPORT.series[0].runs[0], REPORT.series[0].runs.at(-1));

// Treat the evaluations of a training as one run, represented by the last evaluation.
const earlierEvaluations = new Set(REPORT.series.flatMap(({ runs }) => runs.slice(0, -1)));
const seriesOf = (run) => REPORT.series.find(({ runs }) => runs.includes(REPORT.runs.indexOf(run)));
const listedRuns = REPORT.runs.filter((_, number) => !earlierEvaluations.has(number));

function runName(run) {
  const series = seriesOf(run);
  return series ? `${series.name}, ${series.runs.length} evaluations, steps ${series.steps[0]} to ${series.steps.at(-1)}` : run.name;
}

function renderRuns() {
  const taskSets = new Set(listedRuns.map((run) => run.by_task.map(({ task }) => task).toSorted().join()));
  const runTable = table([
    ["run", runName, null, true],
    ["mean over tasks", (run) => run.of_tasks.score[0], (run) => [intervalBar(run.of_tasks.score), ` ${fixed3(run.of_tasks.score[0])}`]], ["accuracy", (run) => run.of_tasks.accuracy[0], (run) => formatPercent(run.of_tasks.accuracy[0])],
    ["format failures", (run) => run.format, (run) => formatPercent(run.format)], ["tokens", (run) => run.tokens, (run) => formatCount(run.tokens)], ["characters", (run) => run.characters, (run) => formatCount(run.characters)],
    ["rollouts", (run) => run.rollouts, (run) => formatCount(run.rollouts)], ["tasks", (run) => run.by_task.length],
  ], listedRuns.toSorted((a, b) => b.of_tasks.score[0] - a.of_tasks.score[0]), taskSets.size > 1 ? 7 : 1, (run) => { selectRun(REPORT.runs.indexOf(run)); showView(seriesOf(run) ? "curves" : "overview"); });
  const pair = h("div", { class: "stack" });
  const pickers = [0, 1].map((side) => h("select", { "aria-label": `Run ${"AB"[side]}`, onchange: (event) => { comparedRuns[side] = Number(event.target.value); renderComparison(pair); redrawCharts(pair); storeViewInLink(); } },
    runOptions(comparedRuns[side])));
  const some = listedRuns.filter((run) => run.pass_at_k.length > 1);
  $("compare").replaceChildren(h("div", { class: "stack" }, card("Runs", [earlierEvaluations.size && "The evaluations of a training count as one run, with the results of the last evaluation.", taskSets.size > 1 && "Not ranked, because the runs have different tasks: means over different tasks cannot be compared."].filter(Boolean).join(" "), runTable), some.length ? passAtKChart(some) : "",
    h("div", { class: "card row" }, h("b", {}, "Problem by problem"), pickers.map((picker, side) => h("label", {}, `${"AB"[side]} `, picker))), pair));
  renderComparison(pair);
}

const formatP = (p) => (p < 0.001 ? "< 0.001" : fixed3(p));

// Colour a change if its interval excludes 0.
const changeClass = (row) => (row.low > 0 ? "up" : row.high < 0 ? "down" : "");

// Draw an interval and its change as a point, on an axis from -1 to 1, or up to the end of the widest interval.
function changeBar(row, reach) {
  const at = (value) => `${50 + (50 * value) / reach}%`;
  const kind = changeClass(row);
  return h("span", { class: `spread ${kind}`, title: `${formatSigned(row.change)}, 95 %: ${formatSigned(row.low)} to ${formatSigned(row.high)}` },
    h("i", { class: "span", style: { left: at(row.low), width: `${(50 * (row.high - row.low)) / reach}%` } }), h("i", { class: "point", style: { left: at(row.change) } }));
}

// List the settings and problems in which two runs differ. `a` and `b` are in the order of the page's runs.
function differencesCard({ a, b, settings, different, unpaired }) {
  const left = unpaired - 2 * different.length;
  const lines = [
    settings.length && [h("b", {}, `Settings that differ (${REPORT.runs[a].name}, then ${REPORT.runs[b].name})`), h("ul", {}, settings.map((line) => h("li", {}, line)))],
    different.length && h("p", {}, h("b", {}, "Not compared, because these problems are not the same in both: "), truncate(different.slice(0, 20).join(", "), 1000), different.length > 20 && ` and ${formatCount(different.length - 20)} more`),
    left && h("p", {}, `Not compared: ${countWithNoun(left, "problem")} with a score in only one evaluation.`),
  ].filter(Boolean);
  const facts = [a, b].map((run) => new Map(REPORT.runs[run].facts));
  const names = [...new Set(facts.flatMap((of) => [...of.keys()]))];
  if (names.length) lines.push(h("details", {}, h("summary", {}, "Both evaluations"), h("div", { class: "scroll" }, h("table", { class: "data" },
    h("thead", {}, h("tr", {}, ["", REPORT.runs[a].name, REPORT.runs[b].name].map((head) => h("th", { class: "name" }, head)))),
    h("tbody", {}, names.map((name) => h("tr", {}, [name, ...facts.map((of) => of.get(name) ?? "–")].map((cell) => h("td", { class: "name" }, withLineBreaks(truncate(cell, 200)))))))))));
  return lines.length ? h("div", { class: "card wide unlike" }, lines) : null;
}

// The comparison of two runs, in either order.
function findComparison(first, second) {
  const found = REPORT.comparisons.find(({ a, b }) => a === Math.min(first, second) && b === Math.max(first, second));
  if (!found || first < second) return found;
  const swapSides = (row) => ({ ...row, first: row.second, second: row.first, change: -row.change, low: -row.high, high: -row.low, better: row.worse, worse: row.better });
  return { ...found, overall: swapSides(found.overall), tasks: found.tasks.map(swapSides) };
}

function renderComparison(place) {
  const [a, b] = comparedRuns.map((number) => REPORT.runs[number]);
  const compared = findComparison(...comparedRuns);
  if (!compared) return place.replaceChildren(card("", REPORT.series.some(({ runs }) => comparedRuns.some((number) => runs.includes(number))) ? "This page does not compare the two. It compares each evaluation of a training with the first and with the one before, and the last with other runs; `compare` takes any two." : "The two runs have no problem in common; only evaluations are compared by problem."));
  const scores = new Map(b.problems.map(([, , , , score, reference]) => [reference, score]));
  const both = a.problems.filter(([, , , , , reference]) => scores.has(reference))
    .map(([task, , seed, level, score, reference]) => ({ task, seed, level, first: score, second: scores.get(reference), reference }));
  const { overall } = compared, byTask = compared.tasks.toSorted((x, y) => x.first - y.first);
  const here = (at) => byTask.filter((row) => Math.abs(row.first - byTask[at].first) < 0.01 && Math.abs(row.second - byTask[at].second) < 0.01).slice(0, 8);
  const name = ["task", (row) => taskName(row.task), null, true];
  const reach = Math.max(0.1, ...byTask.map((row) => Math.max(-row.low, row.high)));
  const apart = byTask.filter((row) => row.low > 0 || row.high < 0).length;
  const sides = [["A", (row) => row.first, (row) => fixed3(row.first)], ["B", (row) => row.second, (row) => fixed3(row.second)], ["B − A", (row) => Math.abs(row.second - row.first), (row) => changeLabel(row.second - row.first)]];
  place.replaceChildren(
    h("div", { class: "tiles" }, tile(formatSigned(overall.change), `B − A in mean score, over tasks`, `${formatSigned(overall.low)} to ${formatSigned(overall.high)} (95 %), p ${formatP(overall.p)}`), tile(formatCount(overall.problems), "problems in common", `${formatCount(a.problems.length)} and ${formatCount(b.problems.length)} in all`), tile(formatCount(apart), "tasks that differ", `of ${formatCount(byTask.length)}: interval without 0; about ${formatCount(byTask.length / 20)} would by chance`),
      tile(formatCount(overall.better), "B is better", "problems"), tile(formatCount(overall.worse), "A is better", "problems")),
    h("div", { class: "cards" },
      differencesCard(compared),
      h("div", { class: "card wide" }, h("h2", {}, "Differences by task"), h("div", { class: "note" }, `B − A with its 95 % interval, on an axis from ${formatSigned(-reach)} to ${formatSigned(reach)}; coloured if the interval excludes 0. Interval and p come from a paired permutation test over the problems. Click a row to read its rollouts.`), table([name,
        ["B − A", (row) => Math.abs(row.change), (row) => [changeBar(row, reach), " ", h("span", { class: changeClass(row) }, formatSigned(row.change))]],
        ["from", (row) => row.low, (row) => formatSigned(row.low)], ["to", (row) => row.high, (row) => formatSigned(row.high)], ...sides.slice(0, 2), ["n", (row) => row.problems], ["B better", (row) => row.better], ["A better", (row) => row.worse], ["p", (row) => row.p, (row) => formatP(row.p)],
      ], byTask, 1, (row) => openRollouts({ task: row.task, run: "" }))),
      card("Mean scores of tasks", "A point is a task: above the line, B is better. Click a point to read its rollouts.", chart((c) => ({
        legend: false, scales: { x: { time: false, range: [-0.02, 1.02] }, y: { range: [-0.02, 1.02] } }, axes: [{ label: "A" }, { label: "B", size: 44 }],
        tooltipLines: (at) => here(at).map((row) => h("div", {}, h("b", {}, taskName(row.task)), ` A ${fixed3(row.first)}, B ${fixed3(row.second)}`)), onPointClick: (at) => openRollouts({ task: byTask[at].task, run: "" }),
        data: [byTask.map((row) => row.first), byTask.map((row) => row.second), byTask.map((row) => row.first)],
        series: [{}, { stroke: c.accent, paths: () => null, points: { show: true, size: 8, fill: c.accent } }, { stroke: c.muted, width: 1, dash: [4, 4], points: { show: false } }],
      }), 330)),
      h("div", { class: "card wide" }, h("h2", {}, "By problem"), h("div", { class: "note" }, "The 300 problems that differ most. Click a row to see both answers."), table([name, sides[2], ...sides.slice(0, 2), ["level", (row) => row.level, (row) => fixed2(row.level)], ["seed", (row) => row.seed]],
        both.toSorted((x, y) => Math.abs(y.second - y.first) - Math.abs(x.second - x.first)).slice(0, 300), 1, sideBySide))));
}

// Remove the library's release, the fifth part, from a reference. Evaluations identify problems by the remaining parts.
const withoutRelease = (reference) => reference?.split(":").toSpliced(4, 1).join(":");

// Show the first completion of a problem from each of both runs, if the page contains them.
function sideBySide(row) {
  const groups = comparedRuns.map((run) => REPORT.groups.find((group) => group.run === run && withoutRelease(group.reference) === row.reference));
  const known = groups.find(Boolean);
  const side = (group, at) => h("div", {}, h("h3", {}, `${"AB"[at]}: ${REPORT.runs[comparedRuns[at]].name}`), group ? [
    h("div", { class: "muted" }, `${outcomeLabel(REPORT.outcomes[group.rollouts[0].outcome])}, score ${fixed3(group.rollouts[0].score)}`),
    titledBox("answer", group.rollouts[0].right ? "right" : "wrong", appendText(h("pre"), group.rollouts[0].answer ?? "(no valid answer)")), completionBox(group.rollouts[0], group.expected, group.marks),
  ] : h("p", { class: "muted" }, "The page does not contain these rollouts; include more with `report --sample-mb`."));
  $("both").querySelector("div").replaceChildren(
    h("h2", {}, taskName(row.task), h("span", { class: "muted" }, ` #${row.seed}`)),
    ...(known ? [messageBox(...known.messages.at(-1)), expectedBox(known)] : []),
    h("div", { class: "pair" }, groups.map(side)));
  $("both").showModal();
}

// ------------------------------------------------------------------------------------------------ rollouts: filters

const filterIds = ["f-text", "f-category", "f-task", "f-outcome", "f-signal", "f-low", "f-high", "l-low", "l-high"];

function fillFilters() {
  const options = (id, first, values) => $(id).replaceChildren(h("option", { value: "" }, first), ...values.map(([value, text]) => h("option", { value }, text)));
  options("f-category", "all categories", [...new Set(REPORT.tasks.map(([, category]) => category))].sort().map((name) => [name, name]));
  options("f-task", "all tasks", REPORT.tasks.map(([name], number) => [number, name]));
  options("f-outcome", "any outcome", REPORT.outcomes.map((name, at) => [at, outcomeLabel(name)]).filter(([at]) => REPORT.runs.some((run) => run.outcomes[at])));
}

function groupSearchText(group) {
  return group.searchText ??= [group.task, group.seed, group.expected, ...group.messages.map(([, text]) => text)].join("\n").toLowerCase();
}

function applyFilters() {
  const [text, category, task, outcome, signal, low, high, levelLow, levelHigh] = filterIds.map((id) => $(id).value);
  const needle = text.toLowerCase();
  const matchesFilters = (rollout, group) => (outcome === "" || rollout.outcome === Number(outcome)) && (low === "" || rollout.score >= Number(low)) && (high === "" || rollout.score <= Number(high)) &&
    (needle === "" || groupSearchText(group).includes(needle) || (rollout.searchText ??= `${rollout.text}\n${rollout.answer ?? ""}\n${rollout.thinking?.[0] ?? ""}`.toLowerCase()).includes(needle));
  const scores = (group) => group.rollouts.map((rollout) => rollout.score);
  const signals = { "": () => true, mixed: (all) => new Set(all).size > 1, right: (all) => Math.min(...all) >= 1, wrong: (all) => Math.max(...all) <= 0 };
  const before = state.groups[state.groupAt];
  state.groups = REPORT.groups.filter((group) => (state.anyRun || group.run === state.run) && (task === "" || group.task === taskName(task)) &&
    (category === "" || REPORT.tasks[taskNumber.get(group.task)][1] === category) && (levelLow === "" || (group.level !== null && group.level >= Number(levelLow))) &&
    (levelHigh === "" || (group.level !== null && group.level <= Number(levelHigh))) && signals[signal](scores(group)) && group.rollouts.some((rollout) => matchesFilters(rollout, group)));
  state.matchesFilters = matchesFilters;
  state.listLimit = MAX_LISTED_GROUPS;
  $("found").value = `${formatCount(state.groups.length)} of ${countWithNoun(REPORT.groups.length, "group")}`;
  selectGroup(Math.max(0, state.groups.indexOf(before)), { keep: state.groups.includes(before) });
}

// Save the rollouts that match the filters: one line for each group, in the format of dumps, which all commands read.
function saveRollouts() {
  const known = (of) => Object.fromEntries(Object.entries(of).filter(([, value]) => value !== null && value !== undefined));
  const lines = state.groups.map((group) => {
    const rollouts = group.rollouts.filter((rollout) => state.matchesFilters(rollout, group)).map((rollout) => known({
      conversation: [...(rollout.messages ?? group.messages), ["assistant", rollout.text]].map(([role, content]) => ({ role, content })),
      score: rollout.score, reason: rollout.reason, answer: rollout.answer, finish_reason: rollout.finish, verifier_score: rollout.verifier, library_score: rollout.library,
      tokens: rollout.tokens, seconds: rollout.seconds, thinking: rollout.thinking?.[0], left_out: rollout.cut, left_out_of_thinking: rollout.thinking?.[1],
    }));
    return JSON.stringify(known({ item_id: group.task, rollouts, seed: group.seed, index: group.index, split: group.split, params: JSON.parse(group.params), level: group.level, expected_answer: group.expected, library_answer: group.library,
      reference: group.reference, item: group.item, dataset_size: group.size, thinking_formats: group.thinking === null ? null : group.thinking === "none" ? [] : group.thinking.split(", "), time: group.time, step: group.step, run: REPORT.runs[group.run].name }));
  });
  downloadFile("rollouts.jsonl", lines.map((line) => `${line}\n`), "application/jsonl");
}

function openRollouts({ task = "", category = "", low = "", high = "", text = "", run }) {
  for (const id of filterIds) $(id).value = "";
  $("f-task").value = task;
  $("f-category").value = category;
  $("l-low").value = low;
  $("l-high").value = high;
  $("f-text").value = text;
  state.anyRun = run === "";
  state.groupAt = -1;
  showView("rollouts");
}

// ------------------------------------------------------------------------------------------------ rollouts: list and group

const meanScore = (group) => group.rollouts.reduce((sum, rollout) => sum + rollout.score, 0) / group.rollouts.length;

// The first words of the first answer that matches the filters.
function answerPreview(group) {
  const rollout = group.rollouts.find((rollout) => state.matchesFilters(rollout, group)) ?? group.rollouts[0];
  const answer = rollout.answer ?? rollout.text.match(/<answer>([^]{0,200})<\/answer>/i)?.[1];
  return answer === undefined ? `(${outcomeLabel(REPORT.outcomes[rollout.outcome])})` : truncate(answer.slice(0, 200).trim().replace(/\s+/g, " "), 60);
}

function renderList() {
  const items = state.groups.slice(0, state.listLimit).map((group, at) => h("li", { "aria-current": at === state.groupAt && "true", onclick: () => { selectGroup(at); toggleGroupPane(); } },
    h("b", {}, group.task), h("span", { class: "muted" }, [group.seed !== null && ` #${group.seed}`, group.level !== null && ` level ${fixed2(group.level)}`, hasSeveralRuns && state.anyRun && ` ${REPORT.runs[group.run].name}`]),
    appendText(h("div", { class: "first" }, h("b", {}, fixed2(meanScore(group))), " "), answerPreview(group)),
    h("div", { class: "squares" }, group.rollouts.slice(0, 64).map((rollout) => h("i", { class: state.matchesFilters(rollout, group) || "dim", title: `${outcomeLabel(REPORT.outcomes[rollout.outcome])}, ${fixed2(rollout.score)}`, style: { background: outcomeColour(REPORT.outcomes[rollout.outcome]) } })))));
  if (state.groups.length > state.listLimit) items.push(h("li", { onclick: () => { state.listLimit += MAX_LISTED_GROUPS; renderList(); } }, h("b", {}, `${formatCount(state.groups.length - state.listLimit)} more …`)));
  $("list").replaceChildren(...items);
}

function selectGroup(at, { keep = false } = {}) {
  state.groupAt = Math.min(at, state.groups.length - 1);
  const group = state.groups[state.groupAt];
  if (!keep) state.comparedRollout = "";
  if (!keep && group) state.rollout = Math.max(0, group.rollouts.findIndex((rollout) => state.matchesFilters(rollout, group)));
  if (state.groupAt >= state.listLimit) state.listLimit = state.groupAt + MAX_LISTED_GROUPS;
  renderList();
  $("list").querySelector("[aria-current]")?.scrollIntoView({ block: "nearest" });
  showGroup();
}

// The part of a link that identifies a group within its run and task.
const groupKey = ({ index, seed }) => `${index ?? ""}.${seed ?? ""}`;

function toggleGroupPane(isOpen = true) {
  $("browser").classList.toggle("open", isOpen);
}

function titledBox(title, kind, ...content) {
  return h("div", { class: `box ${kind}` }, h("h3", {}, title), content);
}

function showGroup() {
  const group = state.groups[state.groupAt], place = $("group");
  if (!group) return place.replaceChildren(h("p", { class: "muted card" }, "No group matches."));
  const rollout = group.rollouts[state.rollout], other = group.rollouts[state.comparedRollout === "" ? -1 : state.comparedRollout];
  storeViewInLink();
  const facts = [["seed", group.seed], ["level", group.level === null ? null : fixed3(group.level)], ["problem", group.index], ["split", group.split], ["run", hasSeveralRuns ? REPORT.runs[group.run].name : null], ["parameters", group.params === "{}" ? null : group.params], ["thinking", group.thinking]];
  const rolloutFacts = [["outcome", outcomeLabel(REPORT.outcomes[rollout.outcome])], ["score", fixed3(rollout.score)], ["verifier", rollout.verifier === rollout.score ? null : fixed3(rollout.verifier)], ["library", rollout.library === undefined ? null : fixed3(rollout.library)],
    ["finish", rollout.finish], ["tokens", rollout.tokens], ["characters", rollout.characters], ["seconds", rollout.seconds === undefined ? null : fixed2(rollout.seconds)]];
  const row = (pairs) => h("div", { class: "row muted" }, pairs.filter(([, value]) => value !== null && value !== undefined).map(([name, value]) => h("span", {}, `${name} `, h("b", {}, truncate(String(value), 300)))));
  place.replaceChildren(h("div", { class: "card" },
    h("div", { class: "row" }, h("button", { id: "back", onclick: () => toggleGroupPane(false) }, "← list"), h("span", { class: "title" }, group.task), h("span", { class: "muted" }, REPORT.tasks[taskNumber.get(group.task)][1])),
    row(facts),
    group.command ? h("div", { class: "command" }, h("code", { title: "makes this problem again" }, group.command), h("button", { id: "copy", onclick: copyCommand }, "Copy")) : null,
    (rollout.messages ?? group.messages).map(([role, text]) => messageBox(role, text)),
    h("div", { class: "chips", role: "group", "aria-label": "Rollouts of the group" }, group.rollouts.map((other, at) => h("button", {
      "aria-pressed": String(at === state.rollout), class: state.matchesFilters(other, group) || "dim", title: outcomeLabel(REPORT.outcomes[other.outcome]),
      style: { "border-left-color": outcomeColour(REPORT.outcomes[other.outcome]) }, onclick: () => { state.rollout = at; showGroup(); } }, `${at + 1} · ${fixed2(other.score)}`)),
      group.rollouts.length < 2 ? null : h("select", { "aria-label": "Rollout to compare with", onchange: (event) => { state.comparedRollout = event.target.value === "" ? "" : Number(event.target.value); showGroup(); } },
        h("option", { value: "" }, "compare with …"), group.rollouts.map((each, at) => at !== state.rollout && h("option", { value: at, selected: at === state.comparedRollout }, `${at + 1} · ${fixed2(each.score)} ${outcomeLabel(REPORT.outcomes[each.outcome])}`)))),
    row(rolloutFacts),
    h("div", { class: "pair" }, titledBox("answer", rollout.right ? "right" : "wrong", appendText(h("pre"), rollout.answer ?? "(no valid answer)")), expectedBox(group)),
    other && other !== rollout ? completionDiff([rollout, other], [state.rollout, state.comparedRollout]) : completionBox(rollout, group.expected, group.marks)));
}

// Show two completions side by side, and mark the words that only one of them contains.
function completionDiff(pair, places) {
  const texts = pair.map((rollout) => [rollout.thinking?.[0], rollout.text].filter(Boolean).join("\n\n"));
  const sides = diffTexts(...texts);
  const cut = pair.some((rollout) => rollout.cut || rollout.thinking?.[1]);
  return [h("div", { class: "note" }, `Marked: words that only one of the two contains.${cut ? " The middle of long texts is omitted." : ""}`),
    h("div", { class: "pair" }, sides.map((pieces, side) => {
      const body = h("pre");
      for (const [text, same] of pieces) same ? appendText(body, text) : body.append(appendText(h("mark", { class: "only" }), text));
      return titledBox(`rollout ${places[side] + 1} · ${fixed2(pair[side].score)} ${outcomeLabel(REPORT.outcomes[pair[side].outcome])}`, pair[side].right ? "right" : "wrong", body);
    }))];
}

// Split two texts into pieces [text, whether both contain it]. Compare words; in long texts lines; in longer texts only the equal ends.
function diffTexts(first, second) {
  for (const tokens of [/[\p{L}\p{N}_]+\s*|[^\p{L}\p{N}_\s]\s*|\s+/gu, /[^\n]*\n|[^\n]+/g]) {
    const [a, b] = [first, second].map((text) => text.match(tokens) ?? []);
    let start = 0, end = 0;
    while (start < a.length && start < b.length && a[start] === b[start]) start += 1;
    while (end < Math.min(a.length, b.length) - start && a.at(-1 - end) === b.at(-1 - end)) end += 1;
    const [x, y] = [a, b].map((all) => all.slice(start, all.length - end));
    const fits = x.length * y.length <= 4e6;
    if (!fits && !tokens.flags.includes("u")) return [a, b].map((all) => mergePieces([[all.slice(0, start).join(""), true], [all.slice(start, all.length - end).join(""), false], [all.slice(all.length - end).join(""), true]]));
    if (!fits) continue;
    const common = longestCommon(x, y);
    return [[a, x, 0], [b, y, 1]].map(([all, middle, side]) => mergePieces([[all.slice(0, start).join(""), true], ...middle.map((token, at) => [token, common[side].has(at)]), [all.slice(all.length - end).join(""), true]]));
  }
}

// The positions of a longest common subsequence in both lists.
function longestCommon(x, y) {
  const width = y.length + 1, best = new Uint16Array((x.length + 1) * width);
  for (let i = x.length - 1; i >= 0; i--) for (let j = y.length - 1; j >= 0; j--) best[i * width + j] = x[i] === y[j] ? best[(i + 1) * width + j + 1] + 1 : Math.max(best[(i + 1) * width + j], best[i * width + j + 1]);
  const places = [new Set(), new Set()];
  for (let i = 0, j = 0; i < x.length && j < y.length;) {
    if (x[i] === y[j]) { places[0].add(i++); places[1].add(j++); } else if (best[(i + 1) * width + j] >= best[i * width + j + 1]) i += 1; else j += 1;
  }
  return places;
}

function mergePieces(pieces) {
  const found = [];
  for (const [text, same] of pieces) {
    if (!text) continue;
    if (found.length && found.at(-1)[1] === same) found.at(-1)[0] += text;
    else found.push([text, same]);
  }
  return found;
}

function expectedBox(group) {
  const title = group.library == null ? "expected answer" : `expected answer (corrected: reasoning-gym's own answer is ${truncate(group.library, 80)})`;
  return titledBox(title, "", appendText(h("pre"), group.expected ?? "(many answers are right)"));
}

const truncate = (text, most) => (text.length > most ? `${text.slice(0, most)} …` : text);

function messageBox(role, text) {
  const folded = role === "system" || text.length > 4000;
  return h("details", { class: "box", open: !folded }, h("summary", {}, role), appendText(h("pre"), text));
}

function completionBox(rollout, expected, marks) {
  const pieces = [];
  const add = (texts, gap) => {
    let start = 0;
    for (const [thought, text] of texts) {
      const body = h("pre"), at = gap && gap[0] - start, isCutHere = gap && at <= text.length;
      const fill = (piece) => (thought ? markExpected(body, piece, expected) : markAnswers(body, piece, expected, rollout.right));
      if (isCutHere) {
        fill(text.slice(0, at));
        body.append(h("span", { class: "gap" }, `${formatCount(gap[1])} characters are omitted here`));
        fill(text.slice(at));
      } else fill(text.replace(/^\n+|\s+$/g, ""));
      start += text.length;
      if (thought) pieces.push(h("details", { class: "box thought", open: state.unfolded }, h("summary", {}, `thinking, ${formatCount(text.length + (isCutHere ? gap[1] : 0))} characters`), body));
      else if (text.trim()) pieces.push(body);
      if (isCutHere) gap = null;
    }
  };
  if (rollout.thinking) add([[true, rollout.thinking[0]]], rollout.thinking[1]);
  add(splitThinking(rollout.text, marks), rollout.cut);
  return titledBox("completion", "", pieces);
}

// Remove thinking as the scoring code does: closed blocks, all text before an unmatched closing mark, and all text after an
// unmatched opening mark. Ignore the case of tags. In a format with channels, keep only the final channel.
function splitThinking(text, marks) {
  const literal = (mark) => mark.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  const kinds = marks.flatMap(([opening, closing, channels, anyCase], format) => [[opening, format, false, channels, anyCase], [closing, format, true, channels, anyCase]])
    .sort((one, other) => other[0].length - one[0].length);
  if (!kinds.length) return [[false, text]];
  let found = [], from = 0, inside = null, final = false;
  for (const mark of text.matchAll(new RegExp(kinds.map(([written]) => literal(written)).join("|"), "gi"))) {
    const kind = kinds.find(([written, , , , anyCase]) => written === mark[0] || (anyCase && written.toLowerCase() === mark[0].toLowerCase()));
    if (found.length > MAX_MARKED_PARTS) break;
    if (!kind) continue;
    const end = mark.index + mark[0].length, [, format, closes, channels] = kind;
    if (!closes) {
      if (inside !== null) continue;
      found.push([false, text.slice(from, mark.index)]);
      [from, inside] = [mark.index, format];
    } else if (inside === null || inside === format) {
      if (channels && final) found.push([inside !== null, text.slice(from, mark.index)], [true, mark[0]]);
      else if (inside === null || channels) found = [[true, text.slice(0, end)]];
      else found.push([true, text.slice(from, end)]);
      final ||= channels;
      [from, inside] = [end, null];
    }
  }
  return [...found, [inside !== null, text.slice(from)]];
}

function markAnswers(node, text, expected, right) {
  let from = 0, openedAt = -1, marked = 0;
  for (const tag of text.matchAll(/<(\/?)answer>/gi)) {
    if (!tag[1] && openedAt < 0) openedAt = tag.index + tag[0].length;
    else if (tag[1] && openedAt >= 0 && marked++ < MAX_MARKED_PARTS) {
      markExpected(node, text.slice(from, openedAt), expected);
      node.append(appendText(h("mark", { class: right ? "given right" : "given" }), text.slice(openedAt, tag.index)));
      [from, openedAt] = [tag.index, -1];
    }
  }
  markExpected(node, text.slice(from), expected);
}

function markExpected(node, text, expected) {
  const wanted = (expected ?? "").trim(), letter = /[\p{L}\p{N}]/u;
  let from = 0, marked = 0;
  for (let at = wanted.length > 1 ? text.indexOf(wanted) : -1; at >= 0 && marked < 50; at = text.indexOf(wanted, at + wanted.length)) {
    if (letter.test(text[at - 1] ?? "") || letter.test(text[at + wanted.length] ?? "")) continue;
    appendText(node, text.slice(from, at));
    node.append(appendText(h("mark", { class: "expected", title: "the expected answer" }), wanted));
    from = at + wanted.length;
    marked += 1;
  }
  return appendText(node, text.slice(from));
}

// Show invisible characters, and characters that reverse the text direction, as code points such as U+202E.
function appendText(node, text) {
  let from = 0, shown = 0;
  for (const control of text.matchAll(CONTROL_CHARACTERS)) {
    if (shown++ === MAX_CONTROL_CHARACTERS) break;
    node.append(text.slice(from, control.index), h("span", { class: "control" }, `U+${control[0].codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`));
    from = control.index + control[0].length;
  }
  node.append(text.slice(from));
  return node;
}

async function copyCommand() {
  const code = document.querySelector(".command code");
  try {
    await navigator.clipboard.writeText(code.textContent);
    $("copy").textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(code);
  }
}

// ------------------------------------------------------------------------------------------------ views and keys

const VIEWS = { overview: renderOverview, ...(runsWithCurves.length || REPORT.series.length ? { curves: renderCurves } : {}), tasks: renderTasks, ...(hasSeveralRuns ? { compare: renderRuns } : {}), rollouts: applyFilters };
const VIEW_LINK_NAMES = { compare: "runs" };
const TITLES = { overview: "Overview", curves: "Curves", tasks: "Tasks", compare: "Runs", rollouts: "Rollouts" };

// Scroll again in the next frame, because charts have no height before.
function scrollLater(top) {
  scrollTo(0, top);
  requestAnimationFrame(() => scrollTo(0, top));
}

function showView(view, { stay = false } = {}) {
  const scrolled = scrollY;
  state.view = view;
  charts.length = 0;
  for (const tab of document.querySelectorAll("nav button")) tab.setAttribute("aria-selected", String(tab.dataset.view === view));
  for (const name of Object.keys(TITLES)) $(name).hidden = name !== view;
  VIEWS[view]();
  redrawCharts($(view));
  toggleGroupPane(false);
  storeViewInLink();
  document.title = [hasSeveralRuns && view === "compare" ? (REPORT.runs.length < 4 ? REPORT.runs.map((run) => run.name).join(" and ") : `${REPORT.runs.length} runs`) : REPORT.runs[state.run].name, TITLES[view]].join(" · ");
  scrollLater(stay ? scrolled : 0);
}

// ------------------------------------------------------------------------------------------------ links

const IN_LINKS = { "f-text": "text", "f-category": "category", "f-task": "task", "f-outcome": "outcome", "f-signal": "group-is", "f-low": "score-from", "f-high": "score-to", "l-low": "level-from", "l-high": "level-to" };

// Store the view in the address, so that a copied link, a reload and a bookmark show the same view.
function storeViewInLink() {
  const link = new URLSearchParams();
  const addParameter = (name, value, standard = "") => { if (value !== standard && value !== undefined) link.append(name, value); };
  if (hasSeveralRuns && state.view !== "compare") addParameter("run", state.view === "rollouts" && state.anyRun ? "any" : REPORT.runs[state.run].name);
  if (state.view === "curves") {
    for (const [name, standard] of Object.entries({ axis: "problem", smooth: 0.1, curveTask: "", figure: "score", order: "name", evalFigure: "score", evalOf: "" })) addParameter(name, String(state[name]), String(standard));
    if (state.shownRuns.size < runsWithCurves.length) for (const run of state.shownRuns) addParameter("curve", REPORT.runs[run].name);
    if (state.shownSeries.size < REPORT.series.length) for (const number of state.shownSeries) addParameter("series", REPORT.series[number].name);
  }
  if (state.view === "compare") for (const run of comparedRuns) addParameter("pair", REPORT.runs[run]?.name);
  if (state.view === "rollouts") {
    for (const [id, name] of Object.entries(IN_LINKS)) addParameter(name, $(id).value && $(id).selectedOptions ? $(id).selectedOptions[0].textContent : $(id).value);
    const group = state.groups[state.groupAt];
    if (group) {
      addParameter("of", group.task);
      addParameter("problem", groupKey(group));
      addParameter("rollout", String(state.rollout + 1));
      addParameter("beside", state.comparedRollout === "" ? "" : String(state.comparedRollout + 1));
    }
  }
  history.replaceState(null, "", `#${VIEW_LINK_NAMES[state.view] ?? state.view}${link.size ? `?${link}` : ""}`);
}

// Show the view that a link describes. Ignore parts of the link that this page does not contain.
function restoreView(fragment) {
  const [name, query = ""] = fragment.replace(/^#/, "").split(/\?(.*)/);
  const link = new URLSearchParams(query), view = Object.keys(VIEWS).find((view) => view === name || VIEW_LINK_NAMES[view] === name);
  if (!view) return false;
  const run = REPORT.runs.findIndex((run) => run.name === link.get("run"));
  if (run >= 0) selectRun(run);
  state.anyRun = link.get("run") === "any";
  for (const [name, ...allowed] of [["axis", ...Object.keys(AXIS_LABELS)], ["figure", ...curveFigures(runsWithCurves).map(([key]) => key)], ["order", "name", "last", "change"], ["evalFigure", "score", "accuracy"], ["smooth", "0", "0.05", "0.1", "0.2"]]) {
    if (allowed.includes(link.get(name))) state[name] = name === "smooth" ? Number(link.get(name)) : link.get(name);
  }
  for (const name of ["curveTask", "evalOf"]) state[name] = taskNumber.has((link.get(name) ?? "").replace(/^t:/, "")) || link.get(name)?.startsWith("c:") ? link.get(name) : "";
  for (const [name, shown, names] of [["curve", state.shownRuns, runsWithCurves.map((run) => [REPORT.runs[run].name, run])], ["series", state.shownSeries, REPORT.series.map(({ name }, number) => [name, number])]]) {
    const asked = names.filter(([each]) => link.getAll(name).includes(each));
    if (asked.length) { shown.clear(); for (const [, number] of asked) shown.add(number); }
  }
  link.getAll("pair").slice(0, 2).forEach((name, side) => { const number = REPORT.runs.findIndex((run) => run.name === name); if (number >= 0) comparedRuns[side] = number; });
  for (const [id, name] of Object.entries(IN_LINKS)) {
    const asked = link.get(name) ?? "";
    $(id).value = $(id).options ? [...$(id).options].find(({ textContent }) => textContent === asked)?.value ?? "" : asked;
  }
  showView(view);
  const at = state.groups.findIndex((group) => group.task === link.get("of") && groupKey(group) === link.get("problem"));
  if (view === "rollouts" && at >= 0) {
    const place = (name) => { const number = Number(link.get(name)) - 1; return state.groups[at].rollouts[number] ? number : undefined; };
    state.groupAt = at;
    state.rollout = place("rollout") ?? 0;
    state.comparedRollout = place("beside") ?? "";
    selectGroup(at, { keep: true });
    toggleGroupPane();
  }
  return true;
}

async function copyLink() {
  const button = $("link");
  try {
    await navigator.clipboard.writeText(location.href);
  } catch {
    const field = h("textarea", {}, location.href);
    document.body.append(field);
    field.select();
    document.execCommand("copy");
    field.remove();
  }
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = "Link"; }, 1500);
}

function selectRun(run) {
  state.run = run;
  state.anyRun = false;
  $("run").value = run;
}

// Options for a choice of runs. The evaluations of a training form a group.
function runOptions(selected) {
  const option = (run, number) => h("option", { value: number, selected: number === selected }, run.name);
  const placed = new Set();
  return REPORT.runs.map((run, number) => {
    const series = seriesOf(run);
    if (!series) return option(run, number);
    if (placed.has(series)) return null;
    placed.add(series);
    return h("optgroup", { label: `${series.name}: evaluations` }, series.runs.map((member) => option(REPORT.runs[member], member)));
  }).filter(Boolean);
}

function setScheme(chosenScheme) {
  state.scheme = chosenScheme;
  root.toggleAttribute("data-scheme", Boolean(chosenScheme));
  if (chosenScheme) root.setAttribute("data-scheme", chosenScheme);
  charts.forEach((draw) => draw());
}

const dark = matchMedia("(prefers-color-scheme: dark)");
const toggleScheme = () => setScheme((state.scheme || (dark.matches ? "dark" : "light")) === "dark" ? "light" : "dark");
const moveGroup = (by) => { if (state.groupAt + by >= 0 && state.groupAt + by < state.groups.length) selectGroup(state.groupAt + by); };
const moveRollout = (by) => {
  const next = state.rollout + by;
  if (state.groups[state.groupAt]?.rollouts[next]) { state.rollout = next; showGroup(); }
};
const KEYS = {
  j: ["next group", () => moveGroup(1)], k: ["group before", () => moveGroup(-1)], l: ["next rollout of the group", () => moveRollout(1)], h: ["rollout before", () => moveRollout(-1)],
  t: ["unfold or fold the thinking", () => { state.unfolded = !state.unfolded; showGroup(); }], c: ["copy the command", () => $("copy")?.click()],
  y: ["copy a link to what is shown", copyLink], "/": ["search", () => { showView("rollouts"); $("f-text").focus(); }], d: ["light or dark", toggleScheme], "?": ["these keys", () => $("help").showModal()],
};
const ARROW_KEYS = { ArrowDown: "j", ArrowUp: "k", ArrowRight: "l", ArrowLeft: "h" };

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || $("help").open || $("both").open) return;
  if (event.key === "Escape") { toggleGroupPane(false); document.activeElement.blur(); }
  if (/^(INPUT|SELECT)$/.test(document.activeElement.tagName)) return;
  const key = ARROW_KEYS[event.key] ?? event.key, view = Object.keys(VIEWS)[Number(key) - 1];
  if (view) showView(view);
  else if (KEYS[key] && ("jkhltc".includes(key) ? state.view === "rollouts" : true)) {
    event.preventDefault();
    KEYS[key][1]();
  }
});

document.querySelector("nav").append(...Object.keys(VIEWS).map((view) => h("button", { role: "tab", "data-view": view, onclick: () => showView(view) }, TITLES[view])));
for (const number of runsWithCurves) state.shownRuns.add(number);
REPORT.series.forEach((_, number) => state.shownSeries.add(number));
if (earlierEvaluations.has(0)) state.run = REPORT.series.find(({ runs }) => runs.includes(0)).runs.at(-1);
$("run").replaceChildren(...runOptions(state.run));
$("run").addEventListener("change", (event) => { selectRun(Number(event.target.value)); showView(state.view); });
$("link").addEventListener("click", copyLink);
$("save").addEventListener("click", saveRollouts);
window.addEventListener("hashchange", () => restoreView(location.hash));
$("scheme").addEventListener("click", toggleScheme);
$("keys").addEventListener("click", () => $("help").showModal());
$("help").querySelector("button").addEventListener("click", () => $("help").close());
$("both").querySelector("button").addEventListener("click", () => $("both").close());
$("help").querySelector("dl").append(...Object.entries(KEYS).flatMap(([key, [meaning]]) => [h("dt", {}, key), h("dd", {}, meaning)]), h("dt", {}, `1 – ${Object.keys(VIEWS).length}`), h("dd", {}, "views"));
let filterTimer = 0;
$("filters").addEventListener("input", () => { clearTimeout(filterTimer); filterTimer = setTimeout(applyFilters, 120); });
$("filters").addEventListener("reset", () => { state.anyRun = false; setTimeout(applyFilters); });
$("filters").addEventListener("submit", (event) => event.preventDefault());
dark.addEventListener("change", () => charts.forEach((draw) => draw()));

const total = (name) => REPORT.runs.reduce((sum, run) => sum + run[name], 0);
const sampledRollouts = REPORT.groups.reduce((sum, group) => sum + group.rollouts.length, 0);
$("made").textContent = REPORT.made;
$("notes").append(h("p", {}, sampledRollouts < total("rollouts") ? `Charts and tables use all ${formatCount(total("rollouts"))} rollouts. The page contains a sample of them to read: ${formatCount(sampledRollouts)} rollouts in ${formatCount(REPORT.groups.length)} groups, from every task. Rare outcomes are more frequent in the sample than in the charts.` : `This page contains all ${formatCount(sampledRollouts)} rollouts.`),
  REPORT.notes.length ? h("ul", {}, REPORT.notes.map((note) => h("li", {}, note))) : "");
fillFilters();
$("loading").remove();
if (!restoreView(location.hash)) showView("overview");
root.setAttribute("data-ready", "");
})();
