// Colours: of events, of a quantity, and of what can be read.
const EVENT_COLOURS = ["#c4622d", "#5b5bb0", "#9b2257", "#1d6fd0", "#8a6d00", "#a040e0", "#4a7a1e", "#0b6e6e", "#3c3c3c"];
const kinds = [...new Set([...(data.events || []).map((event) => event.kind), ...(data.around_events || [])])].filter((kind) => kind);
const colourOf = Object.fromEntries(kinds.map((kind, i) => [kind, EVENT_COLOURS[i % EVENT_COLOURS.length]]));

const PAPER = [250, 247, 238];
const TEAL = [PAPER, [178, 214, 200], [88, 164, 158], [11, 110, 110], [4, 56, 66]];
const BROWN = [PAPER, [236, 205, 158], [208, 145, 76], [150, 88, 24], [88, 50, 6]];
const UNKNOWN = { fill: "rgb(214,210,200)", text: "black" };

function luminance(colour) {
  const [r, g, b] = colour.map((v) => v / 255).map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function mix(stops, share) {
  const x = within(share, 0, 1) * (stops.length - 1), low = Math.min(Math.floor(x), stops.length - 2);
  const mixed = stops[low].map((from, i) => Math.round(from + (stops[low + 1][i] - from) * (x - low)));
  // Black or white, whichever contrasts more: 4.5 to 1 or better on every colour. Of a softer black
  // and white, neither would reach that in the middle of the scale.
  const light = luminance(mixed) + 0.05;
  return { fill: `rgb(${mixed.join(",")})`, text: 1.05 / light > light / 0.05 ? "white" : "black" };
}

// From paper to a deep teal.
const shade = (share) => (known(share) ? mix(TEAL, share) : UNKNOWN);

// From brown, below zero, over paper to teal; as far from zero, as dark on both sides.
const signed = (value, [low, high]) => (!known(value) ? UNKNOWN
  : mix(value < 0 ? BROWN : TEAL, Math.abs(value) / (high > 0 ? high : -low || 1)));

function ramp(element, colour, [low, high]) {
  const steps = Array.from({ length: 17 }, (_, i) => colour(low + ((high - low) * i) / 16).fill);
  element.style.background = `linear-gradient(to right, ${steps.join(",")})`;
}
