// Elements and charts. Whatever comes from elsewhere becomes text, never markup.

export function make(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

export function draw(tag, attributes = {}, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child != null));
  return element;
}

export function number(value, digits = 4) {
  if (value == null || Number.isNaN(value)) return "–";
  if (Number.isInteger(value)) return value.toLocaleString("en");
  return Number(value.toPrecision(digits)).toLocaleString("en", { maximumSignificantDigits: digits });
}

export function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let place = 0;
  while (value >= 1024 && place < units.length - 1) { value /= 1024; place += 1; }
  return `${number(value, 3)} ${units[place]}`;
}

function ticks(low, high, count) {
  const rough = (high - low) / count || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough);
  const found = [];
  for (let at = Math.ceil(low / step) * step; at <= high + step * 1e-9; at += step) found.push(Math.abs(at) < step * 1e-9 ? 0 : at);
  return found;
}

const short = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });
const LEFT = 62, RIGHT = 14, TOP = 12, BOTTOM = 42;

// Lines over x: [{name, color, x, y, low, high}]. zoom is {from, to} or null; onzoom(zoom) is told when it changes.
export function lines(place, series, { xLabel = "", yLabel = "", zoom = null, onzoom = null, height = 320, width: WIDTH = 900, legend = true, label = "" } = {}) {
  const shown = series.map((one) => {
    const keep = one.x.map((x, i) => x != null && one.y[i] != null && (!zoom || (x >= zoom.from && x <= zoom.to)));
    const of = (values) => values && values.filter((_, i) => keep[i]);
    return { ...one, x: of(one.x), y: of(one.y), low: of(one.low), high: of(one.high) };
  }).filter((one) => one.x.length);
  if (!shown.length) {
    place.replaceChildren(make("p", { class: "note" }, zoom ? "Nothing lies between these; show the whole curve." : "Nothing to draw yet."));
    return;
  }
  const xs = shown.flatMap((one) => one.x), ys = shown.flatMap((one) => [...one.y, ...(one.low || []), ...(one.high || [])]).filter((y) => y != null);
  let [x0, x1] = zoom ? [zoom.from, zoom.to] : [Math.min(...extent(xs)), Math.max(...extent(xs))];
  let [y0, y1] = extent(ys);
  if (x0 === x1) { x0 -= 0.5; x1 += 0.5; }
  if (y0 === y1) { y0 -= 0.5; y1 += 0.5; }
  const pad = (y1 - y0) * 0.05;
  y0 -= pad; y1 += pad;
  const atX = (x) => LEFT + ((x - x0) / (x1 - x0)) * (WIDTH - LEFT - RIGHT);
  const atY = (y) => height - BOTTOM - ((y - y0) / (y1 - y0)) * (height - TOP - BOTTOM);
  const last = shown.map((one) => `${one.name}: ${number(one.y[one.y.length - 1])}`).join(", ");
  const picture = draw("svg", { viewBox: `0 0 ${WIDTH} ${height}`, role: "img", tabindex: onzoom ? 0 : null, "aria-label": `${label || yLabel} along ${xLabel}; newest ${last}` });
  for (const y of ticks(y0, y1, 5)) picture.append(
    draw("line", { class: "axis", x1: LEFT, x2: WIDTH - RIGHT, y1: atY(y), y2: atY(y) }),
    draw("text", { x: LEFT - 6, y: atY(y) + 4, "text-anchor": "end" }, short.format(y)));
  for (const x of ticks(x0, x1, WIDTH > 600 ? 7 : 4)) picture.append(draw("text", { x: atX(x), y: height - BOTTOM + 18, "text-anchor": "middle" }, short.format(x)));
  picture.append(draw("text", { x: (LEFT + WIDTH) / 2, y: height - 6, "text-anchor": "middle" }, xLabel));
  for (const one of shown) {
    const path = (values) => one.x.map((x, i) => `${i ? "L" : "M"}${atX(x).toFixed(1)} ${atY(values[i]).toFixed(1)}`).join("");
    if (one.low && one.high && one.x.length > 1) {
      const back = one.x.map((x, i) => `L${atX(x).toFixed(1)} ${atY(one.low[i]).toFixed(1)}`).reverse().join("");
      picture.append(draw("path", { d: `${path(one.high)}${back}Z`, fill: one.color, opacity: 0.18 }));
    }
    picture.append(one.x.length > 1
      ? draw("path", { d: path(one.y), fill: "none", stroke: one.color, "stroke-width": 2, "stroke-linejoin": "round" })
      : draw("circle", { cx: atX(one.x[0]), cy: atY(one.y[0]), r: 4, fill: one.color }));
  }
  const told = draw("text", { x: LEFT + 6, y: TOP + 10 }), rule = draw("line", { class: "axis", y1: TOP, y2: height - BOTTOM, visibility: "hidden" });
  picture.append(rule, told);
  const under = (event) => {
    const box = picture.getBoundingClientRect();
    return x0 + (((event.clientX - box.left) * WIDTH / box.width - LEFT) / (WIDTH - LEFT - RIGHT)) * (x1 - x0);
  };
  let from = null;
  const area = draw("rect", { x: 0, y: TOP, width: 0, height: height - TOP - BOTTOM, fill: "currentColor", opacity: 0.12 });
  picture.append(area);
  picture.addEventListener("pointermove", (event) => {
    const x = Math.min(Math.max(under(event), x0), x1);
    rule.setAttribute("x1", atX(x)); rule.setAttribute("x2", atX(x)); rule.setAttribute("visibility", "visible");
    told.textContent = `${xLabel} ${number(Math.round(x))}: ${shown.map((one) => `${one.name} ${number(nearest(one, x))}`).join(", ")}`.slice(0, WIDTH / 7);
    if (from != null) { area.setAttribute("x", Math.min(atX(from), atX(x))); area.setAttribute("width", Math.abs(atX(x) - atX(from))); }
  });
  picture.addEventListener("pointerleave", () => { rule.setAttribute("visibility", "hidden"); told.textContent = ""; });
  if (onzoom) {
    picture.addEventListener("pointerdown", (event) => { from = under(event); picture.setPointerCapture(event.pointerId); });
    picture.addEventListener("pointerup", (event) => {
      const to = under(event), span = Math.abs(to - from);
      if (from != null && span > (x1 - x0) * 0.02) onzoom({ from: Math.min(from, to), to: Math.max(from, to) });
      from = null; area.setAttribute("width", 0);
    });
    picture.addEventListener("dblclick", () => onzoom(null));
    picture.addEventListener("keydown", (event) => {
      const span = x1 - x0, moved = { ArrowLeft: -0.2, ArrowRight: 0.2 }[event.key];
      if (moved) onzoom({ from: x0 + moved * span, to: x1 + moved * span });
      else if (event.key === "+") onzoom({ from: x0 + span / 4, to: x1 - span / 4 });
      else if (event.key === "-" || event.key === "0") onzoom(null);
      else return;
      event.preventDefault();
    });
  }
  place.replaceChildren(picture);
  if (legend && shown.length) place.append(key(shown));
}

