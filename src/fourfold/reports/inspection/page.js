"use strict";
// All that is shown comes from the page's own JSON; nothing is fetched.
const data = JSON.parse(document.getElementById("data").textContent);
const state = { layer: 0, head: 0, quantity: null, token: 0, event: null };
const cursors = { heads: [], readable: [] };
const SVG = "http://www.w3.org/2000/svg";
const EVENT_COLOURS = ["#c4622d", "#5b5bb0", "#400040", "#a040e0", "#0b6e6e", "#8a6d00", "#600000", "#2000e0", "#4a7a1e"];
const kinds = [...new Set((data.events || []).map((event) => event.kind))].filter((kind) => kind);
const colourOf = Object.fromEntries(kinds.map((kind, i) => [kind, EVENT_COLOURS[i % EVENT_COLOURS.length]]));

const $ = (id) => document.getElementById(id);
const layer = () => data.layers[state.layer];
const series = (name, at = layer(), head = state.head) => at.quantities[name].values.map((row) => row[head]);
const number = (x) => (x === null || x === undefined || Number.isNaN(x) ? "–"
  : Number.isInteger(x) && Math.abs(x) < 1e6 ? String(x)
  : Math.abs(x) >= 1000 || (x !== 0 && Math.abs(x) < 0.001) ? x.toExponential(2) : x.toFixed(3));

function make(name, attributes = {}, text = "") {
  const svg = ["svg", "g", "path", "circle", "rect", "line", "text", "polyline", "polygon", "title"].includes(name);
  const element = svg ? document.createElementNS(SVG, name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== "") element.textContent = text;
  return element;
}

function shade(share) {
  // From paper to a deep teal; the text on it turns white where it must.
  const stops = [[250, 247, 238], [178, 214, 200], [88, 164, 158], [11, 110, 110], [4, 56, 66]];
  const x = Math.max(0, Math.min(1, share)) * (stops.length - 1), low = Math.min(Math.floor(x), stops.length - 2);
  const mixed = stops[low].map((from, i) => Math.round(from + (stops[low + 1][i] - from) * (x - low)));
  return { fill: `rgb(${mixed.join(",")})`, text: x > 1.9 ? "white" : "#1d2429" };
}

function range(values) {
  const known = values.filter((x) => x !== null && Number.isFinite(x));
  if (!known.length) return [0, 1];
  let low = Infinity, high = -Infinity;
  for (const x of known) { low = Math.min(low, x); high = Math.max(high, x); }
  return low === high ? [low - 0.5, high + 0.5] : [low, high];
}

function bounds(name) {
  // Shares have one scale everywhere; of other quantities each layer has its own.
  if (data.shares.includes(name)) return [0, 1];
  return range(layer().quantities[name].values.flat());
}

function place(index) {
  const event = data.events[index];
  const what = event.kind ? ` · ${event.kind}${event.item ? " " + event.item : ""}` : "";
  return `token ${index}: ${data.words[index]}${what}`;
}

function tip(target, text) {
  target.addEventListener("pointermove", (e) => {
    const box = $("tip");
    box.textContent = typeof text === "function" ? text(e) : text;
    if (!box.textContent) { box.style.display = "none"; return; }
    box.style.display = "block";
    const width = box.offsetWidth, height = box.offsetHeight;
    box.style.left = Math.max(4, Math.min(e.clientX + 14, innerWidth - width - 8)) + "px";
    box.style.top = Math.max(4, Math.min(e.clientY + 18, innerHeight - height - 8)) + "px";
  });
  target.addEventListener("pointerleave", () => { $("tip").style.display = "none"; });
}

function drawText() {
  const box = $("text");
  const [low, high] = bounds(state.quantity);
  const values = series(state.quantity);
  if (!box.children.length) {
    data.words.forEach((word, i) => {
      const span = make("span", { role: "option", id: `t${i}` }, word);
      span.addEventListener("click", () => choose({ token: i }));
      tip(span, () => `${place(i)} · ${state.quantity} ${number(series(state.quantity)[i])}`);
      box.append(span);
    });
  }
  [...box.children].forEach((span, i) => {
    const colours = shade((values[i] - low) / (high - low));
    span.style.background = colours.fill;
    span.style.color = colours.text;
    span.style.borderBottomColor = colourOf[data.events[i].kind] || "transparent";
  });
  $("low").textContent = number(low);
  $("high").textContent = number(high);
  $("meaning").textContent = layer().quantities[state.quantity].meaning;
  const steps = [0, 0.25, 0.5, 0.75, 1].map((x) => shade(x).fill);
  $("ramp").style.background = `linear-gradient(to right, ${steps.join(",")})`;
}

