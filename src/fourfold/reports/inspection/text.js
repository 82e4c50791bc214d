// The text, each token with its colour, and all numbers of the chosen one.
function writeText() {
  const box = $("text");
  data.words.forEach((word, i) => {
    const span = make("span", { role: "option", id: `t${i}`, "data-token": i }, word.replace(/\n/g, "↵\n"));
    if (parts[i].of > 1) span.className = i > parts[i].from ? "part" : "letter";
    if (word === "") span.setAttribute("aria-label", named(i));
    box.append(span);
  });
  const at = (e) => (e.target.dataset.token === undefined ? null : Number(e.target.dataset.token));
  box.addEventListener("click", (e) => { if (at(e) !== null) choose({ token: at(e) }); });
  tip(box, (e) => (at(e) === null ? "" : `${place(at(e))} · ${state.quantity} ${number(series(state.quantity)[at(e)])}`));
}

function drawText() {
  const limits = bounds(state.quantity), values = series(state.quantity);
  const colour = (value) => shade(known(value) ? (value - limits[0]) / (limits[1] - limits[0]) : null);
  [...$("text").children].forEach((span, i) => {
    const colours = colour(values[i]);
    span.style.background = colours.fill;
    span.style.color = colours.text;
    span.style.borderBottomColor = colourOf[data.events[i].kind] || "transparent";
  });
  [$("low").textContent, $("high").textContent] = ends(limits);
  $("scale-is").textContent = data.shares.includes(state.quantity) && !state.fit
    ? "the same scale in every layer" : `least and greatest of layer ${layer().index}`;
  $("meaning").textContent = layer().quantities[state.quantity].meaning;
  ramp($("ramp"), shade, [0, 1]);
}

function drawToken() {
  const heads = Array.from({ length: layer().heads }, (_, h) => h);
  fill($("token"), [
    [place(state.token), ...heads.map((h) => `head ${h}`)],
    ...Object.values(layer().quantities).map((quantity) => [
      quantity.meaning, ...heads.map((h) => number(quantity.values[state.token][h]))]),
  ]);
  [...$("token").rows].forEach((row) => row.cells[state.head + 1].classList.add("here"));
}
