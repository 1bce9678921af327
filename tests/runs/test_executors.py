"""Executors run every task once, after those it needs, and again if its worker is lost."""

import os
import signal
import time

import pytest

from edl.config import ConfigError
from edl.runs.executors import (
    MAX_LOSSES,
    LocalExecutor,
    Outcome,
    Tally,
    Task,
    ThreadExecutor,
    check_executor,
    ray_cluster,
    run_tasks,
)
from edl.runs.executors.processes import ProcessExecutor


class FakeExecutor:
    """Ends the oldest task at each wait. ``lose`` are names of tasks whose worker is lost so many times."""

    backend = None

    def __init__(self, workers=2, lose=()):
        self.workers = self.capacity = workers
        self.lose = dict(lose)
        self.running, self.started = [], []

    def submit(self, task):
        assert len(self.running) < self.capacity
        self.running.append(task)
        self.started.append(task.name)

    def wait(self, seconds):
        task = self.running.pop(0)
        if self.lose.get(task.name, 0) > 0:
            self.lose[task.name] -= 1
            return [Outcome(task, lost=True)]
        try:
            return [Outcome(task, task.function(*task.args))]
        except ConfigError as error:
            return [Outcome(task, error=error)]

    def close(self): ...


def echo(value):
    return value


def fails():
    raise ConfigError("this task fails")


def test_long_tasks_start_first_and_after_those_they_need():
    executor = FakeExecutor(workers=1)
    tasks = [
        Task("short", echo, (1,), cost=1),
        Task("after", echo, (2,), ("long",), cost=9),
        Task("long", echo, (3,), cost=5),
        Task("free", echo, (4,), ("finished before",), cost=2),
    ]
    found = {outcome.task.name: outcome.value for outcome in run_tasks(executor, tasks)}
    assert executor.started == ["long", "after", "free", "short"]
    assert found == {"short": 1, "after": 2, "long": 3, "free": 4}


def test_a_task_fails_if_one_that_it_needs_has_failed():
    tasks = [Task("bad", fails, ()), Task("after", echo, (1,), ("bad",)), Task("good", echo, (2,))]
    found = {outcome.task.name: outcome for outcome in run_tasks(FakeExecutor(), tasks)}
    assert found["good"].value == 2
    for name in ("bad", "after"):
        assert str(found[name].error) == "this task fails"


def test_a_lost_task_starts_again_but_not_for_ever():
    tally = Tally()
    executor = FakeExecutor(lose={"unlucky": 2, "deadly": 99})
    tasks = [Task("unlucky", echo, (1,)), Task("deadly", echo, (2,)), Task("good", echo, (3,))]
    found = {outcome.task.name: outcome for outcome in run_tasks(executor, tasks, tally=tally)}
    assert (found["unlucky"].value, found["good"].value) == (1, 3)
    assert "its worker was lost 10 times" in str(found["deadly"].error)
    assert executor.started.count("unlucky") == 3
    assert tally.lost == 2 + MAX_LOSSES


def test_losses_are_counted_anew_after_progress():
    executor, saved = FakeExecutor(lose={"slow": 25}), iter(range(99))
    (outcome,) = run_tasks(executor, [Task("slow", echo, (1,))], progress_of=lambda task: next(saved) // 9)
    assert outcome.value == 1


def test_tasks_that_use_this_process_get_its_arguments():
    def where(device=None, note=""):
        return device, note

    (outcome,) = run_tasks(LocalExecutor(note="here"), [Task("one", where, ())])
    assert outcome.value == (None, "here")
    threads = ThreadExecutor(["a", "b"], note="here")
    found = list(run_tasks(threads, [Task(str(i), where, ()) for i in range(4)]))
    threads.close()
    assert {outcome.value[0] for outcome in found} <= {"a", "b"}
    assert len(found) == 4


def kills_its_worker_once(marker):
    """Ends its process without warning, the first time."""
    if not marker.exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(60)
    return os.getpid()


def unexpected():
    raise ZeroDivisionError("not for the user")


def test_a_killed_worker_is_replaced_and_its_task_runs_again(tmp_path):
    tally, executor = Tally(), ProcessExecutor(1)
    tasks = [Task("killed", kills_its_worker_once, (tmp_path / "marker",), cost=2), Task("bug", unexpected, ())]
    found = {outcome.task.name: outcome for outcome in run_tasks(executor, tasks, tally=tally)}
    executor.close()
    assert tally.lost == 1
    assert found["killed"].value not in (None, os.getpid())
    assert "ZeroDivisionError: not for the user" in str(found["bug"].error)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("threads", 0, None), "unknown executor 'threads'"),
        (("processes", -1, None), "--workers must be at least 0"),
        (("local", 2, None), "--workers 2 needs --executor processes or ray"),
        (("processes", 2, "auto"), "--address needs --executor ray"),
    ],
)
def test_options_that_do_not_fit_are_rejected(arguments, message):
    with pytest.raises(ConfigError, match=message):
        check_executor(*arguments)


def test_a_ray_cluster_that_does_not_fit_is_rejected(tmp_path):
    own = ray_cluster.versions()
    ray_cluster.check_versions("node 1", own)
    with pytest.raises(ConfigError, match=r"node 1 of the Ray cluster has other versions: jax 0\.1 \(here "):
        ray_cluster.check_versions("node 1", own | {"jax": "0.1"})
    with pytest.raises(ConfigError, match="--address must be host:port, auto or local"):
        ray_cluster.check_reachable("nonsense")
    with pytest.raises(ConfigError, match=r"no Ray cluster can be reached at '127\.0\.0\.1:1'"):
        ray_cluster.check_reachable("127.0.0.1:1")


def test_a_node_that_sees_the_folder_reads_the_token(tmp_path):
    with ray_cluster.token_in(str(tmp_path / "not" / "there" / "yet")) as (file, token):
        assert ray_cluster.report_node(file)[1] == token
        assert ray_cluster.report_node(str(tmp_path / "other"))[1] is None
    assert list(tmp_path.iterdir()) == []