function drawToken() {
  const table = $("token");
  table.replaceChildren();
  const head = make("tr");
  head.append(make("th", {}, place(state.token)));
  for (let h = 0; h < layer().heads; h++) head.append(make("th", { scope: "col" }, `head ${h}`));
  table.append(head);
  for (const [name, quantity] of Object.entries(layer().quantities)) {
    const row = make("tr");
    row.append(make("td", {}, quantity.meaning));
    for (let h = 0; h < layer().heads; h++) row.append(make("td", {}, number(quantity.values[state.token][h])));
    table.append(row);
  }
}

function line(values, width, height, low, high, pad = 3) {
  const x = (i) => pad + (i / Math.max(1, values.length - 1)) * (width - 2 * pad);
  const y = (v) => height - pad - ((v - low) / (high - low)) * (height - 2 * pad);
  return { x, y, points: values.map((v, i) => (v === null ? "" : `${x(i).toFixed(1)},${y(v).toFixed(1)}`)).join(" ") };
}

function drawHeads() {
  const box = $("heads");
  box.replaceChildren();
  cursors.heads = [];
  data.layers.forEach((at, l) => {
    if (!(state.quantity in at.quantities)) return;
    const [low, high] = data.shares.includes(state.quantity) ? [0, 1] : range(at.quantities[state.quantity].values.flat());
    for (let h = 0; h < at.heads; h++) {
      const chosen = l === state.layer && h === state.head;
      const button = make("button", { type: "button", "aria-pressed": chosen, "data-layer": l, "data-head": h });
      const svg = make("svg", { viewBox: "0 0 240 56", "aria-hidden": "true" });
      const values = series(state.quantity, at, h);
      const curve = line(values, 240, 56, low, high);
      data.events.forEach((event, i) => {
        if (event.kind in colourOf) svg.append(make("rect", { x: curve.x(i) - 0.6, y: 53, width: 1.6, height: 3, fill: colourOf[event.kind] }));
      });
      svg.append(make("polyline", { points: curve.points, fill: "none", stroke: "#0b6e6e", "stroke-width": 1.2 }));
      const cursor = make("line", { y1: 0, y2: 56, stroke: "#1d2429", "stroke-width": 0.7 });
      const name = make("div");
      svg.append(cursor);
      button.append(name, svg);
      cursors.heads.push(() => {
        cursor.setAttribute("x1", curve.x(state.token));
        cursor.setAttribute("x2", curve.x(state.token));
        name.textContent = `layer ${at.index}, head ${h} · ${number(values[state.token])}`;
      });
      button.addEventListener("click", () => choose({ layer: l, head: h }));
      box.append(button);
    }
  });
}

function axes(svg, box, xname, yname, [x0, x1], [y0, y1]) {
  svg.append(make("rect", { x: box.left, y: box.top, width: box.width, height: box.height, fill: "white", stroke: "#b9b5a8" }));
  const bottom = box.top + box.height;
  for (const [text, x, y, anchor] of [
    [number(x0), box.left, bottom + 14, "start"], [number(x1), box.left + box.width, bottom + 14, "end"],
    [xname, box.left + box.width / 2, bottom + 14, "middle"],
    [number(y0), box.left - 4, bottom, "end"], [number(y1), box.left - 4, box.top + 9, "end"],
    [yname, box.left - 4, box.top + box.height / 2, "end"],
  ]) svg.append(make("text", { x, y, "text-anchor": anchor }, text));
}

const CORNERS = [[1, 1, "address-bound, directed"], [0, 1, "directed"], [1, 0, "stable revision"], [0, 0, "GDN-like"]];

function drawPhase() {
  const holder = $("phase");
  holder.replaceChildren();
  const has = "rho" in layer().quantities && "lambda" in layer().quantities;
  $("phase-section").hidden = !has;
  if (!has) return;
  const svg = make("svg", { viewBox: "0 0 420 360", role: "img", "aria-label": "Each token's λ and ρ" });
  const box = { left: 56, top: 8, width: 352, height: 310 };
  axes(svg, box, "λ", "ρ", [0, 1], [0, 1]);
  const x = (v) => box.left + v * box.width, y = (v) => box.top + (1 - v) * box.height;
  svg.append(make("line", { x1: x(0.5), x2: x(0.5), y1: y(0), y2: y(1), stroke: "#e4e0d4" }));
  svg.append(make("line", { x1: x(0), x2: x(1), y1: y(0.5), y2: y(0.5), stroke: "#e4e0d4" }));
  for (const [l, r, name] of CORNERS) {
    svg.append(make("text", { x: x(l) + (l ? -6 : 6), y: y(r) + (r ? 14 : -6), "text-anchor": l ? "end" : "start", style: "fill:#6a6458" }, name));
  }
  const lam = series("lambda"), rho = series("rho");
  const from = Math.max(0, state.token - 4), to = Math.min(data.words.length, state.token + 5);
  lam.forEach((value, i) => {
    const dot = make("circle", { cx: x(value), cy: y(rho[i]), r: 3.2, fill: colourOf[data.events[i].kind] || "#8a8578", "fill-opacity": 0.65, "data-token": i });
    tip(dot, `${place(i)} · λ ${number(value)}, ρ ${number(rho[i])}`);
    dot.addEventListener("click", () => choose({ token: i }));
    svg.append(dot);
  });
  const path = [];
  for (let i = from; i < to; i++) path.push(`${x(lam[i]).toFixed(1)},${y(rho[i]).toFixed(1)}`);
  svg.append(make("polyline", { points: path.join(" "), fill: "none", stroke: "#1d2429", "stroke-width": 1.4 }));
  svg.append(make("circle", { cx: x(lam[state.token]), cy: y(rho[state.token]), r: 6, fill: "none", stroke: "#1d2429", "stroke-width": 2 }));
  holder.append(svg);
}

