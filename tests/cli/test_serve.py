"""relive serve."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

from waiting import PATIENCE


def test_the_command(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "relive", "serve", str(tmp_path), "--port", "0"]

    def heed() -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # which shells have what runs in the background ignore

    going = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=heed)
    try:
        said = going.stdout.readline()
        assert re.match(r"http://127\.0\.0\.1:\d+/\?token=[\w-]{32}$", said.strip())
        os.kill(going.pid, signal.SIGINT)
        assert going.wait(PATIENCE) == 130
        assert "Traceback" not in going.stderr.read()
    finally:
        going.kill()
        going.communicate()
    nothing = subprocess.run([*command[:4], str(tmp_path / "none")], capture_output=True, text=True)
    assert nothing.returncode == 2
    assert nothing.stderr.startswith("runs must be a folder, got")