function key(series) {
  return make("div", { class: "legend" }, ...series.map((one) => {
    const mark = make("i");
    mark.style.background = one.color;
    return make("span", {}, mark, ` ${one.name}`);
  }));
}

function nearest(one, x) {
  let best = 0;
  for (let i = 1; i < one.x.length; i += 1) if (Math.abs(one.x[i] - x) < Math.abs(one.x[best] - x)) best = i;
  return one.y[best];
}

export function extent(values) {
  let low = Infinity, high = -Infinity;
  for (const value of values) { if (value < low) low = value; if (value > high) high = value; }
  return [low, high];
}

// Bars side by side: [{name, color, values}], one label a bin (empty: none).
export function bars(place, series, { labels = [], xLabel = "", height = 210, stacked = false, label = "" } = {}) {
  const count = Math.max(0, ...series.map((one) => one.values.length));
  const most = Math.max(0, ...Array.from({ length: count }, (_, i) => (stacked ? series.reduce((sum, one) => sum + (one.values[i] || 0), 0) : Math.max(...series.map((one) => one.values[i] || 0)))));
  if (!count || !most) {
    place.replaceChildren(make("p", { class: "note" }, "Nothing to draw yet."));
    return;
  }
  const width = 460, left = 46, bottom = 38, wide = (width - left - 8) / count, tall = height - bottom - 12;
  const picture = draw("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${label}: ${series.map((one) => `${one.name}, ${number(one.values.reduce((sum, each) => sum + each, 0))} in all`).join("; ")}` });
  for (const y of ticks(0, most, 4)) picture.append(
    draw("line", { class: "axis", x1: left, x2: width - 8, y1: 12 + tall - (y / most) * tall, y2: 12 + tall - (y / most) * tall }),
    draw("text", { x: left - 5, y: 16 + tall - (y / most) * tall, "text-anchor": "end" }, short.format(y)));
  for (let i = 0; i < count; i += 1) {
    let below = 0;
    series.forEach((one, k) => {
      const value = one.values[i] || 0, size = (value / most) * tall;
      const x = left + i * wide + (stacked ? 0 : (k * wide) / series.length), w = stacked ? wide : wide / series.length;
      picture.append(draw("rect", { x, y: 12 + tall - below - size, width: Math.max(w - (wide > 4 ? 1 : 0), 0.5), height: size, fill: one.color },
        draw("title", {}, `${one.name} ${labels[i] ?? i}: ${number(value)}`)));
      if (stacked) below += size;
    });
    if (labels[i]) picture.append(draw("text", { x: left + (i + 0.5) * wide, y: height - bottom + 16, "text-anchor": "middle" }, labels[i]));
  }
  picture.append(draw("text", { x: (left + width) / 2, y: height - 5, "text-anchor": "middle" }, xLabel));
  place.replaceChildren(picture);
  if (series.length > 1) place.append(key(series));
}

export const color = (place) => `var(--c${place % 8})`;
