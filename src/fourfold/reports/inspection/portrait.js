// The phase portrait: every token's λ and ρ, and ways through them.
const CORNERS = [[1, 1, "address-bound, directed", "↗"], [0, 1, "directed", "↖"], [1, 0, "stable revision", "↘"], [0, 0, "GDN-like", "↙"]];
const AROUND = 4;
const THROUGH = [-1, 3];

function route(points, colour, width) {
  // A line with arrowheads: one at its end, others in the middle of steps that are long enough.
  const drawn = make("g", { fill: colour });
  drawn.append(make("polyline", { points: points.map((p) => p.map((v) => v.toFixed(1)).join()).join(" "), fill: "none",
    stroke: colour, "stroke-width": width, "stroke-linejoin": "round" }));
  const size = 3 + 1.6 * width;
  for (let i = 1; i < points.length; i++) {
    const [[x0, y0], [x1, y1]] = [points[i - 1], points[i]];
    const length = Math.hypot(x1 - x0, y1 - y0), last = i === points.length - 1;
    if (!length || (!last && length < 2.2 * size)) continue;
    const [ux, uy] = [(x1 - x0) / length, (y1 - y0) / length];
    const [tx, ty] = last ? [x1, y1] : [(x0 + x1) / 2 + ux * size / 2, (y0 + y1) / 2 + uy * size / 2];
    const [bx, by] = [tx - ux * size, ty - uy * size];
    const corners = [[tx, ty], [bx - uy * size / 2, by + ux * size / 2], [bx + uy * size / 2, by - ux * size / 2]];
    drawn.append(make("polygon", { class: "arrow", points: corners.map((p) => p.map((v) => v.toFixed(1)).join()).join(" ") }));
  }
  return drawn;
}

function meanRoute() {
  // Mean (λ, ρ) of this head before, at and after the chosen event.
  const found = (data.around[layer().index] || {})[state.event];
  if (!found) return [];
  const { lambda, rho } = found.quantities;
  return found.steps.map((step, i) => ({ step, l: lambda.mean[i][state.head], r: rho.mean[i][state.head] }))
    .filter(({ step, l, r }) => step >= THROUGH[0] && step <= THROUGH[1] && known(l) && known(r));
}

function window_(lam, rho, mean) {
  // What is seen of the unit square: all of it, or a square around the dots.
  if (!state.fit) return { left: 0, bottom: 0, side: 1 };
  const [l0, l1] = range([...lam, ...mean.map((p) => p.l)]), [r0, r1] = range([...rho, ...mean.map((p) => p.r)]);
  const side = within(1.25 * Math.max(l1 - l0, r1 - r0), 0.01, 1);
  return { left: within((l0 + l1 - side) / 2, 0, 1 - side), bottom: within((r0 + r1 - side) / 2, 0, 1 - side), side };
}

function drawPhase() {
  const holder = $("phase");
  holder.replaceChildren();
  const has = "rho" in layer().quantities && "lambda" in layer().quantities;
  $("phase-section").hidden = !has;
  if (!has) return;
  const lam = series("lambda"), rho = series("rho"), mean = meanRoute();
  const { left, bottom, side } = window_(lam, rho, mean);
  const svg = make("svg", { viewBox: "0 0 420 392", role: "img", "aria-label": "Each token's λ and ρ" });
  const box = { left: 48, top: 8, width: 356, height: 356 };
  axes(svg, box, "λ", "ρ", [left, left + side], [bottom, bottom + side]);
  const x = (v) => box.left + ((v - left) / side) * box.width, y = (v) => box.top + (1 - (v - bottom) / side) * box.height;
  const ends = { x1: box.left, x2: box.left + box.width, y1: box.top, y2: box.top + box.height, stroke: "#d8d4c8" };
  if (Math.abs(0.5 - left - side / 2) < side / 2) svg.append(make("line", { ...ends, x1: x(0.5), x2: x(0.5) }));
  if (Math.abs(0.5 - bottom - side / 2) < side / 2) svg.append(make("line", { ...ends, y1: y(0.5), y2: y(0.5) }));
  for (const [l, r, name, arrow] of CORNERS) {
    const text = side === 1 ? name : l ? `${name} ${arrow}` : `${arrow} ${name}`;
    svg.append(make("text", { x: box.left + (l ? box.width - 6 : 6), y: box.top + (r ? 15 : box.height - 7),
      "text-anchor": l ? "end" : "start", class: "corner" }, text));
  }
  const dots = lam.map((value, i) => [x(value), y(rho[i])]);
  dots.forEach(([cx, cy], i) => svg.append(make("circle", { cx, cy, r: 3.4, fill: colourOf[data.events[i].kind] || "#8a8578",
    "fill-opacity": 0.6, "data-token": i })));
  if (mean.length) {
    const colour = colourOf[state.event];
    const through = route(mean.map(({ l, r }) => [x(l), y(r)]), colour, 1.8);
    through.id = "event-route";
    const at = mean.find(({ step }) => step === 0);
    if (at) through.append(make("rect", { x: x(at.l) - 5, y: y(at.r) - 5, width: 10, height: 10, fill: "white", stroke: colour,
      "stroke-width": 2.2, transform: `rotate(45 ${x(at.l)} ${y(at.r)})` }));
    svg.append(through);
  }
  const from = Math.max(0, state.token - AROUND), to = Math.min(data.words.length, state.token + AROUND + 1);
  const way = route(dots.slice(from, to), INK, 1.3);
  way.id = "token-route";
  svg.append(way, make("circle", { cx: dots[state.token][0], cy: dots[state.token][1], r: 6.5, fill: "none", stroke: INK, "stroke-width": 2 }));
  const nearest = (e) => {
    const [px, py] = inside(svg, e);
    let best = -1, least = 14;
    dots.forEach(([cx, cy], i) => { const d = Math.hypot(cx - px, cy - py); if (d < least) { best = i; least = d; } });
    return best;
  };
  tip(svg, (e) => { const i = nearest(e); return i < 0 ? "" : `${place(i)} · λ ${number(lam[i])}, ρ ${number(rho[i])}`; });
  svg.addEventListener("click", (e) => { const i = nearest(e); if (i >= 0) choose({ token: i }); });
  holder.append(svg);
  $("phase-of").textContent = `layer ${layer().index}, head ${state.head}`;
  $("phase-event").textContent = mean.length
    ? `The line in colour is the mean way through “${state.event}”, from one token before its beginning, the diamond, to ${mean[mean.length - 1].step} after.` : "";
}
