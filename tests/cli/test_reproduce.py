"""`edl reproduce`: its table of verdicts, and the memory of a device that several runs share."""

import subprocess
import sys

from edl.cli.console import PlainConsole
from edl.cli.reproduce import verdicts_table

NO_DEVICE_YET = """
import os
import jax
from edl import runtime
runtime.enable()
os.environ.pop("XLA_PYTHON_CLIENT_PREALLOCATE", None)
from edl.cli import reproduce

used = []
reproduce.default_jobs = lambda: 1
reproduce.reproduce = lambda *_, **__: used.append(os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"]) or []
assert reproduce.main(["fig_gridworld"]) == 0
assert used == ["false"]
jax.config.update("jax_num_cpu_devices", 3)  # fails once JAX uses a device
"""


def test_memory_is_not_preallocated_and_no_device_is_used_before():
    command = [sys.executable, "-c", NO_DEVICE_YET]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stderr


def test_verdicts_are_printed_as_they_are(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "200")
    verdicts = [
        {"outcome": "holds", "claim": "[red]EDL[/red] wins.", "measured": [":ant: 0.9", "more"]},
        {"outcome": "refuted", "claim": "It is fast.", "measured": ["[0.1, 0.2]"]},
    ]
    PlainConsole().print(verdicts_table([{"figure": "fig_x", "verdicts": verdicts}]))
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert rows == [
        ["figure", "outcome", "claim", "measured"],
        ["fig_x", "holds", "[red]EDL[/red]", "wins.", ":ant:", "0.9"],
        ["more"],
        ["refuted", "It", "is", "fast.", "[0.1,", "0.2]"],
    ]
