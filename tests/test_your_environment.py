"""The files of docs/your_environment.md are written and its commands are run, in the order of the page.

The slow test runs them as they are and checks the quality of the skills. The other test adds flags that reduce the
training to a minimum.
"""

import shlex
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

from edl.cli import main
from edl.runtime import effort
from edl.runtime.effort import Effort
from tests.doc_pages import DOCS, blocks

MINIMAL_TRAINING = {
    "run": "--explorer.first-episodes 8 --explorer.num-samples 256 --discover kmeans "
    + " ".join(
        f"--{stage}.sac.iterations 1 --{stage}.sac.rollouts 8 --{stage}.sac.update-every 40"
        for stage in ("explorer", "learner")
    ),
    "downstream": "--no-full-budget --num-goals 1 --control.env-steps 400 --control.rollouts 4 --control.minibatches 1",
}
"""Flags by command of the page."""


def run_page(folder: Path, run_command: Callable[[list[str]], str], run_script: Callable[[str], str]) -> str:
    """Write the files and run the commands and scripts of the page in a folder; return all that was printed."""
    output = ""
    for block in blocks(DOCS / "your_environment.md"):
        if block.language == "python":
            (folder / block.file).write_text(block.text)
            if block.file == "use.py" or (block.file == "controller.py" and find_spec("stable_baselines3")):
                output += run_script(block.file)
        elif block.language == "sh" and block.text.startswith("edl"):
            output += run_command(shlex.split(block.text.replace("\\\n", " "))[1:])
    assert [line.split()[1] for line in output.splitlines() if line.startswith("skill ")] == list("01234567")
    assert "PPO without skills" in output
    assert (folder / "drone_skills.py").is_file()
    assert (folder / "runs" / "drone" / "downstream.json").is_file()
    return output


def run_process(words: list[str], folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, *words], cwd=folder, capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.slow
def test_skills_of_the_page_are_better_than_random(tmp_path: Path):
    output = run_page(
        tmp_path,
        lambda words: run_process(["-m", "edl.cli", *words], tmp_path),
        lambda name: run_process([name], tmp_path),
    )
    assert "skills    better than random" in output


def test_page_runs_with_minimal_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(effort.OPTIONS, Effort.FULL, effort.OPTIONS[Effort.LEAST])  # compiling takes most of the time

    def run_command(words: list[str]) -> str:
        assert main([*words, *MINIMAL_TRAINING.get(words[0], "").split()]) == 0, capsys.readouterr().err
        return capsys.readouterr().out

    run_page(tmp_path, run_command, lambda name: run_process([name], tmp_path))
