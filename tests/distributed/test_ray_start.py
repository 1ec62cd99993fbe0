"""Who can reach a cluster of this machine."""

import subprocess
import sys

import pytest

from waiting import PATIENCE

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


def test_nothing_listens_beyond_this_machine(ray) -> None:
    """Sockets of this session's Ray processes are on loopback."""
    found = subprocess.run(["ss", "-ltnpH"], capture_output=True, text=True, check=True).stdout
    own = [
        line.split()[3] for line in found.splitlines() if "gcs_server" in line or "raylet" in line or "ray::" in line
    ]
    assert own
    assert all("127.0.0.1" in address for address in own), own


@pytest.mark.slow
def test_a_stranger_without_the_token_is_refused(ray, tmp_path) -> None:
    address = ray.get_runtime_context().gcs_address
    code = f"import relive as rl; rl.distributed.connect({address!r}); print('let in')"
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0" * 64}
    stranger = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=PATIENCE)
    assert stranger.returncode != 0
    assert "let in" not in stranger.stdout
    assert "InvalidAuthToken" in stranger.stderr
