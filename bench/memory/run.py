"""Runs the workloads over the peers and prints a table of microseconds a call.

    python run.py [--quick] [--only w1 w7] [--peers numpy_plain floor] [--report docs/bench]

Each workload runs in a process of its own, so that one workload's memory does not weigh on the next (not so with
`--quick`).
Peers that return new arrays depend on whether glibc keeps freed megabytes, which by default hangs on
what the process freed before, prefilling included; `--malloc fresh` gives every large array new pages
and `--malloc reused` none.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import Any

PEERS = (
    "ours",
    "numpy_plain",
    "numpy_take",
    "peer_cpprb",
    "peer_torchrl",
    "peer_tianshou",
    "peer_sb3",
    "peer_flashbax",
    "floor",
)

ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
    "NPROC": "1",
    "JAX_PLATFORMS": "cpu",
    "TF_CPP_MIN_LOG_LEVEL": "2",
}

MALLOC = {
    "default": {},
    "fresh": {"MALLOC_MMAP_THRESHOLD_": str(1 << 17), "MALLOC_TRIM_THRESHOLD_": str(1 << 17)},
    "reused": {"MALLOC_MMAP_THRESHOLD_": str(1 << 30), "MALLOC_TRIM_THRESHOLD_": str(1 << 40)},
}

Results = dict[str, dict[str, dict[str, float]]]


def variants(module: ModuleType, function: str) -> dict[str, Callable[[Any], Callable[[], Any]]]:
    """A peer's ways to do a workload: `w1`, and `w1__name` where there is more than one."""
    found = {}
    for attribute in vars(module):
        base, _, variant = attribute.partition("__")
        if base == function:
            label = f"{module.NAME} ({variant})" if variant else module.NAME
            found[label] = getattr(module, attribute)
    return found


def versions(peers: list[str]) -> dict[str, str]:
    """The version of every library that can be imported."""
    found: dict[str, str] = {}
    for peer in peers:
        try:
            module = importlib.import_module(peer)
            found[module.NAME] = module.version()
        except ImportError:
            continue
    return found


def measure(name: str, peers: list[str], quick: bool, rounds: int) -> dict[str, dict[str, float]]:
    """Prefills every peer that supports the workload and times them interleaved."""
    from timing import interleave
    from workloads import workloads

    spec = workloads(quick)[name]
    calls: dict[str, Callable[[], Any]] = {}
    for peer in peers:
        try:
            module = importlib.import_module(peer)
            for label, build in variants(module, spec.function).items():
                calls[label] = build(spec)
        except Exception as error:
            print(f"{peer} is left out of {name}: {str(error).splitlines()[0]}", file=sys.stderr)
    return {label: asdict(timing) for label, timing in interleave(calls, rounds).items()}


def main() -> None:
    """Parses the options, runs one process a workload and prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the capacity, few rounds")
    parser.add_argument("--only", nargs="*", help="names of workloads")
    parser.add_argument("--peers", nargs="*", default=list(PEERS), help="names of modules")
    parser.add_argument("--rounds", type=int, help="rounds of about 20 ms a callable")
    parser.add_argument("--malloc", choices=MALLOC, default="default", help="how glibc treats large arrays")
    parser.add_argument("--report", type=Path, help="folder for a page and a picture of the results")
    parser.add_argument("--child", nargs="*", help=argparse.SUPPRESS)
    options = parser.parse_args()
    rounds = options.rounds or (4 if options.quick else 25)
    if options.child:
        print(json.dumps({name: measure(name, options.peers, options.quick, rounds) for name in options.child}))
        return
    if options.quick and options.report:
        options.report /= "quick"

    import report
    from workloads import workloads

    results: Results = {}
    names = list(options.only or workloads(options.quick))
    # Importing the peers takes longer than a quick measurement, so that one shares a process.
    for group in [names] if options.quick else [[name] for name in names]:
        command = [sys.executable, __file__, "--rounds", str(rounds), "--peers", *options.peers, "--child", *group]
        child = subprocess.run(
            command + ["--quick"] * options.quick,
            env=ONE_THREAD | MALLOC[options.malloc] | os.environ,
            stdout=subprocess.PIPE,
            text=True,
        )
        if child.returncode:
            print(f"{', '.join(group)} failed with {child.returncode}", file=sys.stderr)
            continue
        found = json.loads(child.stdout.splitlines()[-1])
        results |= found
        print(f"\n{report.times(found, 'cpu_median')}", flush=True)
    if len(results) > 1:
        print(f"\nCPU time over relive's\n\n{report.ratios(results)}")
    if options.report:
        how = f"{'quick, ' if options.quick else ''}{rounds} rounds, malloc {options.malloc}"
        report.write(options.report, results, versions(options.peers), how)
        print(f"\nwritten to {options.report}")


if __name__ == "__main__":
    main()
