"""The queue of runs: at most two worker processes at once, the others wait.

The queue itself is not stored. A run that waits or was stopped is a folder without results, which can be resumed.
"""

import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from edl.config import ConfigError
from edl.runs.store import Folder
from edl.studio.library import is_done, is_locked
from edl.studio.worker import INTERRUPTED

LIMIT = 2
LOG = "worker.log"
LOG_TAIL = 2000
SHUTDOWN_SECONDS = 60.0
WORKER = (sys.executable, "-m", "edl.studio.worker")


class RunQueue:
    """Starts, pauses, stops and resumes the runs in a folder. Call `poll` regularly."""

    def __init__(self, runs: Path, limit: int = LIMIT, worker: Sequence[str] = WORKER):
        self.runs, self.limit, self.worker = runs, limit, worker
        self.waiting: list[str] = []
        self.workers: dict[str, subprocess.Popen[bytes]] = {}
        self.ending: dict[str, str] = {}
        """The status that a run will have when its worker has ended."""
        self.ended: dict[str, str] = {}

    def status(self, folder: Folder) -> str:
        """queued, running, pausing, stopping, paused, stopped, failed, done, or elsewhere (another process runs it)."""
        name = folder.path.name
        if name in self.workers:
            return {"paused": "pausing", "stopped": "stopping"}.get(self.ending.get(name, ""), "running")
        if name in self.waiting:
            return "queued"
        if is_done(folder):
            return "done"
        if is_locked(folder):
            return "elsewhere"
        return self.ended.get(name, "stopped")

    def add(self, folder: Folder, first: bool = False) -> None:
        """Run, or resume, when there is a free place."""
        status, name = self.status(folder), folder.path.name
        if status not in ("paused", "stopped", "failed"):
            raise ConfigError(f"run {name!r} is {status}, so it cannot be started. Wait, or choose another run.")
        self.waiting.insert(0 if first else len(self.waiting), name)
        self.poll()

    def end(self, folder: Folder, status: str) -> None:
        """Write a checkpoint and end the worker; ``status`` is ``paused`` or ``stopped``."""
        name, now = folder.path.name, self.status(folder)
        if now == "queued":
            self.waiting.remove(name)
            self.ended[name] = status
        elif now == "running":
            self.ending[name] = status
            self.workers[name].send_signal(signal.SIGINT)
        else:
            raise ConfigError(f"run {name!r} is {now}, so it cannot be {status}. Only queued or running runs can be.")

    def poll(self) -> None:
        """Notice workers that have ended, and start those that wait."""
        for name, worker in list(self.workers.items()):
            code = worker.poll()
            if code is not None:
                del self.workers[name]
                asked = self.ending.pop(name, "stopped")
                self.ended[name] = asked if code in (0, INTERRUPTED, -signal.SIGINT) else "failed"
        while self.waiting and len(self.workers) < self.limit:
            name = self.waiting.pop(0)
            try:
                self.workers[name] = self._start_worker(name)
            except OSError:  # e.g. its folder was deleted while it waited
                self.ended[name] = "failed"

    def _start_worker(self, name: str) -> subprocess.Popen[bytes]:
        with open(self.runs / name / LOG, "ab") as log:
            command = [*self.worker, str(self.runs / name)]
            # Its own session: Ctrl-C on the terminal reaches the server only, which ends its workers in order.
            # SIGINT is blocked until the worker is ready for it: one that arrives while Python starts is a failure.
            before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            try:
                return subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
                )
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def message(self, folder: Folder) -> str:
        """The end of the log of a run that failed."""
        path = folder.place(LOG)
        text = path.read_bytes()[-LOG_TAIL:].decode("utf-8", "replace") if path.is_file() else ""
        return text.strip()

    def close(self) -> None:
        """End all workers with a checkpoint and wait for them."""
        self.waiting.clear()
        for worker in self.workers.values():
            worker.send_signal(signal.SIGINT)
        deadline = time.monotonic() + SHUTDOWN_SECONDS
        for worker in self.workers.values():
            try:
                worker.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                worker.kill()
                worker.wait()
        self.poll()
