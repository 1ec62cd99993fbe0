// A memory: its numbers while it is used, its episodes, one of them, one row.
import { bars, bytes, color, draw, lines, make, number } from "/charts.js";
import { get } from "/runs.js";

const $ = (name) => document.getElementById(name);
const state = { name: "", rates: [], last: null, chosen: null, asked: 0 };
let choose = () => {};

export function begin(onchoose) {
  choose = onchoose;
  $("which-memory").addEventListener("input", (event) => choose(event.target.value));
  $("reload-episodes").addEventListener("click", episodes);
  $("lane").addEventListener("change", episodes);
  for (const name of ["episode-form"]) $(name).addEventListener("submit", (event) => { event.preventDefault(); episodes(); });
  $("row-form").addEventListener("submit", (event) => { event.preventDefault(); row(Number($("row-lane").value), Number($("row-serial").value)); });
}

export function options(found) {
  const names = [...found.memories, ...found.runs.filter((run) => run.live || run.memory).map((run) => run.name)];
  const before = [...$("which-memory").options].map((option) => option.value).join("\n");
  if (names.join("\n") !== before) $("which-memory").replaceChildren(...names.map((name) => make("option", { value: name }, name)));
  $("which-memory").value = state.name;
  return names;
}

export function show(name) {
  if (name !== state.name) Object.assign(state, { name, rates: [], last: null, chosen: null });
  $("which-memory").value = name;
  $("episode").hidden = true;
  $("row").replaceChildren();
  $("numbers").replaceChildren();
  if (name) episodes();
}

export function summary(found) {
  const failed = found.error !== undefined;
  $("memory-error").hidden = !failed;
  $("memory-shown").hidden = failed;
  $("memory-source").textContent = found.source || "";
  if (failed) { $("memory-error").textContent = found.error; return; }
  rates(found);
  for (const part of document.querySelectorAll(".rows-only")) part.hidden = Boolean(found.shards);
  if (found.shards) { shards(found); return; }
  $("shards").replaceChildren();
  const census = found.census, share = census.stride > 1 ? ` (of every ${census.stride}th row)` : "";
  const numbers = {
    "steps held": number(found.steps), "of capacity": `${number((100 * found.rows) / found.capacity, 3)} %`, "can be drawn": number(found.ready),
    "rows inserted": number(found.inserted), "rows overwritten": number(found.evicted), "batches drawn": number(found.batches),
    "bytes used": bytes(found.used_nbytes), "bytes in all": bytes(found.nbytes), lanes: number(found.lanes), sampler: found.sampler, window: found.window,
  };
  if (census.effective != null) {
    numbers["effective sample size"] = `${number(census.effective)} (${number((100 * census.effective) / (census.rows * census.stride), 3)} %)`;
    numbers["priorities from, to"] = `${number(census.least, 3)}, ${number(census.most, 3)}`;
  }
  if (found.dropped != null) numbers["late updates dropped"] = number(found.dropped);
  const versions = (spread) => `${number(spread.least)} to ${number(spread.largest)}, median ${number(spread.quartiles[1])}`;
  if (found.versions) numbers["policy versions held"] = versions(found.versions.held);
  if (found.versions?.drawn) numbers["policy versions drawn"] = versions(found.versions.drawn);
  if (census.draws != null) numbers["never drawn since"] = `${number((100 * census.draws_each[0]) / Math.max(census.rows, 1), 3)} %${share}`;
  $("numbers").replaceChildren(...Object.entries(numbers).map(([name, value]) => make("div", { class: value.length > 24 ? "wide" : null }, make("dt", {}, name), make("dd", {}, value))));
  const few = found.by_lane.length <= 16;
  bars($("lanes"), [
    { name: "held", color: color(0), values: found.by_lane.map((lane) => lane.head - lane.tail) },
    { name: "overwritten", color: color(7), values: found.by_lane.map((lane) => lane.tail) },
  ], { labels: found.by_lane.map((lane) => (few || lane.lane % 8 === 0 ? String(lane.lane) : "")), xLabel: found.lanes > found.by_lane.length ? `the first ${found.by_lane.length} of ${found.lanes} lanes` : "lane", stacked: true, label: "Rows of each lane" });
  const ages = [{ name: "rows", color: color(0), values: census.ages }];
  if (census.drawn_ages && census.draws) ages.push({ name: "draws", color: color(1), values: scaled(census.drawn_ages, census.ages) });
  const marks = census.ages.map((_, i) => (i % 16 === 0 ? number((found.span * i) / census.ages.length, 2) : ""));
  bars($("ages"), ages, { labels: marks, xLabel: `rows since, in their lane${ages.length > 1 ? "; draws as shares" : ""}${share}`, label: "Ages" });
  const each = census.draws_each ? cut(census.draws_each) : [];
  bars($("draws"), [{ name: "rows", color: color(2), values: each }], { labels: each.map((_, i) => (i < 2 ? String(i) : `${2 ** (i - 1)}+`)), xLabel: `draws${share}`, label: "Rows by how often they were drawn" });
  $("priorities-figure").hidden = !census.priorities;
  if (census.priorities) {
    const first = census.priorities.findIndex((count) => count > 0), shown = cut(census.priorities).slice(Math.max(first, 0));
    bars($("priorities"), [{ name: "rows", color: color(3), values: shown }], { labels: shown.map((_, i) => (shown.length < 9 || i % 4 === 0 ? number(2 ** (first + i - 32), 2) : "")), xLabel: `priority, raised to alpha${share}`, label: "Priorities" });
  }
  $("fields").tBodies[0].replaceChildren(...found.fields.map((field) => make("tr", {}, make("th", { scope: "row" }, field.key), make("td", {}, field.dtype), make("td", {}, `[${field.shape.join(", ")}]`), make("td", {}, field.role), make("td", {}, number(field.nbytes)))));
}

