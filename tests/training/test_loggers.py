"""Every logger writes what the lines of JSON have, by the real packages, offline."""

from __future__ import annotations

import csv
import math
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from small_runs import logged

import relive as rl
from refusals import refused
from relive.agents.maddpg import MADDPGConfig
from relive.training.loggers import charted, read_metrics
from waiting import until

SMALL = MADDPGConfig(learning_starts=200, batch_size=32, update_every=40, capacity=2000, hidden=(8,))


FEW: dict[str, Any] = {"num_envs": 8, "eval_every": 400, "eval_episodes": 3, "save_every": 400, "video": False}


def test_csv(tmp_path: Path) -> None:
    lines = logged(tmp_path / "run", log=("csv",))
    with open(tmp_path / "run" / "metrics.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [{key: float(value) for key, value in row.items() if value} for row in rows] == lines


def test_tensorboard(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    lines = logged(tmp_path / "run")
    events = EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    events.Reload()
    assert {"eval/mean_ep_length", "rollout/ep_len_mean", "time/fps"} <= set(events.Tags()["scalars"])
    for name in lines[-1].keys() - {"step"}:
        found = {event.step: event.value for event in events.Scalars(*charted({name: 0.0}))}
        wanted = {line["step"]: line[name] for line in lines if name in line}
        assert found == pytest.approx(wanted, rel=1e-6)


@pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SADeprecationWarning")
@pytest.mark.slow
def test_mlflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mlflow.tracking import MlflowClient

    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'runs.db'}")
    folder = tmp_path / "run"
    rl.train(SMALL, "simple", folder=folder, steps=800, log=("mlflow",), **FEW)
    client = MlflowClient(f"sqlite:///{tmp_path / 'runs.db'}")
    experiment = client.get_experiment_by_name("relive")
    (run,) = client.search_runs([experiment.experiment_id])
    assert run.info.status == "FINISHED"
    assert (run.data.params["algorithm"], run.data.params["batch_size"]) == ("maddpg", "32")
    lines = read_metrics(folder)
    for name in lines[-1].keys() - {"step"}:
        (shown,) = charted({name: 0.0})
        found = {each.step: each.value for each in client.get_metric_history(run.info.run_id, shown)}
        assert found == pytest.approx({line["step"]: line[name] for line in lines if name in line})


def records(path: Path) -> Iterator[bytes]:
    """What a .wandb file holds: LevelDB's log, blocks of 32 KiB, in them whole records or parts of one."""
    data, place, parts = path.read_bytes(), 7, b""
    while place + 7 <= len(data):
        left = 32768 - place % 32768
        if left < 7:
            place += left
            continue
        _, length, kind = struct.unpack_from("<IHB", data, place)
        parts += data[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):  # whole, or the last part
            yield parts
            parts = b""


def history(path: Path) -> list[dict[str, float]]:
    """Rows of a .wandb file, as far as it has been written."""
    from google.protobuf.message import DecodeError
    from wandb.proto import wandb_internal_pb2

    rows: list[dict[str, float]] = []
    for data in records(path):
        record = wandb_internal_pb2.Record()
        try:
            record.ParseFromString(data)
        except DecodeError:  # its end is not there yet
            break
        if record.WhichOneof("record_type") == "history":
            items = {item.key or "/".join(item.nested_key): float(item.value_json) for item in record.history.item}
            rows.append({key: value for key, value in items.items() if not key.startswith("_")})
    return rows


def test_wandb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Offline: what would be sent is in a file of records, which a process of wandb's writes, now or a little later."""
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    folder = tmp_path / "run"
    rl.train(SMALL, "simple", folder=folder, steps=800, log=("wandb",), **FEW)
    (path,) = (folder / "wandb").glob("offline-run-*/run-*.wandb")
    lines = read_metrics(folder)
    until(lambda: len(history(path)) >= len(lines))
    steps = [line.pop("step") for line in lines]
    assert history(path) == [pytest.approx({**charted(line), "step": n}) for line, n in zip(lines, steps, strict=True)]


def test_a_logger_that_fails_ends_no_run(tmp_path: Path) -> None:
    class Remove:
        def on_evaluate(self, run: Any, metrics: Any) -> None:
            for path in (run.folder / "tensorboard").glob("*"):
                path.unlink()
            (run.folder / "tensorboard").rmdir() if (run.folder / "tensorboard").exists() else None

    with pytest.warns(UserWarning, match="tensorboard is not written to any more"):
        rl.train(SMALL, "simple", folder=tmp_path / "run", steps=800, callbacks=[Remove()], **FEW)
    assert math.isfinite(read_metrics(tmp_path / "run")[-1]["return"])


def test_what_is_no_logger(tmp_path: Path) -> None:
    with refused(rl.errors.OptionError, "log"):
        rl.train(SMALL, "simple", folder=tmp_path / "run", log=("paper",))


def test_a_package_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(rl.errors.MissingExtra) as caught:
        rl.train(SMALL, "simple", folder=tmp_path / "run", log=("wandb",))
    assert (caught.value.package, caught.value.extra) == ("wandb", "wandb")
    assert not (tmp_path / "run").exists()
