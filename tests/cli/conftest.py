"""A finished run, a copy of it to damage, and a check that bad input is rejected."""

import contextlib
import os
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from edl.cli import main
from tests.cli.settings import TINY


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished run. Tests must not change it. Workers of pytest-xdist share it."""
    base, path = tmp_path_factory.getbasetemp(), tmp_path_factory.mktemp("runs") / "finished"
    shared = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "shared" / "finished"
    shared.parent.mkdir(exist_ok=True)
    if not shared.exists():
        assert main(["run", *TINY, "--out", str(path)]) == 0
        with contextlib.suppress(OSError):  # another worker was faster
            path.rename(shared)
    return shared


@pytest.fixture
def copied(finished: Path, tmp_path: Path) -> Path:
    """A copy of the finished run, which a test may change."""
    return Path(shutil.copytree(finished, tmp_path / "copied"))


@pytest.fixture
def check_rejected(capsys: pytest.CaptureFixture[str]) -> Callable[[Sequence[Any], str], None]:
    """Check that a command exits with status 2 and prints one message, this one, and no traceback."""

    def check(words: Sequence[Any], message: str) -> None:
        capsys.readouterr()
        assert main([str(word) for word in words]) == 2
        printed = capsys.readouterr()
        assert printed.out == ""
        assert "Traceback" not in printed.err
        assert re.search(message, " ".join(printed.err.replace("│", " ").split())), printed.err

    return check
