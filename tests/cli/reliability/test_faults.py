"""A fault at any write, rename, sync or deletion of a run loses nothing: resuming gives the same bits.

`Faults` counts these operations and lets one of them fail, in two ways: the operation fails, as on a full disk, and the
program may clean up; or the process ends at once, as after a power failure, and nothing is cleaned up. A write that
fails has written half of its bytes.
"""

import builtins
import contextlib
import io
import itertools
import os
import pathlib
import shutil
import stat
import struct
import zlib

import pytest

import edl
from edl.cli import main
from edl.config import ConfigError, RunWarning
from edl.explore.random_walk import RandomWalkConfig
from edl.runs import driver, evaluation, session, store
from edl.runs.checking import check_run
from tests.cli.settings import LEARN

SETTINGS = {
    "explore": "random_walk",
    "explorer": RandomWalkConfig(iterations=3, rollouts=2, num_samples=16),
    "discover": "kmeans",
    "num_skills": 2,
    "until": "discover",
}
WORDS = ["--explore", "random_walk", "--explorer.iterations", "3", "--explorer.rollouts", "2"]
WORDS += ["--explorer.num-samples", "16", "--discover", "kmeans", "--num-skills", "2", *LEARN]
WORDS += ["--learner.ppo.iterations", "2"]


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


PNG = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0))
PNG += chunk(b"IDAT", zlib.compress(bytes(4))) + chunk(b"IEND", b"")
"""A picture of one pixel."""
ARTIFACTS = ("config.json", "states.safetensors", "skills.safetensors", "policy.safetensors")


class PowerFailure(BaseException):
    """The process ends here."""


class Faults:
    """Lets operation number ``at`` on the file system fail. Without a number, it only counts."""

    def __init__(self, monkeypatch, error, at=None):
        self.kinds, self.at, self.error, self.ended = [], at, error, False
        open_file = builtins.open
        # A sync takes long and changes nothing.
        self.wrap(monkeypatch, os, "fsync", lambda handle: None)
        self.wrap(monkeypatch, os, "replace", os.replace)
        self.wrap(monkeypatch, pathlib.Path, "unlink", pathlib.Path.unlink)

        def open_counted(path, mode="r", *args, **keywords):
            return FaultyFile(path, self) if mode == "xb" else open_file(path, mode, *args, **keywords)

        monkeypatch.setattr(builtins, "open", open_counted)

    def wrap(self, monkeypatch, module, name, function):
        def call(*args, **keywords):
            self.step(name)
            return function(*args, **keywords)

        monkeypatch.setattr(module, name, call)

    def step(self, kind):
        """Count an operation; raise if this is the one that fails, and at all later ones after a power failure."""
        self.kinds.append(kind)
        if self.ended or len(self.kinds) - 1 == self.at:
            self.ended = self.error is PowerFailure
            raise self.error("fault")


