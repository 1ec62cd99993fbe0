"""Tests mirror src, and do not reach into what is private."""

from __future__ import annotations

import ast
from fnmatch import fnmatch
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
SOURCE = TESTS.parent / "src" / "relive"

TOGETHER = {
    "__init__": "test_package: what it exports",
    "agents/actor_critic": "agents/test_mappo: its networks, beside a plain loop",
    "agents/advice": "agents/test_coma: one sentence",
    "agents/central": "agents/test_mappo: what central critics read",
    "agents/inferred_policies": "agents/test_ensembles: parts of MADDPG",
    "agents/interface": "agents/test_registry: an algorithm that has it all",
    "agents/joint_critic": "agents/test_masac: its critics, beside a plain loop",
    "agents/mfq_actor": "agents/test_mfq: rows and temperatures",
    "agents/mixing": "agents/test_qmix: its mixers, beside a plain loop",
    "agents/one_agent": "agents/test_dqn: what algorithms of one agent share",
    "agents/policy_modules": "training/test_export: modules for other programs",
    "agents/presets": "agents/test_qmix_settings: one list of them",
    "agents/q_actor": "agents/test_dqn: its actor",
    "agents/q_networks": "agents/test_qmix: its networks, beside a plain loop",
    "agents/recurrent_q": "agents/test_r2d2: its networks, beside a plain loop",
    "agents/rollout_batches": "agents/test_mappo: its batches, beside a plain loop",
    "agents/sac": "agents/test_td3_sac: one plain loop for both",
    "agents/search": "training/test_tune: ranges that are searched",
    "agents/solo_policy": "agents/test_ppo: its policy",
    "agents/state": "agents/test_maddpg: states that go on bit for bit",
    "agents/stochastic_actor": "agents/test_mappo: its actor",
    "agents/td3*": "agents/test_td3_sac: one plain loop for both",
    "agents/transitions": "agents/test_maddpg: what it reads, beside a plain loop",
    "cli/flags": "cli/test_train: every flag of every algorithm",
    "cli/pymarl_words": "cli/test_pymarl: the words of its command",
    "compat/checks": "compat/test_xuance_single_mistakes: what is refused",
    "compat/drawing": "compat/test_forks: one generator a process",
    "compat/episodes": "compat/test_pymarl_replay: episodes in a ring",
    "compat/maddpg/*": "compat/test_maddpg: a module in place of theirs",
    "compat/nests": "compat/test_xuance_single: nested values",
    "compat/pymarl/rows": "compat/test_pymarl_replay: beside plain lists",
    "compat/pymarl/values": "compat/test_pymarl_batch: values of every kind",
    "compat/command": "compat/test_xuance_install: programs of other projects",
    "compat/saving": "compat/test_xuance_saving: whatever is saved",
    "compat/xuance/marl_*": "compat/test_xuance_marl: beside plain lists",
    "compat/xuance/v1_1/marl_*": "compat/test_xuance_marl: beside plain lists",
    "compat/xuance/installing": "compat/test_xuance_install: their imports",
    "compat/xuance/agents": "compat/test_xuance_takes: what their agents pass",
    "compat/xuance/segment_trees": "compat/test_xuance_takes: trees of priorities",
    "compat/xuance/paths": "compat/test_xuance_marl_paths: returns along paths",
    "compat/xuance/*": "compat/test_xuance_single: beside plain lists",
    "envs/adapters/__init__": "envs/test_to_pettingzoo: the one that is imported late",
    "envs/adapters/own": "envs/test_registry: environments of one's own",
    "envs/battle/*": "envs/test_battle: by hand and beside MAgent2",
    "envs/interface": "envs/test_from_gymnasium: every adapter is one",
    "envs/marines/*": "envs/test_marines: beside a battle unit by unit",
    "envs/particle/*": "envs/test_particle: all worlds, and beside MPE2",
    "memory/datasets/*": "memory/test_datasets: the same episodes in every format",
    "memory/layout": "memory/test_memory: bytes are exact",
    "memory/parts": "memory/test_memory: classes are not objects",
    "memory/refusals": "memory/test_steps: messages of refused steps",
    "memory/rollout_table": "memory/test_rollout: beside a loop",
    "memory/snapshot/disk": "memory/test_crash: a crash after every call",
    "memory/snapshot/journal": "memory/test_crash: killed while logging",
    "memory/snapshot/manifest": "memory/test_fuzz: damaged and hostile ones",
    "memory/snapshot/*": "memory/test_snapshot: there and back",
    "memory/storage/forks": "memory/test_threads: forks while threads are inside",
    "memory/storage/ground": "memory/test_shared: who writes to which lane",
    "memory/storage/header": "memory/test_mutations: headers that are changed",
    "memory/storage/ram": "memory/test_memory: the default",
    "memory/writing": "memory/test_steps: steps of every shape",
    "web/connections": "web/test_start: how many, and for how long",
    "web/metrics": "web/test_runs: read as they come",
    "training/cluster": "training/test_cluster_run: needs Ray",
    "training/remote_evaluation": "training/test_cluster_run: needs Ray",
    "training/sharded": "training/test_cluster_run: needs Ray",
}
"""Modules that are tested together with others: in which file, and why."""


