"""The results as a page and a picture."""

from __future__ import annotations

import platform
from datetime import date
from pathlib import Path

Results = dict[str, dict[str, dict[str, float]]]

OURS = "relive"
FLOOR = "C floor"
WORK = {
    "w1": "W1 uniform: 256 of 1M, obs 17, act 6",
    "w2": "W2 prioritised: sample 256 + update 256 of 1M",
    "w3_32": "W3 images 84x84x4: 32 of 20k",
    "w3_256": "W3 images 84x84x4: 256 of 20k",
    "w4": "W4 8 agents, obs 40, state 68: 256 of 200k",
    "w5": "W5 whole episodes: 32 of 5000 x 61",
    "w6a": "W6 append one step of 8 environments",
    "w6b": "W6 append 1000 rows",
    "w7": "W7 GAE over [2048, 64]",
}


def labels(results: Results) -> list[str]:
    """All measured libraries, ours first and the floor last."""
    found = list(dict.fromkeys(label for row in results.values() for label in row))
    ours = [label for label in found if label == OURS]
    floors = [label for label in found if label.startswith(FLOOR)]
    return ours + [label for label in found if label not in ours + floors] + floors


def times(results: Results, key: str) -> str:
    """A Markdown table of microseconds a call, a workload a row."""
    columns = labels(results)
    lines = ["| work | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
    for name, row in results.items():
        cells = [f"{row[label][key]:,.1f}" if label in row else "-" for label in columns]
        lines.append(f"| {WORK[name]} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def ratios(results: Results, key: str = "cpu_median") -> str:
    """A Markdown table of how many times relive's time each library takes."""
    columns = [label for label in labels(results) if label != OURS]
    lines = ["| work | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
    for name, row in results.items():
        if OURS not in row:
            continue
        ours = row[OURS][key]
        cells = [f"{row[label][key] / ours:.1f}" if label in row else "-" for label in columns]
        lines.append(f"| {WORK[name]} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def processor() -> str:
    """The name of the processor."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def page(results: Results, versions: dict[str, str], options: str) -> str:
    """The whole page."""
    known = ", ".join(f"{name} {version}" for name, version in versions.items())
    return f"""# Memory: speed against peers

Written by `make bench` ({options}) on {date.today().isoformat()}, {processor()}, Python
{platform.python_version()}; {known}.

All libraries are filled first, then called in turn (A B C A B C ...), one thread each. The machine is shared, so read
the ratios, not the times. "C floor" copies rows that were drawn beforehand into arrays that are used again: it does no
drawing, no expanding of windows and no allocation. TorchRL's prioritised sampler is left out where its extension does
not load with the installed torch. Peers return fresh arrays; whether glibc keeps freed pages decides their times on W3
to W5 (`--malloc fresh` and `--malloc reused` show both ends).

## How many times relive's CPU time each takes (medians)

{ratios(results)}

![bars](memory.png)

## Microseconds a call, CPU time, median

{times(results, "cpu_median")}

## Microseconds a call, wall time, median

{times(results, "wall_median")}

## Microseconds a call, wall time, best round

{times(results, "wall_best")}
"""


def draw(results: Results, path: Path) -> None:
    """A bar chart: each library's time over ours, a panel a workload, logarithmic."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    columns = [label for label in labels(results) if "(" not in label]
    palette = plt.get_cmap("tab10")
    colours = {label: palette(i % 10) for i, label in enumerate(label for label in columns if label != OURS)}
    colours[OURS] = "#111111"
    names = [name for name in results if OURS in results[name]]
    height = -(-len(names) // 3)
    figure, axes = plt.subplots(height, 3, figsize=(13, 3.0 * height), layout="constrained", squeeze=False)
    for axis in axes.flat[len(names) :]:
        axis.axis("off")
    for axis, name in zip(axes.flat, names, strict=False):
        row = results[name]
        shown = sorted((label for label in columns if label in row), key=lambda label: row[label]["cpu_median"])
        ratio = [row[label]["cpu_median"] / row[OURS]["cpu_median"] for label in shown]
        axis.barh(shown[::-1], ratio[::-1], color=[colours[label] for label in shown[::-1]])
        axis.axvline(1, color="#111111", linewidth=0.8)
        axis.set_xscale("log")
        axis.set_xlim(right=max(ratio) * 3.5)
        axis.set_title(WORK[name], fontsize=10)
        axis.tick_params(labelsize=8)
        for place, value in enumerate(ratio[::-1]):
            axis.text(value * 1.05, place, f"{value:.1f}", va="center", fontsize=8)
    figure.suptitle("CPU time over relive's (shorter is faster)")
    figure.savefig(path, dpi=110)
    plt.close(figure)


def write(folder: Path, results: Results, versions: dict[str, str], options: str) -> None:
    """Write the page and the picture."""
    folder.mkdir(parents=True, exist_ok=True)
    draw(results, folder / "memory.png")
    (folder / "memory.md").write_text(page(results, versions, options))