const cut = (values) => { let last = values.length; while (last > 0 && !values[last - 1]) last -= 1; return values.slice(0, last); };
const scaled = (values, like) => {
  const of = values.reduce((sum, value) => sum + value, 0), to = like.reduce((sum, value) => sum + value, 0);
  return values.map((value) => (of ? (value * to) / of : 0));
};

function rates(found) {
  const last = state.last;
  state.last = found;
  const drawn = found.batches ?? found.sampled;
  if (last && found.time > last.time) {
    const passed = found.time - last.time;
    state.rates.push({ time: found.time, inserted: (found.inserted - last.inserted) / passed, drawn: (drawn - (last.batches ?? last.sampled)) / passed });
    state.rates = state.rates.slice(-120);
  }
  const begun = state.rates.length ? state.rates[0].time : 0, x = state.rates.map((rate) => rate.time - begun);
  lines($("rates"), [
    { name: found.shards ? "steps" : "rows", color: color(0), x, y: state.rates.map((rate) => rate.inserted) },
    { name: found.shards ? "samples" : "batches", color: color(1), x, y: state.rates.map((rate) => rate.drawn) },
  ], { xLabel: "seconds since somebody looks", height: 210, width: 460, label: "Rows inserted and batches drawn a second" });
}

function shards(found) {
  $("priorities-figure").hidden = true;
  const limiter = found.limiter ? [["samples a step", found.limiter.ratio], ["the limiter's", found.limiter.samples]] : [];
  $("numbers").replaceChildren(...[["steps held", found.steps], ["steps inserted", found.inserted], ["samples drawn", found.sampled], ["shards", found.shards.length], ...limiter].map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, number(value)))));
  const keys = ["steps", "ready", "inserted", "batches", "dropped", "total", "nbytes", "pid"];
  const rows = found.shards.map((shard, place) => make("tr", {}, make("th", { scope: "row" }, `shard ${place}`), ...keys.map((key) => make("td", {}, shard ? (key === "nbytes" ? bytes(shard[key]) : number(shard[key])) : key === "steps" ? "does not answer" : "–"))));
  $("shards").replaceChildren(make("table", {}, make("caption", { class: "hidden" }, "Shards"), make("thead", {}, make("tr", {}, make("th", { scope: "col" }, ""), ...keys.map((key) => make("th", { scope: "col" }, key)))), make("tbody", {}, ...rows)));
}

