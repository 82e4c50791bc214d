// What can be read, and when: items by tokens.
const itemsNow = () => data.readable[layer().index];
const itemName = (item) => (item.question === null ? visible(item.label) : `asked ${item.label}`) + (item.role === "right" ? " ✓" : "");
const short = (text) => (text.length > 14 ? text.slice(0, 13) + "…" : text);
const ROLES = { right: "the right answer", same: "another value of the same item", other: "the best of all others that were stored" };

function scores(r) {
  return itemsNow().values[r].map((row) => row[state.head]);
}

function limitsOfScores() {
  if (!state.fit) return [-1, 1];
  // What lies further below zero than anything above it would leave nothing of the rest.
  const [low, high] = range(itemsNow().values.flat(2));
  return high > 0 ? [within(low, -high, 0), high] : [low, 0];
}

function drawReadable() {
  const holder = $("readable"), found = itemsNow(), scrolled = holder.scrollLeft;
  holder.replaceChildren();
  cursors.readable = [];
  $("readable-section").hidden = !found || !found.items.length;
  if (!found || !found.items.length) return;
  state.item = Math.min(state.item, found.items.length - 1);
  const tokens = data.words.length, limits = limitsOfScores();
  const asked = found.items.filter((item) => item.question !== null).length, stored = found.items.length - asked;
  const left = 184, height = found.items.length > 24 ? 16 : 20, gap = 22;
  const cell = within((holder.clientWidth - left - 12) / tokens, 5, 30);
  const groups = [[asked, "by the question"], [stored, "by its own address"]].filter(([count]) => count);
  const top = (r) => r * height + gap * (groups.length > 1 && r >= asked ? 2 : 1);
  const bottom = top(found.items.length - 1) + height, width = Math.ceil(tokens * cell) + 8;
  const names = make("svg", { class: "names", width: left, height: bottom + 30, style: `width:${left}px` });
  const svg = make("svg", { id: "cells", viewBox: `0 0 ${width} ${bottom + 30}`, role: "img",
    "aria-label": "How well each item can be read, by token", style: `width:${width}px;height:${bottom + 30}px` });
  names.append(make("text", { x: left - 8, y: gap - 7, "text-anchor": "end", class: "group" }, "now"));
  groups.forEach(([, name], g) => names.append(make("text", { x: 0, y: top(g ? asked : 0) - 7, class: "group" }, name)));
  found.items.forEach((item, r) => {
    const at = { y: top(r) + height / 2 + 4, "text-anchor": "end", "data-row": r };
    names.append(make("text", { x: left - 84, ...at }, short(visible(item.label)) + (item.role === "right" ? " ✓" : "")));
    if (item.role !== "other") names.append(make("text", { x: left - 50, ...at, class: "where" }, data.first + item.places[0]));
    names.append(make("text", { x: left - 8, ...at, class: "value" }));
    svg.append(make("rect", { class: "unwritten", x: 0, y: top(r), width: tokens * cell, height: height - 1, fill: "#ece9e1" }));
    scores(r).forEach((value, t) => {
      if (known(value)) svg.append(make("rect", { class: "cell", x: t * cell, y: top(r), width: cell + 0.3, height: height - 1, fill: signed(value, limits).fill }));
    });
    for (const p of item.role === "other" ? [] : item.places) {
      // Where it was stored: a small notch below the cell.
      svg.append(make("rect", { class: "stored", x: p * cell, y: top(r) + height - 4, width: cell, height: 3, fill: colourOf[item.kind] || INK }));
    }
  });
  data.events.forEach((event, t) => {
    if (event.kind in colourOf) svg.append(make("rect", { x: t * cell, y: bottom + 3, width: cell, height: 6, fill: colourOf[event.kind] }));
  });
  svg.append(make("text", { x: 0, y: bottom + 24 }, `token ${data.first}`));
  if (tokens > 1) svg.append(make("text", { x: tokens * cell, y: bottom + 24, "text-anchor": "end" }, `${data.first + tokens - 1}`));
  const column = make("rect", { y: gap - 2, width: cell, height: bottom - gap + 3, class: "cursor" });
  const row = make("rect", { x: 0, width: tokens * cell, height: height, class: "cursor faint" });
  svg.append(row, column);
  cursors.readable.push((follow) => {
    const x = state.token * cell;
    column.setAttribute("x", x);
    row.setAttribute("y", top(state.item) - 0.5);
    [...names.querySelectorAll(".value")].forEach((value, r) => { value.textContent = number(found.values[r][state.token][state.head]); });
    [...names.querySelectorAll("[data-row]")].forEach((name) => name.classList.toggle("here", Number(name.dataset.row) === state.item));
    if (follow && (x < holder.scrollLeft || x + cell > holder.scrollLeft + holder.clientWidth - left)) {
      holder.scrollLeft = x - (holder.clientWidth - left) / 2;
    }
  });
  const at = (e) => {
    const [px, py] = inside(svg, e), token = Math.floor(px / cell);
    const item = found.items.findIndex((_, r) => py >= top(r) && py < top(r) + height);
    return token >= 0 && token < tokens && item >= 0 ? { token, item } : null;
  };
  svg.addEventListener("click", (e) => { if (at(e)) choose(at(e)); });
  names.addEventListener("click", (e) => { if (e.target.dataset.row) choose({ token: state.token, item: Number(e.target.dataset.row) }); });
  tip(svg, (e) => { const here = at(e); return here ? said(here.item, here.token) : ""; });
  holder.append(names, svg);
  holder.scrollLeft = scrolled;
  const below = found.values.flat(2).some((value) => known(value) && value < limits[0]);
  $("readable-low").textContent = ends(limits)[0] + (below || !state.fit ? " or less" : "");
  $("readable-high").textContent = ends(limits)[1];
  const share = (0 - limits[0]) / (limits[1] - limits[0]);
  $("readable-zero").style.left = `${100 * share}%`;
  ramp($("readable-ramp"), (v) => signed(v, limits), limits);
  $("readable-asked").hidden = !asked;
  $("readable-left").textContent = found.left_out ? `${found.left_out} items that were stored earlier are not shown.` : "";
  $("readable-which").textContent = found.items[found.items.length - 1].kind ? ""
    : "Nothing here says what is stored: the rows are the tokens that changed this layer's state most.";
}

