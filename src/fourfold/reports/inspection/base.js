"use strict";
// All that is shown comes from the page's own JSON; nothing is fetched.
const data = JSON.parse(document.getElementById("data").textContent);
const state = { layer: 0, head: 0, quantity: null, token: 0, event: null, item: 0, step: 0, fit: false };
const cursors = { heads: [], readable: [], step: () => {} };
const SVG = "http://www.w3.org/2000/svg";
const SVG_NAMES = new Set(["svg", "g", "circle", "rect", "line", "text", "polyline", "polygon"]);
const INK = "#1d2429", ACCENT = "#0b6e6e", GREY = "#b9b5a8";

const $ = (id) => document.getElementById(id);
const layer = () => data.layers[state.layer];
const series = (name, at = layer(), head = state.head) => at.quantities[name].values.map((row) => row[head]);
const known = (x) => x !== null && x !== undefined && Number.isFinite(x);
const within = (x, low, high) => Math.max(low, Math.min(high, x));
const minus = (text) => text.replace(/-/g, "−");
const number = (x) => (!known(x) ? "–"
  : minus(Math.abs(x) >= 1000 || (x !== 0 && Math.abs(x) < 0.001) ? x.toExponential(2) : x.toFixed(3)));
// The ends of a scale, short enough for an axis; what is nothing beside the other end is 0.
const brief = (x) => minus(x === 0 || Number.isInteger(x) && Math.abs(x) < 1000 ? String(x)
  : Math.abs(x) >= 1000 || Math.abs(x) < 0.005 ? x.toExponential(0) : x.toFixed(Math.abs(x) >= 100 ? 0 : Math.abs(x) >= 10 ? 1 : 2));

const ends = (limits) => limits.map((x) => brief(Math.abs(x) < 0.005 * Math.max(...limits.map(Math.abs)) ? 0 : x));

function make(name, attributes = {}, text = "") {
  const element = SVG_NAMES.has(name) ? document.createElementNS(SVG, name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== "") element.textContent = text;
  return element;
}

function range(values) {
  let low = Infinity, high = -Infinity;
  for (const x of values) if (known(x)) { low = Math.min(low, x); high = Math.max(high, x); }
  if (low > high) return [0, 1];
  return low === high ? [low - 0.5, high + 0.5] : [low, high];
}

function bounds(name, at = layer()) {
  // Shares have one scale everywhere unless it is fitted; of other quantities each layer has its own.
  return data.shares.includes(name) && !state.fit ? [0, 1] : range(at.quantities[name].values.flat());
}

// A token that is a part of a letter has no word of its own: it belongs to the one before it.
const visible = (word) => word.replace(/\n/g, "↵").replace(/\t/g, "⇥").replace(/^ +$/, (s) => (s.length > 1 ? `${s.length} spaces` : "space"));
const parts = data.layers.length ? data.words.map((word, i) => {
  let from = i, to = i + 1;
  while (from > 0 && data.words[from] === "") from--;
  while (to < data.words.length && data.words[to] === "") to++;
  return { from, part: i - from + 1, of: to - from };
}) : [];

function named(index) {
  const { from, part, of } = parts[index];
  return visible(data.words[from]) + (of > 1 ? ` (token ${part} of ${of})` : "");
}

function place(index) {
  const { kind, item } = data.events[index];
  const about = kind ? ` · ${kind}${item && item !== data.words[index] ? " " + visible(item) : ""}` : "";
  return `token ${data.first + index}: ${named(index)}${about}`;
}

function tip(target, text) {
  target.addEventListener("pointermove", (e) => {
    const box = $("tip");
    box.textContent = text(e);
    if (!box.textContent) { box.style.display = "none"; return; }
    box.style.display = "block";
    box.style.left = within(e.clientX + 14, 4, innerWidth - box.offsetWidth - 8) + "px";
    box.style.top = within(e.clientY + 18, 4, innerHeight - box.offsetHeight - 8) + "px";
  });
  target.addEventListener("pointerleave", () => { $("tip").style.display = "none"; });
}

function fill(table, rows) {
  // The first row and the first column are headings.
  table.replaceChildren(...rows.map((cells, r) => {
    const row = make("tr");
    cells.forEach((cell, c) => row.append(make(r && c ? "td" : "th", { scope: r ? "row" : "col" }, cell)));
    return row;
  }));
}

function inside(svg, event) {
  // Where a pointer is, in the drawing's own units.
  const box = svg.getBoundingClientRect(), view = svg.viewBox.baseVal;
  return [(event.clientX - box.left) * (view.width / box.width), (event.clientY - box.top) * (view.height / box.height)];
}

function axes(svg, box, xname, yname, xs, ys) {
  const [[x0, x1], [y0, y1]] = [ends(xs), ends(ys)];
  svg.append(make("rect", { x: box.left, y: box.top, width: box.width, height: box.height, fill: "white", stroke: GREY }));
  const bottom = box.top + box.height, right = box.left + box.width;
  for (const [text, x, y, anchor] of [
    [x0, box.left, bottom + 16, "start"], [x1, right, bottom + 16, "end"],
    [xname, box.left + box.width / 2, bottom + 16, "middle"],
    [y0, box.left - 5, bottom, "end"], [y1, box.left - 5, box.top + 10, "end"],
    [yname, box.left - 8, box.top + box.height / 2, "end"],
  ]) svg.append(make("text", { x, y, "text-anchor": anchor }, text));
}