function drawAround() {
  const holder = $("around");
  holder.replaceChildren();
  const found = (data.around[layer().index] || {})[state.event];
  $("around-section").hidden = !data.around_events.length;
  if (!found || !(state.quantity in found.quantities)) return;
  const { mean, deviation } = found.quantities[state.quantity];
  const steps = found.steps;
  const lows = [], highs = [];
  mean.forEach((row, i) => row.forEach((m, h) => { if (m !== null) { lows.push(m - deviation[i][h]); highs.push(m + deviation[i][h]); } }));
  const limits = data.shares.includes(state.quantity) ? [0, 1] : range([...lows, ...highs]);
  const svg = make("svg", { viewBox: "0 0 420 260", role: "img", "aria-label": `${state.quantity} around ${state.event}` });
  const box = { left: 56, top: 8, width: 352, height: 210 };
  axes(svg, box, `tokens after ${state.event}`, "", [steps[0], steps[steps.length - 1]], limits);
  const x = (i) => box.left + (i / (steps.length - 1)) * box.width;
  const y = (v) => box.top + (1 - (Math.max(limits[0], Math.min(limits[1], v)) - limits[0]) / (limits[1] - limits[0])) * box.height;
  const zero = steps.indexOf(0);
  svg.append(make("line", { x1: x(zero), x2: x(zero), y1: box.top, y2: box.top + box.height, stroke: "#1d2429", "stroke-dasharray": "2 3" }));
  for (let h = 0; h < layer().heads; h++) {
    const chosen = h === state.head;
    const known = steps.map((_, i) => i).filter((i) => mean[i][h] !== null);
    if (chosen) {
      const upper = known.map((i) => `${x(i)},${y(mean[i][h] + deviation[i][h])}`);
      const lower = known.map((i) => `${x(i)},${y(mean[i][h] - deviation[i][h])}`).reverse();
      svg.append(make("polygon", { points: [...upper, ...lower].join(" "), fill: "#0b6e6e", "fill-opacity": 0.15 }));
    }
    const curve = make("polyline", { points: known.map((i) => `${x(i)},${y(mean[i][h])}`).join(" "), fill: "none",
      stroke: chosen ? "#0b6e6e" : "#b9b5a8", "stroke-width": chosen ? 2.2 : 1.2 });
    svg.append(curve);
    for (const i of known) {
      const dot = make("circle", { cx: x(i), cy: y(mean[i][h]), r: chosen ? 3 : 2, fill: chosen ? "#0b6e6e" : "#b9b5a8" });
      tip(dot, `head ${h}, ${steps[i]} after ${state.event}: ${number(mean[i][h])} ± ${number(deviation[i][h])} (${found.count} times)`);
      svg.append(dot);
    }
  }
  holder.append(svg);
  $("around-count").textContent = `${found.count} occurrences; the band is one standard deviation of head ${state.head}, other heads are grey.`;
}

function drawReadable() {
  const holder = $("readable");
  holder.replaceChildren();
  cursors.readable = [];
  const found = data.readable[layer().index];
  $("readable-section").hidden = !found || !found.items.length;
  if (!found || !found.items.length) return;
  const tokens = data.words.length, rows = found.items.length;
  const cell = Math.max(4, Math.min(28, 900 / tokens)), height = 15, left = 96;
  const svg = make("svg", { width: left + tokens * cell + 6, height: rows * height + 26, role: "img",
    "aria-label": "How well each item can be read, by token", style: `width:${left + tokens * cell + 6}px` });
  found.items.forEach((item, r) => {
    svg.append(make("text", { x: left - 6, y: r * height + 11, "text-anchor": "end" }, item.label));
    for (let t = item.place; t < tokens; t++) {
      const value = found.values[r][t][state.head];
      if (value === null) continue;
      const rect = make("rect", { x: left + t * cell, y: r * height, width: cell + 0.3, height: height - 1, fill: shade(value).fill });
      tip(rect, `${item.label} after ${place(t)}: ${number(value)}`);
      rect.addEventListener("click", () => choose({ token: t }));
      svg.append(rect);
    }
  });
  data.events.forEach((event, t) => {
    if (event.kind in colourOf) svg.append(make("rect", { x: left + t * cell, y: rows * height + 2, width: cell, height: 6, fill: colourOf[event.kind] }));
  });
  const cursor = make("rect", { y: 0, width: cell, height: rows * height, fill: "none", stroke: "#1d2429", "pointer-events": "none" });
  svg.append(cursor);
  cursors.readable.push(() => cursor.setAttribute("x", left + state.token * cell));
  svg.append(make("text", { x: left, y: rows * height + 22 }, "token 0"));
  svg.append(make("text", { x: left + tokens * cell, y: rows * height + 22, "text-anchor": "end" }, `token ${tokens - 1}`));
  holder.append(svg);
}

