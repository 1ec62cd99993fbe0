"""``relive export``: a run's policy for other programs."""

from __future__ import annotations

from pathlib import Path

from relive.cli.importing import import_from_here
from relive.errors import OptionError
from relive.training.export import save_agents, to_onnx, to_torch_export
from relive.training.policy import load_policy
from relive.training.replay import load_run

__all__ = ["export"]


def export(
    run: Path, onnx: Path | None, torch_export: Path | None, per_agent: Path | None, step: int | None, *, trust: bool
) -> None:
    """Write the requested files and print their paths."""
    if onnx is None and torch_export is None and per_agent is None:
        raise OptionError("export", "be to --onnx FILE, --torch-export FILE or --per-agent FOLDER", "none of them")
    if trust:
        import_from_here()
    learner = load_run(run, step=step, trust=trust, device="cpu").learner
    if onnx is not None:
        print(to_onnx(learner, onnx))
    if torch_export is not None:
        print(to_torch_export(learner, torch_export))
    if per_agent is not None:
        groups = load_policy(run, step=step, trust=trust, device="cpu").groups
        for path in save_agents(learner, groups, per_agent):
            print(path)