def modules() -> list[str]:
    """Modules with a function or a class in them, such as ``memory/storage/shared``."""
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        tree = ast.parse(path.read_text())
        if path.name != "__main__.py" and any(isinstance(n, (ast.FunctionDef, ast.ClassDef)) for n in tree.body):
            found.append(path.relative_to(SOURCE).with_suffix("").as_posix())
    return found


def homes(module: str) -> list[str]:
    """Where tests of a module may be: folders may be left out, or stand in the name of the file."""
    *above, name = module.split("/")
    if name == "__init__" and above:
        name = above[-1]
    if not above:
        return [f"test_{name}.py"]
    folders = ["/".join(above[:depth]) for depth in range(len(above), 0, -1)]
    named = "_".join((*above[1:], name))
    return [*(f"{folder}/test_{name}.py" for folder in folders), f"{above[0]}/test_{named}.py"]


def test_every_module_has_a_test_file() -> None:
    together = {pattern: place.partition(":")[0] + ".py" for pattern, place in TOGETHER.items()}
    missing = []
    for module in modules():
        beside = [file for pattern, file in together.items() if fnmatch(module, pattern)]
        if not any((TESTS / home).exists() for home in (*homes(module), *beside)):
            missing.append(f"{module}: none of {', '.join((*homes(module), *beside))}")
    assert not missing, "write tests, or say in TOGETHER where there are some"


def test_nothing_is_said_to_be_tested_elsewhere_that_is_not() -> None:
    """Every entry is of a module without a file of its own, and names a file that there is."""
    known = modules()
    for pattern, place in TOGETHER.items():
        assert (TESTS / f"{place.partition(':')[0]}.py").exists(), place
        found = [module for module in known if fnmatch(module, pattern)]
        assert found, f"{pattern} is no module"
        if "*" not in pattern:
            assert not any((TESTS / home).exists() for home in homes(pattern)), f"{pattern} has a file of its own"


PRIVATE = {
    "_ENTRIES": "registries are put back as they were",
    "_ALGORITHMS": "registries are put back as they were",
    "_exit": "os._exit ends a child process",
    "_replace": "of named tuples",
    "_core": "the compiled core, which tests/core is about",
    "_neg_view": "torch's",
    "_get_storage_idx": "a name of OpenAI's buffers",
    "_setup_data": "a name of PyMARL's batches",
    "_check_safe_view": "a name of PyMARL's batches",
    "_sample_proportional": "a name of XuanCe's buffers",
    "_it_sum": "a name of XuanCe's buffers",
    "_it_min": "a name of XuanCe's buffers",
    "_max_priority": "a name of XuanCe's buffers",
}
"""Names with an underscore that tests may use, and why."""

NOTHING_PUBLIC = {
    "agents/test_coma.py": {"_next_values", "_chosen_values"},
    "agents/test_devices.py": {"_next_values"},
    "agents/test_maddpg.py": {"_target_action"},
    "agents/test_masac.py": {"_soft_value"},
    "agents/test_mfq.py": {"_seen"},
    "compat/test_drop_ins_bare_errors.py": {"_parts"},
    "compat/test_forks.py": {"_lock", "_parts"},
    "compat/test_pymarl_prioritized.py": {"_powers"},
    "compat/test_pymarl_replay.py": {"_rows"},
    "compat/test_xuance_per_mistakes.py": {"_slots"},
    "compat/test_xuance_single_mistakes.py": {"_ring"},
    "distributed/test_nodes.py": {"_on_loopback"},
    "envs/test_marines.py": {"_dice", "_start"},
    "envs/test_pool.py": {"_patience", "_workers", "_process"},
    "memory/test_forget.py": {"_store"},
    "training/test_actors.py": {"_Board", "_Published"},
    "training/test_cluster_run.py": {"_RemoteActor"},
    "training/test_own_parts.py": {"_perceptrons"},
    "training/test_policy.py": {"_actor"},
}
"""What these files look at for want of a public way; the list may only become shorter."""


def private_names(tree: ast.Module) -> set[str]:
    """Names with one underscore that are taken from something else than ``self``, ``cls`` or the file's own classes."""
    own = {
        node.name
        for kind in ast.walk(tree)
        if isinstance(kind, ast.ClassDef)
        for node in kind.body
        if isinstance(node, ast.FunctionDef)
    }
    own |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and _is_self(node.value)}
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and not _is_self(node.value) and node.attr not in own:
            found.add(node.attr)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("relive"):
            found |= {name.name for name in node.names}
    return {name for name in found if name.startswith("_") and not name.startswith("__")}


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


@pytest.mark.parametrize("path", sorted(TESTS.rglob("*.py")), ids=lambda path: path.relative_to(TESTS).as_posix())
def test_nobody_reaches_into_what_is_private(path: Path) -> None:
    known = NOTHING_PUBLIC.get(path.relative_to(TESTS).as_posix(), set())
    assert private_names(ast.parse(path.read_text())) - set(PRIVATE) == known


def test_files_are_short_enough_to_read() -> None:
    long = {
        path.relative_to(TESTS).as_posix(): lines
        for path in TESTS.rglob("*.py")
        if (lines := path.read_text().count("\n")) > 400 and path.name != "test_machine.py"  # one state machine
    }
    assert not long, "split them where it reads better"


def test_modules_say_what_they_hold() -> None:
    """A first sentence is there, and ends."""
    for path in SOURCE.rglob("*.py"):
        text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
        assert text, path
        assert text.partition("\n\n")[0].rstrip().endswith((".", ":", "``")), path