function drawControls() {
  $("layer").value = state.layer;
  const names = Object.keys(layer().quantities);
  if ($("quantity").dataset.of !== names.join()) {
    $("quantity").replaceChildren(...names.map((name) => make("option", { value: name }, `${name}: ${layer().quantities[name].meaning}`)));
    $("quantity").dataset.of = names.join();
  }
  $("quantity").value = state.quantity;
  $("head").replaceChildren(...Array.from({ length: layer().heads }, (_, h) => {
    const button = make("button", { type: "button", "aria-pressed": h === state.head, "data-head": h }, String(h));
    button.addEventListener("click", () => choose({ head: h }));
    return button;
  }));
}

function moveCursor() {
  // Of a long text, only what the chosen token changes is drawn again.
  const box = $("text"), before = box.querySelector(".chosen"), now = box.children[state.token];
  for (const [span, chosen] of [[before, false], [now, true]]) {
    if (!span) continue;
    span.classList.toggle("chosen", chosen);
    span.setAttribute("aria-selected", chosen);
  }
  box.setAttribute("aria-activedescendant", `t${state.token}`);
  drawToken();
  drawPhase();
  for (const move of [...cursors.heads, ...cursors.readable]) move();
}

function choose(changes) {
  if (Object.keys(changes).join() === "token") {
    state.token = changes.token;
    moveCursor();
    return;
  }
  const focused = document.activeElement && document.activeElement.closest("#head button, #heads button");
  const again = focused && { id: focused.parentElement.id, layer: focused.dataset.layer, head: focused.dataset.head };
  Object.assign(state, changes);
  state.head = Math.min(state.head, layer().heads - 1);
  if (!(state.quantity in layer().quantities)) state.quantity = Object.keys(layer().quantities)[0];
  drawControls();
  drawText();
  drawHeads();
  drawAround();
  drawReadable();
  moveCursor();
  if (again) {
    const same = [...$(again.id).children].find((b) => b.dataset.head === again.head && b.dataset.layer === again.layer);
    if (same) same.focus();
  }
}

function begin() {
  if (!data.layers.length) return;
  $("layer").replaceChildren(...data.layers.map((at, l) => make("option", { value: l }, `${at.index}: ${at.kind}`)));
  $("layer").addEventListener("change", (e) => choose({ layer: Number(e.target.value) }));
  $("quantity").addEventListener("change", (e) => choose({ quantity: e.target.value }));
  $("event").replaceChildren(...data.around_events.map((name) => make("option", { value: name }, name)));
  $("event").addEventListener("change", (e) => choose({ event: e.target.value }));
  $("legend").replaceChildren(...kinds.map((kind) => {
    const entry = make("span");
    entry.append(make("b", { style: `background:${colourOf[kind]}` }), kind);
    return entry;
  }));
  $("text").classList.toggle("spaced", data.spaced);
  $("text").addEventListener("keydown", (e) => {
    const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -10, ArrowDown: 10, Home: -Infinity, End: Infinity };
    if (!(e.key in steps)) return;
    e.preventDefault();
    const token = Math.max(0, Math.min(data.words.length - 1, state.token + steps[e.key]));
    choose({ token });
    $(`t${token}`).scrollIntoView({ block: "nearest" });
  });
  document.addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey || e.target.closest("select")) return;
    const names = Object.keys(layer().quantities);
    const turns = {
      h: () => ({ head: (state.head + 1) % layer().heads }),
      l: () => ({ layer: (state.layer + 1) % data.layers.length }),
      q: () => ({ quantity: names[(names.indexOf(state.quantity) + 1) % names.length] }),
    };
    if (e.key in turns) choose(turns[e.key]());
  });
  state.event = data.around_events[0] || null;
  choose({ quantity: "rho" in layer().quantities ? "rho" : Object.keys(layer().quantities)[0], token: 0 });
}

begin();