function said(r, t) {
  const item = itemsNow().items[r], value = itemsNow().values[r][t][state.head];
  return `${itemName(item)} after ${place(t)}: ${known(value) ? number(value) : "not stored yet"}`;
}

function about(item) {
  const at = item.places.map((p) => data.first + p);
  if (item.role === "other") return `asked at token ${data.first + item.question}: ${ROLES.other}, by the cosine`;
  const stored = `stored at token ${at[0]}${at.length > 1 ? " to " + at[at.length - 1] : ""}`;
  return item.question === null ? stored : `${stored}, asked at token ${data.first + item.question}: ${ROLES[item.role]}, by the cosine`;
}

function drawReading() {
  const found = itemsNow();
  if (!found || !found.items.length) return;
  $("reading").textContent = said(state.item, state.token);
  $("reading-about").textContent = about(found.items[state.item]);
  if ($("all-readings").open) drawReadings();
}

function drawReadings() {
  const found = itemsNow();
  fill($("readings"), [
    [`after token ${data.first + state.token}`, "stored at", "when stored", "now"],
    ...found.items.map((item, r) => {
      const values = scores(r), at = item.places[item.places.length - 1], other = item.role === "other";
      return [itemName(item), other ? "–" : data.first + at, other ? "–" : number(values[at]), number(values[state.token])];
    }),
  ]);
  [...$("readings").rows[state.item + 1].cells].forEach((cell) => cell.classList.add("here"));
}
