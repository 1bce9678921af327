"""The queue: two workers at once, and pause, resume and stop by signals."""

import shutil
import time

import pytest

from edl.config import ConfigError
from edl.runs.store import Folder
from edl.studio.queue import RunQueue
from tests.studio.conftest import WAITING


@pytest.fixture
def queue(tmp_path):
    made = RunQueue(tmp_path, worker=WAITING)
    yield made
    made.close()


def folder(queue: RunQueue, name: str) -> Folder:
    (queue.runs / name).mkdir(exist_ok=True)
    return Folder(queue.runs / name)


def wait(queue: RunQueue, name: str, status: str, starts: int = 0) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        queue.poll()
        marks = queue.runs / name / "started"
        if queue.status(folder(queue, name)) == status and (marks.stat().st_size if marks.exists() else 0) >= starts:
            return
        time.sleep(0.02)
    raise AssertionError(f"{name} is {queue.status(folder(queue, name))}, not {status}")


def test_two_runs_at_once_and_the_rest_wait(queue):
    for name in "abc":
        queue.add(folder(queue, name))
    wait(queue, "a", "running", starts=1)
    wait(queue, "b", "running", starts=1)
    assert queue.status(folder(queue, "c")) == "queued"
    queue.end(folder(queue, "a"), "paused")
    wait(queue, "a", "paused")
    wait(queue, "c", "running", starts=1)
    queue.add(folder(queue, "a"), first=True)
    assert queue.status(folder(queue, "a")) == "queued"
    queue.end(folder(queue, "b"), "stopped")
    wait(queue, "b", "stopped")
    wait(queue, "a", "running", starts=2)
    queue.close()
    assert [queue.status(folder(queue, name)) for name in "abc"] == ["stopped"] * 3


def test_runs_that_wait_can_be_stopped_and_bad_requests_are_refused(queue):
    for name in "abc":
        queue.add(folder(queue, name))
    queue.end(folder(queue, "c"), "stopped")
    assert queue.status(folder(queue, "c")) == "stopped"
    with pytest.raises(ConfigError, match="run 'a' is running, so it cannot be started"):
        queue.add(folder(queue, "a"))
    with pytest.raises(ConfigError, match="run 'c' is stopped, so it cannot be paused"):
        queue.end(folder(queue, "c"), "paused")


def test_a_run_can_be_paused_while_its_worker_starts(queue):
    queue.add(folder(queue, "a"))
    queue.end(folder(queue, "a"), "paused")
    wait(queue, "a", "paused")


def test_a_worker_that_fails_leaves_its_message(queue):
    queue.add(folder(queue, "bad"))
    wait(queue, "bad", "failed")
    assert queue.message(folder(queue, "bad")) == "it is broken"


def test_a_queued_run_whose_folder_is_deleted_does_not_block_the_others(queue):
    folders = {name: folder(queue, name) for name in "abcd"}
    for each in folders.values():
        queue.add(each)
    shutil.rmtree(folders["c"].path)
    wait(queue, "a", "running", starts=1)
    queue.end(folders["a"], "stopped")
    wait(queue, "a", "stopped")
    wait(queue, "d", "running", starts=1)
    assert queue.status(folder(queue, "c")) == "failed"  # of a new folder with this name


def test_a_run_of_another_process_is_elsewhere(queue):
    from edl.runs import store

    with store.locked(folder(queue, "a")):
        assert queue.status(folder(queue, "a")) == "elsewhere"
