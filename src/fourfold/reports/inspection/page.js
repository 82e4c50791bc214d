// What is chosen, by pointer and by keyboard, and what is drawn again when it changes.
function drawControls() {
  $("layer").value = state.layer;
  const names = Object.keys(layer().quantities);
  if ($("quantity").dataset.of !== names.join()) {
    $("quantity").replaceChildren(...names.map((name) => make("option", { value: name }, `${name}: ${layer().quantities[name].meaning}`)));
    $("quantity").dataset.of = names.join();
  }
  $("quantity").value = state.quantity;
  $("event").value = state.event;
  $("fit").setAttribute("aria-pressed", state.fit);
  $("head").replaceChildren(...Array.from({ length: layer().heads }, (_, h) => {
    const button = make("button", { type: "button", "aria-pressed": h === state.head, "data-head": h }, String(h));
    button.addEventListener("click", () => choose({ head: h }));
    return button;
  }));
}

function moveCursor(follow) {
  // Of a long text, only what the chosen token changes is drawn again.
  const box = $("text"), before = box.querySelector(".chosen"), now = box.children[state.token];
  for (const [span, chosen] of [[before, false], [now, true]]) {
    if (!span) continue;
    span.classList.toggle("chosen", chosen);
    span.setAttribute("aria-selected", chosen);
  }
  box.setAttribute("aria-activedescendant", `t${state.token}`);
  $("at").value = data.first + state.token;
  drawToken();
  drawPhase();
  drawReading();
  for (const move of [...cursors.heads, ...cursors.readable]) move(follow);
}

function choose(changes) {
  const changed = Object.keys(changes);
  if (changed.every((name) => name === "token" || name === "item")) {
    Object.assign(state, changes);
    moveCursor(true);
    return;
  }
  if (changed.join() === "step") {
    state.step = changes.step;
    drawStep();
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
  moveCursor(false);
  if (again) {
    const same = [...$(again.id).children].find((b) => b.dataset.head === again.head && b.dataset.layer === again.layer);
    if (same) same.focus();
  }
}

function onKeys(element, turns) {
  element.addEventListener("keydown", (e) => {
    if (!(e.key in turns) || e.ctrlKey || e.metaKey || e.altKey) return;
    e.preventDefault();
    turns[e.key]();
  });
}

function step(by) {
  const token = within(state.token + by, 0, data.words.length - 1), box = $("text"), span = $(`t${token}`);
  choose({ token });
  // The text scrolls in its own box; the page stays where it is.
  const [outer, inner] = [box.getBoundingClientRect(), span.getBoundingClientRect()];
  if (inner.top < outer.top) box.scrollTop -= outer.top - inner.top + 8;
  if (inner.bottom > outer.bottom) box.scrollTop += inner.bottom - outer.bottom + 8;
}

const next = (list, now) => list[(list.indexOf(now) + 1) % list.length];

function begin() {
  if (!data.layers.length) return;
  $("layer").replaceChildren(...data.layers.map((at, l) => make("option", { value: l }, `${at.index}: ${at.kind}`)));
  $("layer").addEventListener("change", (e) => choose({ layer: Number(e.target.value) }));
  $("quantity").addEventListener("change", (e) => choose({ quantity: e.target.value }));
  $("event").replaceChildren(...data.around_events.map((name) => make("option", { value: name }, name)));
  $("event").addEventListener("change", (e) => choose({ event: e.target.value }));
  $("event-control").hidden = !data.around_events.length;
  $("fit").addEventListener("click", () => choose({ fit: !state.fit }));
  $("back").addEventListener("click", () => step(-1));
  $("on").addEventListener("click", () => step(1));
  Object.assign($("at"), { min: data.first, max: data.first + data.words.length - 1 });
  $("at").addEventListener("change", (e) => step((Number(e.target.value) || data.first) - data.first - state.token));
  const here = new Set(data.events.map((event) => event.kind));
  $("legend").replaceChildren(...kinds.filter((kind) => here.has(kind)).map((kind) => {
    const entry = make("span");
    entry.append(make("b", { style: `background:${colourOf[kind]}` }), kind);
    return entry;
  }));
  $("text").classList.toggle("spaced", data.spaced);
  writeText();
  const along = { ArrowLeft: () => step(-1), ArrowRight: () => step(1), Home: () => step(-Infinity), End: () => step(Infinity) };
  onKeys($("text"), { ...along, ArrowUp: () => step(-10), ArrowDown: () => step(10) });
  const row = (by) => choose({ token: state.token, item: within(state.item + by, 0, itemsNow().items.length - 1) });
  onKeys($("readable"), { ...along, ArrowUp: () => row(-1), ArrowDown: () => row(1) });
  const beside = (by) => { if (aroundNow()) choose({ step: within(state.step + by, 0, aroundNow().steps.length - 1) }); };
  onKeys($("around"), { ArrowLeft: () => beside(-1), ArrowRight: () => beside(1), Home: () => beside(-Infinity), End: () => beside(Infinity) });
  $("all-readings").addEventListener("toggle", drawReading);
  document.addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey || e.target.closest("select, input")) return;
    const turns = {
      h: () => ({ head: (state.head + 1) % layer().heads }),
      l: () => ({ layer: (state.layer + 1) % data.layers.length }),
      q: () => ({ quantity: next(Object.keys(layer().quantities), state.quantity) }),
      e: () => ({ event: next(data.around_events, state.event) ?? null }),
      f: () => ({ fit: !state.fit }),
    };
    if (e.key in turns) choose(turns[e.key]());
  });
  let width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth === width) return;
    width = innerWidth;
    drawReadable();
    moveCursor(false);
  });
  const right = itemsNow().items.findIndex((item) => item.role === "right");
  const first = Object.values(data.around)[0][data.around_events[0]];
  choose({ quantity: "rho" in layer().quantities ? "rho" : Object.keys(layer().quantities)[0],
    token: data.words.length - 1, item: Math.max(0, right),
    event: data.around_events[0] || null, step: first ? first.steps.indexOf(0) : 0 });
  step(0);
}

begin();
