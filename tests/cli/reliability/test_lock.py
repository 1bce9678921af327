"""A process that writes to a run holds its lock from before the first write."""

import json
import threading

import pytest

from edl.config import ConfigError
from edl.runs import store
from tests.cli.settings import EXPLORE


def contents(path):
    return {str(place.relative_to(path)): place.read_bytes() for place in path.rglob("*") if place.is_file()}


@pytest.mark.parametrize(
    "words",
    [
        ("learn", "--learner.epsilon", "9.0"),
        ("evaluate",),
        ("figure",),
        ("export",),
        ("check",),
        ("downstream",),
    ],
)
def test_a_live_run_is_rejected_before_anything_is_written(copied, check_rejected, words):
    progress = json.loads((copied / store.PROGRESS).read_text())
    del progress["learn"], progress["evaluate"], progress["draw"]
    folder = store.Folder(copied)
    with store.locked(folder):
        folder.write_json(store.PROGRESS, progress)
        (copied / f"{store.TEMPORARY}of-the-live-run").write_text("half")
        before = contents(copied)
        command, *flags = words
        check_rejected([command, copied, *flags], "another process is working on")
        assert contents(copied) == before


def test_a_live_run_is_not_resumed(copied, check_rejected):
    with store.locked(store.Folder(copied)):
        before = contents(copied)
        check_rejected(["run", "--resume", "--out", copied], "another process is working on")
        assert contents(copied) == before


def assert_locked(folder, shared=False):
    with pytest.raises(ConfigError, match="another process"), store.locked(folder, shared=shared):
        pass


def test_readers_share_a_lock_and_keep_writers_out(tmp_path):
    folder = store.create(tmp_path / "run")
    with store.locked(folder, shared=True), store.locked(folder, shared=True):
        assert_locked(folder)
    with store.locked(folder):
        assert_locked(folder, shared=True)


def test_the_points_of_a_running_sweep_cannot_be_locked(tmp_path):
    sweep = store.create(tmp_path / "sweep")
    sweep.write_json(store.SWEEP, {})
    point = store.create(tmp_path / "sweep" / store.POINTS / "000")
    with store.locked(point):
        pass
    with store.locked(sweep):
        assert_locked(point)


def start_in(path, barrier, number, winners):
    """Start a run as `edl run` does, at the same moment as another one. A lock is held against threads too."""
    store.check_free(path)
    barrier.wait()
    try:
        with store.new_folder(path) as folder:
            folder.start_manifest()
            folder.write_json(store.CONFIG, {"winner": number})
            barrier.wait()  # the other one has given up by now
            folder.write_json(store.CONFIG, {"winner": number, "finished": True})
            winners.append(number)
    except ConfigError:
        barrier.wait()


def test_of_two_runs_started_at_once_in_one_folder_one_is_rejected(tmp_path):
    for attempt in range(30):
        barrier, winners, path = threading.Barrier(2, timeout=60), [], tmp_path / f"{attempt}"
        both = [threading.Thread(target=start_in, args=(path, barrier, number, winners)) for number in range(2)]
        for thread in both:
            thread.start()
        for thread in both:
            thread.join(60)
        assert len(winners) == 1
        assert store.Folder(path).read_json(store.CONFIG) == {"winner": winners[0], "finished": True}


def test_a_run_that_appears_while_another_is_prepared_is_kept(tmp_path, monkeypatch, check_rejected):
    path = tmp_path / "run"

    def prepare(*args, **settings):
        if not path.exists():
            store.create(path).write_json(store.CONFIG, {"first": True})

    monkeypatch.setattr("edl.runs.run.dry_run", prepare)
    check_rejected(["explore", *EXPLORE, "--out", path], "already holds a run")
    assert contents(path) == {"config.json": b'{\n  "first": true\n}\n'}