// ---- episodes ------------------------------------------------------------------------------------------------------

async function episodes() {
  const given = { memory: state.name, what: "episodes" };
  if ($("lane").value !== "") given.lane = $("lane").value;
  const asked = (state.asked += 1), found = await get("/api/memory", given);
  if (asked !== state.asked) return;
  if (found.error !== undefined) { $("timelines").replaceChildren(make("p", {}, found.error)); return; }
  timelines(found);
}

function timelines(found) {
  if (!found.episodes.length) { $("timelines").replaceChildren(make("p", {}, "No episode is held here.")); return; }
  const tall = 24, left = 58, from = Math.min(...found.episodes.map((one) => one.start)), to = Math.max(...found.lanes.map((lane) => lane.head));
  const least = Math.min(...found.episodes.map((one) => one.length)), wide = Math.max(900, Math.min(20000, (left + (to - from) * 9) / Math.max(least, 1)));
  const at = (serial) => left + ((serial - from) / Math.max(to - from, 1)) * (wide - left - 8);
  const picture = draw("svg", { width: wide, height: found.lanes.length * tall + 22, role: "group", "aria-label": `Episodes of ${found.lanes.length} lanes` });
  const places = new Map(found.lanes.map((lane, place) => [lane.lane, place]));
  for (const [lane, place] of places) picture.append(draw("text", { x: 2, y: place * tall + 16 }, `lane ${lane}`));
  const ordered = [...found.episodes].sort((a, b) => places.get(a.lane) - places.get(b.lane) || a.start - b.start);
  for (const one of ordered) {
    if (!places.has(one.lane)) continue;
    const kind = one.terminated ? "terminated" : one.truncated ? "truncated" : "open";
    const said = `lane ${one.lane}, episode ${one.id}: ${number(one.length)} steps, ${kind === "open" ? "goes on" : kind}, return ${number(one.return)}${one.film ? ", has a film" : ""}`;
    const open = () => episode(one.lane, one.start);
    const mark = draw("rect", { class: `${kind}${one.film ? " filmed" : ""}`, x: at(one.start), y: places.get(one.lane) * tall + 3, width: Math.max(at(one.start + one.length) - at(one.start) - 1, 1.5), height: tall - 7, rx: 2, tabindex: 0, role: "button", "aria-label": said, "data-lane": one.lane, "data-start": one.start, onclick: open,
      onkeydown: (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); open(); } } }, draw("title", {}, said));
    picture.append(mark);
  }
  for (const part of [0, 0.25, 0.5, 0.75, 1]) picture.append(draw("text", { x: at(from + part * (to - from)), y: found.lanes.length * tall + 16, "text-anchor": part === 1 ? "end" : part ? "middle" : "start" }, `serial ${number(Math.round(from + part * (to - from)))}`));
  $("timelines").replaceChildren(picture);
  if (found.more || found.in_all > found.lanes.length) $("timelines").append(make("p", { class: "hint" }, `Shown are the ${found.episodes.length} newest episodes of ${found.lanes.length} of ${found.in_all} lanes; a lane's number shows more of it.`));
  $("timelines").scrollLeft = wide;
}

