"""docs/your_environment.md does what it says: its files are written, its commands are run, in its order.

As the page has them in the slow test, which also looks at what comes out; with as little learning as possible in the
other one, so that continuous integration runs the page every time.
"""

import functools
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from edl.cli import main
from edl.runtime.effort import Effort
from edl.runs import executables
from tests.compiling import jit

PAGE = Path(__file__).parents[1] / "docs" / "your_environment.md"
BLOCK = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```", re.MULTILINE | re.DOTALL)
LITTLE = {
    "run": "--explorer.iterations 1 --explorer.rollouts 8 --explorer.num-samples 256 --discoverer.gradient-steps 50 "
    "--learner.ppo.iterations 1 --learner.ppo.rollouts 8 --learner.ppo.minibatches 2 --learner.ppo.epochs 1",
    "downstream": "--num-goals 1 --control.env-steps 400 --control.rollouts 4 --control.minibatches 1",
}
"""Flags that make a command of the page quick."""


def follow(folder: Path, command: Callable[[list[str]], str], script: Callable[[str], str]) -> str:
    """Do what the page says in a folder, and give back all that was printed."""
    output = ""
    for language, name, text in BLOCK.findall(PAGE.read_text("utf-8")):
        if language == "python":
            (folder / name).write_text(text)
            if name != "drone.py" and (name != "controller.py" or find_spec("stable_baselines3")):
                output += script(name)
        elif language == "sh" and text.startswith("edl"):
            output += command(shlex.split(text.replace("\\\n", " "))[1:])
    assert output.count("and gets to") == 8
    assert "PPO without skills" in output
    assert (folder / "drone_skills.py").is_file()
    assert (folder / "runs" / "drone" / "downstream.json").is_file()
    return output


def started(words: list[str], folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, *words], cwd=folder, capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def compile_quickly(
    function: Callable, static: tuple, donate: int | None, effort: Effort, tree: Any, shapes: tuple
) -> Callable:
    return jit(functools.partial(function, *static)).lower(*compiled.from_signature(tree, shapes)).compile()


@pytest.mark.slow
def test_every_block_of_the_page_runs(tmp_path):
    output = follow(
        tmp_path, lambda words: started(["-m", "edl.cli", *words], tmp_path), lambda name: started([name], tmp_path)
    )
    assert "skills    better than random" in output


def test_every_block_of_the_page_runs_with_little_learning(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(executables, "compile_now", compile_quickly)

    def command(words: list[str]) -> str:
        assert main([*words, *LITTLE.get(words[0], "").split()]) == 0, capsys.readouterr().err
        return capsys.readouterr().out

    follow(tmp_path, command, lambda name: started([name], tmp_path))
