"""From a command's outcome to the exit status, and what is set up before a command runs."""

import os
import subprocess
import sys

import pytest

from edl import runtime
from edl.cli import listing, main
from edl.config import ConfigError


def replace_list(monkeypatch, function):
    """Let `edl list` call ``function``."""
    monkeypatch.setattr(listing, "main", function)


def test_the_runtime_is_enabled_once_before_a_command(monkeypatch):
    calls = []
    monkeypatch.setattr(runtime, "enable", lambda: calls.append("enable"))
    replace_list(monkeypatch, lambda words: calls.append(words) or 0)
    assert main(["list", "x"]) == 0
    assert calls == ["enable", ["x"]]


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (
            ConfigError("num_skills must be at least 1 (got 0)."),
            2,
            "edl list: num_skills must be at least 1 (got 0).\n",
        ),
        (
            OSError(28, "No space left on device"),
            1,
            "No space left on device. All files that were written are complete.",
        ),
        (KeyboardInterrupt("Continue with: edl x"), 130, "\nedl list: stopped. Continue with: edl x\n"),
        (KeyboardInterrupt(), 130, "\nedl list: stopped.\n"),
        (SystemExit(2), 2, ""),
        (SystemExit(0), 0, ""),
    ],
)
def test_exit_status_and_message(monkeypatch, capsys, error, status, message):
    def fail(words):
        raise error

    replace_list(monkeypatch, fail)
    assert main(["list"]) == status
    printed = capsys.readouterr()
    assert printed.out == ""
    assert message in printed.err


@pytest.mark.parametrize("words", [["--help"], ["list"]])
def test_a_closed_pipe_is_no_error(words):
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "edl.cli", *words]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, timeout=180, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")
