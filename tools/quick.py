"""Runs the tests of what changed: ``python tools/quick.py`` in the project's environment (``make quick``).

Changes are those not committed yet, or else those of the last commit. Tests of a module are found as
tests/test_layout.py finds them.
"""

from __future__ import annotations

import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from test_layout import TOGETHER, homes  # noqa: E402


def git(*arguments: str) -> list[str]:
    """The lines that a git command prints."""
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def tests_of(name: str) -> list[str]:
    """Test files of a changed file; none if it has none of its own."""
    path = Path(name)
    if path.parts[:1] == ("tests",):
        return [name] if path.name.startswith("test_") else []
    if path.suffix == ".md":
        return ["tests/test_docs.py"]
    if path.parts[:2] != ("src", "relive") or path.suffix != ".py":
        return []
    module = path.relative_to("src/relive").with_suffix("").as_posix()
    together = [f"{place.partition(':')[0]}.py" for pattern, place in TOGETHER.items() if fnmatch(module, pattern)]
    return [f"tests/{home}" for home in (*homes(module), *together)]


def main() -> int:
    """Run pytest on them; returns its exit code."""
    changed = git("diff", "--name-only", "HEAD") + git("ls-files", "--others", "--exclude-standard")
    changed = changed or git("diff", "--name-only", "HEAD~1", "HEAD")
    found = sorted({test for name in changed for test in tests_of(name) if (ROOT / test).exists()})
    print(f"--- tests of {len(changed)} changed files: {', '.join(found) or 'none'}", flush=True)
    if not found:
        return 0
    return subprocess.run([sys.executable, "-m", "pytest", "-m", "not slow", "-n", "2", *found], cwd=ROOT).returncode


if __name__ == "__main__":
    sys.exit(main())
