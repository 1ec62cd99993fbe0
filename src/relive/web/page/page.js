// The page as a whole: which part is shown, and the stream of what changes.
import * as memory from "/memory.js";
import * as runs from "/runs.js";

const $ = (name) => document.getElementById(name);
let source = null, watched = "", known = { runs: [], memories: [] };

function place() {
  const [part, name] = [location.hash.slice(1).split("?")[0], new URLSearchParams(location.hash.split("?")[1] || "").get("of") || ""];
  return { part: part === "memory" ? "memory" : "runs", name };
}

function show() {
  const { part, name } = place();
  for (const each of ["runs", "memory"]) {
    $(each).hidden = each !== part;
    $(`show-${each}`).setAttribute("aria-pressed", each === part);
  }
  const now = part === "memory" ? name : "";
  document.title = part === "memory" && name ? `${name} · relive` : "relive";
  if (part === "memory") memory.show(name);
  if (now !== watched || !source) listen(now);
}

function go(part, name = "") { location.hash = name ? `${part}?${new URLSearchParams({ of: name })}` : part; }

function listen(name) {
  watched = name;
  source?.close();
  source = new EventSource(`/events?${new URLSearchParams({ memory: name })}`);
  source.addEventListener("open", () => { $("connection").textContent = "live"; });
  const opened = source;
  source.addEventListener("error", () => {
    $("connection").textContent = "the server does not answer; trying again";
    // Browsers try again by themselves, but not after an answer that was no stream, as of a server that is shutting down.
    if (opened.readyState === EventSource.CLOSED) setTimeout(() => { if (opened === source) listen(watched); }, 2000);
  });
  source.addEventListener("overview", (event) => {
    known = JSON.parse(event.data);
    runs.overview(known);
    const names = memory.options(known);
    const { part, name: shown } = place();
    if (part === "memory" && !shown && names.length) go("memory", names[0]);
    if (!known.runs.length && known.memories.length && !location.hash) go("memory", known.memories[0]);
  });
  source.addEventListener("summary", (event) => memory.summary(JSON.parse(event.data)));
}

runs.begin((name) => go("memory", name));
memory.begin((name) => go("memory", name));
$("show-runs").addEventListener("click", () => go("runs"));
$("show-memory").addEventListener("click", () => go("memory", watched || known.memories[0] || known.runs.find((run) => run.live || run.memory)?.name || ""));
window.addEventListener("hashchange", show);
show();
