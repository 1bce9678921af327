"""docs/your_environment.md does what it says: its files are written, its commands are run, in its order."""

import re
import shlex
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[1] / "docs" / "your_environment.md"
BLOCK = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```", re.MULTILINE | re.DOTALL)


def run(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.slow
def test_every_block_of_the_page_runs(tmp_path):
    output = ""
    for language, name, text in BLOCK.findall(PAGE.read_text("utf-8")):
        if language == "python":
            (tmp_path / name).write_text(text)
            if name != "drone.py" and (name != "controller.py" or find_spec("stable_baselines3")):
                output += run([sys.executable, name], tmp_path)
        elif language == "sh" and text.startswith("edl"):
            output += run([sys.executable, "-m", "edl.cli", *shlex.split(text.replace("\\\n", " "))[1:]], tmp_path)
    assert "skills    better than random" in output
    assert output.count("and gets to") == 8
    assert "PPO without skills" in output
    assert (tmp_path / "drone_skills.py").is_file()
    assert (tmp_path / "runs" / "drone" / "downstream.json").is_file()
