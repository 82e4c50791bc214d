// A quantity's mean trajectory around an event, and the numbers of one step of it.
const aroundNow = () => {
  const found = (data.around[layer().index] || {})[state.event];
  return found && state.quantity in found.quantities ? found : null;
};
const stepName = (step) => (step === 0 ? `at ${state.event}` : `${Math.abs(step)} token${Math.abs(step) > 1 ? "s" : ""} ${step < 0 ? "before" : "after"} ${state.event}`);

function drawAround() {
  const holder = $("around"), found = aroundNow();
  holder.replaceChildren();
  $("around-section").hidden = !data.around_events.length;
  if (!found) return;
  const { mean, deviation } = found.quantities[state.quantity], steps = found.steps;
  const edges = mean.flatMap((row, i) => row.flatMap((m, h) => (known(m) ? [m - deviation[i][h], m + deviation[i][h]] : [])));
  const limits = data.shares.includes(state.quantity) && !state.fit ? [0, 1] : range(edges);
  const svg = make("svg", { viewBox: "0 0 420 258", role: "img", "aria-label": `${state.quantity} around ${state.event}` });
  const box = { left: 46, top: 8, width: 356, height: 216 };
  axes(svg, box, `tokens after ${state.event}`, "", [steps[0], steps[steps.length - 1]], limits);
  const wide = box.width / (steps.length - 1);
  const x = (i) => box.left + i * wide;
  const y = (v) => box.top + (1 - (within(v, limits[0], limits[1]) - limits[0]) / (limits[1] - limits[0])) * box.height;
  const zero = steps.indexOf(0);
  const cursor = make("rect", { y: box.top, width: wide, height: box.height, fill: "#e0a030", "fill-opacity": 0.22 });
  cursors.step = () => cursor.setAttribute("x", x(state.step) - wide / 2);
  svg.append(cursor, make("line", { x1: x(zero), x2: x(zero), y1: box.top, y2: box.top + box.height, stroke: INK, "stroke-dasharray": "2 3" }));
  const heads = Array.from({ length: layer().heads }, (_, h) => h).filter((h) => h !== state.head);
  for (const h of [...heads, state.head]) {
    const chosen = h === state.head, colour = chosen ? ACCENT : GREY;
    const there = steps.map((_, i) => i).filter((i) => known(mean[i][h]));
    const edge = (i, sign) => `${x(i)},${y(mean[i][h] + sign * deviation[i][h])}`;
    if (chosen) {
      const points = [...there.map((i) => edge(i, 1)), ...there.map((i) => edge(i, -1)).reverse()];
      svg.append(make("polygon", { points: points.join(" "), fill: ACCENT, "fill-opacity": 0.15 }));
    }
    svg.append(make("polyline", { points: there.map((i) => `${x(i)},${y(mean[i][h])}`).join(" "), fill: "none", stroke: colour,
      "stroke-width": chosen ? 2.2 : 1.2 }));
    for (const i of there) svg.append(make("circle", { cx: x(i), cy: y(mean[i][h]), r: chosen ? 3 : 2, fill: colour }));
  }
  // What takes the pointer is as wide as a finger, and as high as the plot.
  steps.forEach((step, i) => {
    const hit = make("rect", { class: "hit", "data-step": step, x: x(i) - wide / 2, y: box.top, width: wide, height: box.height, fill: "transparent" });
    hit.addEventListener("click", () => choose({ step: i }));
    tip(hit, () => `${stepName(step)}: head ${state.head} ${number(mean[i][state.head])} ± ${number(deviation[i][state.head])}`);
    svg.append(hit);
  });
  holder.append(svg);
  $("around-name").textContent = state.event;
  $("around-count").textContent = (found.count > 1 ? `Mean over ${found.count} occurrences; the band is one standard deviation of head ${state.head}, other heads are grey.`
    : `It happened once; head ${state.head} is in colour.`);
  drawStep();
}

function drawStep() {
  const found = aroundNow();
  if (!found) return;
  const { mean, deviation } = found.quantities[state.quantity], step = found.steps[state.step];
  cursors.step();
  fill($("step"), [
    [stepName(step), "mean", "± deviation"],
    ...mean[state.step].map((m, h) => [`head ${h}`, number(m), number(found.count > 1 ? deviation[state.step][h] : null)]),
  ]);
  [...$("step").rows[state.head + 1].cells].forEach((cell) => cell.classList.add("here"));
}