class FaultyFile(io.BufferedWriter):
    """A new file. A write that fails has written half of its bytes."""

    def __init__(self, path, faults):
        self.faults = faults
        faults.step("create")
        super().__init__(io.FileIO(path, "xb"))

    def write(self, data):
        try:
            self.faults.step("write")
        except BaseException:
            super().write(data[: len(data) // 2])
            raise
        return super().write(data)


def run(out):
    """Run as a Python user does: the same call starts a run, and continues it."""
    return edl.run("square", out=out, **SETTINGS)


def run_command(out):
    """Run as on the command line: all three stages."""
    words = ["--resume"] if (out / "config.json").is_file() else WORDS
    return main(["run", *words, "--out", str(out)])


@pytest.fixture
def often(monkeypatch):
    """A checkpoint after every iteration; figures and evaluation, which other tests check, are small."""
    monkeypatch.setattr(driver, "CHUNK_SECONDS", 0.0)
    monkeypatch.setattr(session, "CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setattr(session, "CHECKPOINT_COST", 0.0)
    monkeypatch.setattr(evaluation, "draw_figures", lambda run, found: evaluation.Drawings({"states": PNG}))


def results(path):
    log = [{k: v for k, v in row.items() if k != "seconds"} for row in store.Folder(path).read_log()]
    metrics = {k: v for k, v in store.Folder(path).read_json("metrics.json").items() if k != "seconds"}
    artifacts = [(path / name).read_bytes() for name in ARTIFACTS if (path / name).is_file()]
    return [*artifacts, log, metrics]


def check_every(stride, first, error, run, tmp_path, monkeypatch):
    """Let every ``stride``-th operation fail in a run of its own, resume it, and compare. Returns the operations."""
    run(tmp_path / "whole")
    expected = results(tmp_path / "whole")
    with monkeypatch.context() as patch:
        faults = Faults(patch, error)
        run(tmp_path / "counted")
    for at in itertools.count(first, stride):
        if at >= len(faults.kinds):
            return faults.kinds
        out = tmp_path / f"{at}"
        with monkeypatch.context() as patch, contextlib.suppress(OSError, PowerFailure):
            Faults(patch, error, at)
            run(out)
        if (out / "config.json").is_file():
            assert not check_run(out).bad, (at, faults.kinds[at])
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", lambda handle: None)
            run(out)
        assert results(out) == expected, (at, faults.kinds[at])
        assert not check_run(out).bad, (at, faults.kinds[at])
        shutil.rmtree(out)


@pytest.mark.filterwarnings("ignore::edl.config.RunWarning")
@pytest.mark.parametrize(("error", "first"), [(OSError, 52), (PowerFailure, 37)])
def test_a_fault_at_some_operations_is_resumed_to_the_same_bits(often, tmp_path, monkeypatch, error, first):
    kinds = check_every(83, first, error, run, tmp_path, monkeypatch)
    # config, provenance, three checkpoints, two artifacts, log, progress, figures, report and metrics, and their hashes
    assert len(kinds) > 100
    assert set(kinds) == {"create", "write", "fsync", "replace", "unlink"}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::edl.config.RunWarning")
@pytest.mark.parametrize("run", [run, run_command])
@pytest.mark.parametrize("error", [OSError, PowerFailure])
def test_a_fault_at_every_operation_is_resumed_to_the_same_bits(often, tmp_path, monkeypatch, capsys, error, run):
    kinds = check_every(1, 0, error, run, tmp_path, monkeypatch)
    with capsys.disabled():
        print(f"\n{run.__name__}, {error.__name__}: {len(kinds)} faults")


def test_a_log_that_cannot_be_written_does_not_end_the_run(often, tmp_path, monkeypatch):
    run(tmp_path / "whole")
    write, calls = store.Folder.write_log, []

    def fail(folder, rows):
        calls.append(len(rows))
        if len(calls) < 4:
            raise OSError(28, "No space left on device")
        return write(folder, rows)

    monkeypatch.setattr(store.Folder, "write_log", fail)
    with pytest.warns(RunWarning, match=r"the log could not be written .*No space left.* The run goes on") as caught:
        run(tmp_path / "run")
    assert len(caught) == 1
    assert results(tmp_path / "run") == results(tmp_path / "whole")


def test_a_checkpoint_that_cannot_be_written_does_not_end_the_run(often, tmp_path, monkeypatch):
    run(tmp_path / "whole")

    def fail(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(store.Folder, "save_checkpoint", fail)
    with pytest.warns(RunWarning, match="a checkpoint could not be written"):
        run(tmp_path / "run")
    assert results(tmp_path / "run") == results(tmp_path / "whole")


def test_every_rename_is_followed_by_a_sync_of_the_folder(tmp_path, monkeypatch):
    folder = store.create(tmp_path / "run")
    folder.start_manifest()
    seen, replace, fsync = [], os.replace, os.fsync
    monkeypatch.setattr(os, "replace", lambda *args: (seen.append("rename"), replace(*args))[1])

    def sync(handle):
        seen.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file")
        fsync(handle)

    monkeypatch.setattr(os, "fsync", sync)
    folder.write("checkpoint/progress.json", b"{}")
    assert seen == ["file", "file", "rename", "folder", "rename", "folder"]


def test_a_damaged_checkpoint_is_replaced_by_the_one_before(often, tmp_path, monkeypatch):
    run(tmp_path / "whole")
    save, out = store.Folder.save_checkpoint, tmp_path / "run"

    def stop_after_two(folder, state, notes):
        save(folder, state, notes)
        if notes["iteration"] == 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(store.Folder, "save_checkpoint", stop_after_two)
        with pytest.raises(KeyboardInterrupt):
            run(out)
    shutil.copytree(out, tmp_path / "without")
    (out / store.CHECKPOINT).write_bytes(b"garbage")
    with pytest.warns(RunWarning, match="continues from the checkpoint before"):
        run(out)
    (tmp_path / "without" / store.CHECKPOINT).unlink()
    run(tmp_path / "without")
    assert results(out) == results(tmp_path / "without") == results(tmp_path / "whole")


def test_two_damaged_checkpoints_are_rejected_with_the_remedy(often, tmp_path, monkeypatch):
    out, write = tmp_path / "run", session.Session._write_checkpoint

    def stop_after_two(self, stage, position, spent, part):
        write(self, stage, position, spent, part)
        if position.iteration == 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(session.Session, "_write_checkpoint", stop_after_two)
        with pytest.raises(KeyboardInterrupt):
            run(out)
    for name in (store.CHECKPOINT, store.PREVIOUS_CHECKPOINT):
        (out / name).write_bytes(b"garbage")
    with pytest.raises(ConfigError, match=r"state\.safetensors is damaged.*Delete it"):
        run(out)
