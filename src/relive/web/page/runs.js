// Runs: the table, curves of those that are compared, their settings, events and pictures.
import { color, extent, lines, make, number } from "/charts.js";

const $ = (name) => document.getElementById(name);
const state = { runs: [], chosen: new Set(), touched: false, abouts: new Map(), curves: new Map(), zoom: null, metrics: "" };
let look = () => {};

export async function get(path, given = {}) {
  try {
    const answer = await fetch(`${path}?${new URLSearchParams(given)}`);
    const found = await answer.json();
    if (!answer.ok && found.error === undefined) found.error = answer.statusText;
    return found;
  } catch {
    return { error: "the server does not answer" };
  }
}

export function begin(lookInside) {
  look = lookInside;
  for (const name of ["metric", "along", "smoothing", "bands"]) $(name).addEventListener("input", () => { if (name === "along") state.zoom = null; curves(); });
  $("zoom-in").addEventListener("click", () => {
    const [low, high] = state.zoom ? [state.zoom.from, state.zoom.to] : state.extent || [0, 1];
    zoomed({ from: low + (high - low) / 4, to: high - (high - low) / 4 });
  });
  $("zoom-out").addEventListener("click", () => zoomed(null));
  $("only-differences").addEventListener("input", settings);
  $("curve-form").addEventListener("submit", (event) => event.preventDefault());
}

function zoomed(zoom) { state.zoom = zoom; drawCurves(); }

export function overview(found) {
  const before = new Map(state.runs.map((run) => [run.name, run.updated]));
  state.runs = found.runs;
  $("no-runs").hidden = found.runs.length > 0;
  if (!state.touched && !state.chosen.size) for (const run of found.runs.filter((each) => each.env === found.runs[0].env).slice(0, 8)) state.chosen.add(run.name);
  table();
  const changed = found.runs.filter((run) => state.chosen.has(run.name) && before.get(run.name) !== run.updated).map((run) => run.name);
  if (changed.length) chosenChanged(changed);
}

function table() {
  const focused = document.activeElement?.id;
  $("run-table").tBodies[0].replaceChildren(...state.runs.map((run) => {
    const returns = Object.entries(run.returns).map(([name, value]) => (name === "return" ? number(value) : `${name.split("/")[0]} ${number(value)}`)).join(", ");
    const box = make("input", { type: "checkbox", id: `compare-${run.name}`, "aria-label": `Compare ${run.name}`, onchange: (event) => {
      state.touched = true;
      if (event.target.checked) state.chosen.add(run.name); else state.chosen.delete(run.name);
      chosenChanged([run.name]);
    } });
    box.checked = state.chosen.has(run.name);
    const status = make("span", { class: `badge ${run.status}`, title: run.error || null }, run.status);
    const inside = run.live || run.memory ? make("button", { type: "button", id: `inside-${run.name}`, "aria-label": `Look inside the memory of ${run.name}`, onclick: () => look(run.name) }, run.live ? "live" : "checkpoint") : "–";
    return make("tr", {}, make("td", {}, box), make("th", { scope: "row" }, run.name), make("td", {}, status), make("td", {}, run.algorithm), make("td", {}, run.env), make("td", {}, String(run.seed ?? "–")),
      make("td", {}, returns || "–"), make("td", {}, `${number(run.step)} of ${number(run.steps)}`), make("td", {}, number(run.steps_per_second, 3)), make("td", {}, inside));
  }));
  if (focused) document.getElementById(focused)?.focus();
}

async function chosenChanged(names) {
  await Promise.all(names.filter((name) => state.chosen.has(name)).map(async (name) => {
    const found = await get("/api/run", { run: name });
    if (!found.error || found.name) state.abouts.set(name, found);
    for (const key of [...state.curves.keys()]) if (key.startsWith(`${name}\n`)) state.curves.delete(key);
  }));
  metrics(); settings(); events(); pictures();
  await curves();
}

const chosen = () => state.runs.filter((run) => state.chosen.has(run.name) && state.abouts.has(run.name));

function metrics() {
  const names = [...new Set(chosen().flatMap((run) => state.abouts.get(run.name).metrics))].filter((name) => name !== "step");
  names.sort((a, b) => rank(a) - rank(b) || a.localeCompare(b));
  if (names.join() === state.metrics) return;
  state.metrics = names.join();
  const before = $("metric").value;
  $("metric").replaceChildren(...names.map((name) => make("option", {}, name)));
  if (names.includes(before)) $("metric").value = before;
}

const rank = (name) => (name.split("/").pop() === "return" ? (name.startsWith("train") ? 1 : 0) : 2);