async function episode(lane, start) {
  for (const mark of document.querySelectorAll(".timelines rect.chosen")) mark.classList.remove("chosen");
  document.querySelector(`.timelines rect[data-lane="${lane}"][data-start="${start}"]`)?.classList.add("chosen");
  const found = await get("/api/memory", { memory: state.name, what: "episode", lane, start }), place = $("episode");
  place.hidden = false;
  if (found.error !== undefined) { place.replaceChildren(make("p", { class: "note" }, found.error)); return; }
  const kind = found.terminated ? "terminated" : found.truncated ? "truncated" : "goes on";
  const parts = [make("h4", {}, `Lane ${lane}, episode ${found.id}: ${number(found.length)} steps, ${kind}, return ${number(found.return)}`)];
  if (!found.whole) parts.push(make("p", { class: "note" }, "Its first steps have been overwritten."));
  if (found.shown < found.length) parts.push(make("p", { class: "note" }, `The first ${number(found.shown)} steps are shown.`));
  if (found.film) parts.push(make("img", { id: "film", alt: `Film of episode ${found.id} of lane ${lane}`, src: `/api/memory?${new URLSearchParams({ memory: state.name, what: "film", lane, start })}` }));
  const steps = Array.from({ length: found.shown }, (_, i) => i);
  const slider = make("input", { type: "range", min: 0, max: Math.max(found.shown - 1, 0), value: 0, "aria-label": "Step" });
  const said = make("output", {}, "step 0"), pictures = make("div", { class: "pictures" });
  const pictured = Object.entries(found.fields).filter(([, field]) => field.picture).map(([name]) => name);
  const seen = () => {
    const step = Number(slider.value);
    said.textContent = `step ${step}, serial ${found.first + step}`;
    pictures.replaceChildren(...pictured.map((field) => make("figure", {}, make("figcaption", {}, field), make("img", { class: "pixels", alt: `${field} at step ${step}`, src: `/api/memory?${new URLSearchParams({ memory: state.name, what: "picture", field, lane, serial: found.first + step })}` }))));
  };
  slider.addEventListener("input", seen);
  parts.push(make("div", { class: "controls" }, make("label", {}, "Step ", slider), said, make("button", { type: "button", onclick: () => row(lane, found.first + Number(slider.value)) }, "Show this row")), pictures);
  const grid = make("div", { class: "grid" });
  for (const [name, field] of Object.entries(found.fields)) {
    if (field.picture) continue;
    const chart = make("div", { class: "chart small" });
    const many = field.values.length;
    lines(chart, field.values.slice(0, 16).map((values, i) => ({ name: many > 1 ? `${name}[${i}]` : name, color: color(i), x: steps, y: values.map(Number) })), { xLabel: "step", height: 210, width: 460, legend: many <= 8, label: name });
    grid.append(make("figure", {}, make("figcaption", {}, `${name} [${field.shape.join(", ")}]${many > 16 || field.cut ? ", the first 16 numbers" : ""}`), chart));
  }
  parts.push(grid);
  place.replaceChildren(...parts);
  seen();
  place.scrollIntoView({ block: "nearest" });
}

// ---- rows ----------------------------------------------------------------------------------------------------------

async function row(lane, serial) {
  $("row-lane").value = lane;
  $("row-serial").value = serial;
  const found = await get("/api/memory", { memory: state.name, what: "row", lane, serial });
  if (found.error !== undefined) { $("row").replaceChildren(make("p", { class: "note" }, found.error)); return; }
  const table = (title, values, why) => make("figure", {}, make("figcaption", {}, title), values
    ? make("div", { class: "scroll" }, make("table", {}, make("tbody", {}, ...Object.entries(values).map(([name, value]) => make("tr", {}, make("th", { scope: "row" }, name), make("td", {}, `${value.dtype}[${value.shape.join(", ")}]`), make("td", { class: "wrap" }, value.values.map((each) => (typeof each === "number" ? number(each) : String(each))).join(" ") + (value.cut ? " …" : "")))))))
    : make("p", { class: "note" }, why));
  $("row").replaceChildren(table("As it is stored", found.stored), table("What the window makes of it", found.window, found.why));
}
