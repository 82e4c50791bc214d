// Every head as a small multiple.
function drawHeads() {
  const box = $("heads");
  box.replaceChildren();
  cursors.heads = [];
  data.layers.forEach((at, l) => {
    if (!(state.quantity in at.quantities)) return;
    const [low, high] = bounds(state.quantity, at);
    for (let h = 0; h < at.heads; h++) {
      const button = make("button", { type: "button", "aria-pressed": l === state.layer && h === state.head, "data-layer": l, "data-head": h });
      const svg = make("svg", { viewBox: "0 0 240 56", "aria-hidden": "true" });
      const values = series(state.quantity, at, h);
      const x = (i) => 3 + (i / Math.max(1, values.length - 1)) * 234, y = (v) => 53 - ((v - low) / (high - low)) * 50;
      data.events.forEach((event, i) => {
        if (event.kind in colourOf) svg.append(make("rect", { x: x(i) - 0.6, y: 53, width: 1.6, height: 3, fill: colourOf[event.kind] }));
      });
      const points = values.map((v, i) => (known(v) ? `${x(i).toFixed(1)},${y(v).toFixed(1)}` : "")).join(" ");
      svg.append(make("polyline", { points, fill: "none", stroke: ACCENT, "stroke-width": 1.2 }));
      const cursor = make("line", { y1: 0, y2: 56, stroke: INK, "stroke-width": 0.7 }), name = make("div");
      svg.append(cursor);
      button.append(name, svg);
      cursors.heads.push(() => {
        cursor.setAttribute("x1", x(state.token));
        cursor.setAttribute("x2", x(state.token));
        name.textContent = `layer ${at.index}, head ${h} · ${number(values[state.token])}`;
      });
      button.addEventListener("click", () => choose({ layer: l, head: h }));
      box.append(button);
    }
  });
  $("heads-scale").textContent = data.shares.includes(state.quantity) && !state.fit ? "Each from 0 to 1."
    : "Each from the least to the greatest of its layer.";
}