async function curves() {
  const metric = $("metric").value;
  if (metric) await Promise.all(chosen().map(async (run) => {
    const key = `${run.name}\n${metric}`;
    if (!state.curves.has(key)) {
      const found = await get("/api/curve", { run: run.name, metric });
      if (!found.error) state.curves.set(key, found);
    }
  }));
  drawCurves();
}

function smooth(values, share) {
  let kept = null;
  return values.map((value) => (value == null ? value : (kept = kept == null ? value : share * kept + (1 - share) * value)));
}

function drawCurves() {
  const metric = $("metric").value, along = $("along"), share = Number($("smoothing").value), bands = $("bands").checked;
  const groups = new Map();
  for (const run of chosen()) {
    const curve = state.curves.get(`${run.name}\n${metric}`);
    if (!curve) continue;
    const key = bands ? run.kind : run.name;
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push({ run, x: curve[along.value], y: smooth(curve.value, share) });
  }
  const series = [...groups.values()].map((members, place) => {
    const name = members.length > 1 ? `${members[0].run.algorithm} on ${members[0].run.env}, ${members.length} seeds` : members[0].run.name;
    return { name, color: color(place), ...(members.length > 1 ? banded(members) : { x: members[0].x, y: members[0].y }) };
  });
  const known = series.flatMap((one) => one.x).filter((x) => x != null);
  state.extent = known.length ? extent(known) : null;
  lines($("curves"), series, { xLabel: along.selectedOptions[0].textContent, yLabel: metric, zoom: state.zoom, onzoom: zoomed, label: metric });
}

// The mean of seeds, between the least and the largest, at the places of the one with the most points.
function banded(members) {
  const longest = members.reduce((best, one) => (one.x.length > best.x.length ? one : best));
  const at = (one, x) => {
    let before = -1;
    for (let i = 0; i < one.x.length && one.x[i] <= x; i += 1) before = i;
    return before < 0 ? null : one.y[before];
  };
  const found = { x: [], y: [], low: [], high: [] };
  for (const x of longest.x) {
    if (x == null) continue;
    const values = members.map((one) => at(one, x)).filter((value) => value != null);
    if (!values.length) continue;
    found.x.push(x); found.y.push(values.reduce((sum, value) => sum + value, 0) / values.length);
    const [low, high] = extent(values);
    found.low.push(low); found.high.push(high);
  }
  return found;
}

function settings() {
  const runs = chosen(), only = $("only-differences").checked && runs.length > 1;
  const all = runs.map((run) => state.abouts.get(run.name).settings || {});
  const keys = [...new Set(all.flatMap(Object.keys))];
  const rows = keys.map((key) => [key, all.map((one) => JSON.stringify(one[key]) ?? "–")]).map(([key, values]) => ({ key, values, differs: new Set(values).size > 1 }));
  $("settings-table").tHead.replaceChildren(make("tr", {}, make("th", { scope: "col" }, "Setting"), ...runs.map((run) => make("th", { scope: "col" }, run.name))));
  $("settings-table").tBodies[0].replaceChildren(...rows.filter((row) => !only || row.differs).map((row) =>
    make("tr", { class: row.differs ? "differs" : null }, make("th", { scope: "row" }, row.key), ...row.values.map((value) => make("td", { class: "wrap" }, value)))));
}

function events() {
  const found = chosen().flatMap((run) => [
    ...(run.error ? [{ run: run.name, time: run.updated, text: run.error }] : []),
    ...(state.abouts.get(run.name).events || []).map((event) => ({ run: run.name, time: event.time, text: event.text || event.what || "" }))]);
  found.sort((a, b) => b.time - a.time);
  $("event-list").replaceChildren(...(found.length ? found.slice(0, 200).map((event) => make("li", {}, make("time", {}, new Date(event.time * 1000).toLocaleString()), ` ${event.run}: ${event.text}`)) : [make("li", {}, "Nothing was lost, and nothing failed.")]));
}

function pictures() {
  $("pictures").replaceChildren(...chosen().flatMap((run) => (state.abouts.get(run.name).pictures || []).map((file) => {
    const source = `/api/picture?${new URLSearchParams({ run: run.name, file, at: run.updated })}`;
    const shown = file.endsWith(".mp4") ? make("video", { src: source, controls: true, width: 360 }) : make("img", { src: source, alt: `${file} of ${run.name}`, loading: "lazy", width: 360 });
    return make("figure", {}, make("figcaption", {}, `${run.name}: ${file}`), shown);
  })));
}
