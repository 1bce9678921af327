"""The `Host` of Gymnasium envs: gives every episode an env of its own, and steps all episodes of a batch together.

Slow envs are stepped by our own worker processes (`EnvWorkers`) and not by `gymnasium.vector.AsyncVectorEnv`, because
that class (Gymnasium 1.4)

* starts one process per env. For 64 envs on two cores, a step took 11 times the CPU time of the pool's two workers in
  Pendulum-v1, and 2 times in an env that computes for 0.2 ms per step;
* steps all envs or none. We step only the episodes that still run, in any number: siblings and new seeds need more
  envs during a run, and the last episodes of a batch fewer;
* raises the exception of an env without its step and seed, and a bare EOFError if a worker process dies;
* forks by default on Linux, which can deadlock a process with JAX's threads. The other start methods import the user's
  script again.
"""

import contextlib
import socket
import subprocess
import sys
import threading
from multiprocessing.connection import Connection
from typing import Any

import gymnasium
import numpy as np
from jaxtyping import Array, Float, Int

from edl.envs.host import FINISHED_EPISODE
from edl.interop.env_worker import EnvSlots, Factory, StepFailure

MAX_FIRST_SLOT = 2**23
"""Programs see slots as floats, which are exact up to twice this number."""
MAX_SLOTS = 8192
"""Maximum number of envs. Beyond it, the oldest slot in use is reused: its program has abandoned that episode."""


class GymnasiumHost:
    """Assigns a slot, and the env in it, to every episode, and frees it after the last step.

    Programs see other numbers of slots every time the host is closed. A program that was interrupted, and still runs in
    its thread, therefore cannot step the envs of the next one.
    """

    def __init__(self, name: str, factory: Factory, first: gymnasium.Env, horizon: int, workers: int = 0):
        self.name, self.horizon, self.workers = name, horizon, workers
        self.size = int(np.prod(first.observation_space.shape or ()))
        self.failure: str | None = None
        self.factory, self.render_modes = factory, tuple((first.metadata or {}).get("render_modes") or ())
        self._lock = threading.Lock()
        self._first: gymnasium.Env | None = first
        self._envs: EnvSlots | EnvWorkers | None = None
        self._first_slot = 0
        self._free: list[int] = []
        self._in_use: dict[int, None] = {}
        self._seeds = np.zeros(0, np.int64)

    def reset(self, seeds: Int[Array | np.ndarray, "*b"]) -> Float[np.ndarray, "*b r"]:
        seeds = np.asarray(seeds)
        answer = np.full((seeds.size, 1 + self.size), np.nan, np.float32)
        with self._lock:
            if self.failure is None and (started := self._start(seeds.reshape(-1))) is not None:
                answer[:, 0], answer[:, 1:] = started[0] + self._first_slot, started[1]
        return answer.reshape(*seeds.shape, -1)

    def step(self, moves: Float[Array | np.ndarray, "*b m"]) -> Float[np.ndarray, "*b r"]:
        moves = np.asarray(moves)
        rows = moves.reshape(-1, moves.shape[-1])
        answer = np.full((len(rows), 3 + self.size), np.nan, np.float32)
        with self._lock:
            if self.failure is None and np.isfinite(rows[:, 0]).all():
                self._advance(rows, answer)
        return answer.reshape(*moves.shape[:-1], -1)

    def close(self) -> None:
        """Close the envs and their worker processes. The next reset makes new ones."""
        with self._lock:
            self._close()

    def _open(self) -> "EnvSlots | EnvWorkers":
        first, self._first = self._first, None
        if not self.workers:
            return EnvSlots(self.factory, first)
        if first is not None:
            first.close()
        return EnvWorkers(self.factory, self.workers)

    def _close(self) -> None:
        opened, self._envs = self._first if self._envs is None else self._envs, None
        self._first, self._free, self._in_use = None, [], {}
        self._first_slot = (self._first_slot + len(self._seeds)) % MAX_FIRST_SLOT
        self._seeds = np.zeros(0, np.int64)
        if opened is not None:
            with contextlib.suppress(Exception):  # a run that is over does not fail because of this
                opened.close()

    def _start(self, seeds: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        """A slot per seed, and its first observation."""
        slots = self._take(len(seeds))
        self._seeds[slots] = seeds
        observations = self._call("reset", slots, seeds.tolist(), 0)
        return None if observations is None else (slots, observations)

    def _advance(self, rows: np.ndarray, answer: np.ndarray) -> None:
        running = np.flatnonzero(rows[:, 0] != FINISHED_EPISODE)
        if len(running) < len(rows):
            rows = rows[running]
        if not len(rows):
            return
        slots, time = rows[:, 0].astype(np.int64) - self._first_slot, int(rows[0, 1])
        if slots.min() < 0 or slots.max() >= len(self._seeds):
            return  # the host was closed since: a program that was interrupted still runs
        if time == 0 and (slots := self._separate_siblings(slots)) is None:
            return
        reached = self._call("step", slots, rows[:, 2:], time)
        if reached is None:
            return
        answer[running, 0], answer[running, 1:] = slots + self._first_slot, reached
        self._release(slots[reached[:, -2:].any(axis=1) | (time + 1 >= self.horizon)])

    def _release(self, slots: np.ndarray) -> None:
        for slot in reversed(slots.tolist()):
            if slot in self._in_use:
                del self._in_use[slot]
                self._free.append(slot)

    def _separate_siblings(self, slots: np.ndarray) -> np.ndarray | None:
        """Give siblings, which share one reset, an env each: all but the first get another slot with the same seed."""
        _, first = np.unique(slots, return_index=True)
        if len(first) == len(slots):
            return slots
        others = np.setdiff1d(np.arange(len(slots)), first)
        started = self._start(self._seeds[slots[others]])
        if started is None:
            return None
        slots = slots.copy()
        slots[others] = started[0]
        return slots

    def _take(self, count: int) -> np.ndarray:
        """Slots for ``count`` episodes: free ones, then new ones, then the oldest in use."""
        made = len(self._seeds)
        new = min(max(count - len(self._free), 0), max(MAX_SLOTS - made, count - made, 0))
        self._free[:0] = range(made + new - 1, made - 1, -1)
        if new:
            self._seeds = np.concatenate([self._seeds, np.zeros(new, np.int64)])
        while len(self._free) < count:
            oldest = next(iter(self._in_use))
            del self._in_use[oldest]
            self._free.append(oldest)
        slots = [self._free.pop() for _ in range(count)]
        self._in_use.update(dict.fromkeys(slots))
        return np.array(slots, np.int64)

    def _call(self, task: str, slots: np.ndarray, values: Any, time: int) -> np.ndarray | None:
        """Reset or step the envs in ``slots``. On a failure, store its message, close all envs and return None."""
        try:
            if self._envs is None:
                self._envs = self._open()
            chosen = slots.tolist()
            return self._envs.reset(chosen, values) if task == "reset" else self._envs.step(chosen, values)
        except StepFailure as failure:
            when = "when it was reset" if task == "reset" else f"at step {time + 1} of an episode"
            seed = "" if failure.slot is None else f" (seed {self._seeds[failure.slot]})"
            problem = f"{failure.reason} {when}{seed}"
        except Exception as error:  # no exception may pass through a compiled program
            problem = f"failed with {type(error).__name__}: {error}"
        self.failure = (
            f"env {self.name!r} {problem}. An env must return finite observations of one shape. "
            "Fix the env, then continue from the last checkpoint with --resume."
        )
        self._close()
        return None


class EnvWorkers:
    """Worker processes, each with its own `EnvSlots`. Slot s belongs to worker s mod n."""

    def __init__(self, factory: Factory, workers: int):
        import cloudpickle

        pickled = cloudpickle.dumps(factory)
        self.workers = [Worker(pickled) for _ in range(workers)]
        for worker in self.workers:
            worker.receive()

    def reset(self, slots: list[int], seeds: list[int]) -> np.ndarray:
        return self._distribute("reset", np.asarray(slots), np.asarray(seeds))

    def step(self, slots: list[int], actions: np.ndarray) -> np.ndarray:
        return self._distribute("step", np.asarray(slots), actions)

    def close(self) -> None:
        for worker in self.workers:
            worker.close()

    def _distribute(self, task: str, slots: np.ndarray, values: np.ndarray) -> np.ndarray:
        parts = [np.flatnonzero(slots % len(self.workers) == i) for i in range(len(self.workers))]
        busy = [(worker, part) for worker, part in zip(self.workers, parts, strict=True) if len(part)]
        for worker, part in busy:
            chosen = values[part]
            worker.send(task, slots[part].tolist(), chosen.tolist() if task == "reset" else chosen)
        answers = [worker.receive() for worker, _ in busy]
        result = np.empty((len(slots), answers[0].shape[1]), np.float32)
        for (_, part), answer in zip(busy, answers, strict=True):
            result[part] = answer
        return result


class Worker:
    """One process of `edl.interop.env_worker`, and the pipe to it."""

    def __init__(self, pickled_factory: bytes, stderr: int | None = None):
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-m", "edl.interop.env_worker", str(theirs.fileno())]
        self.process = subprocess.Popen(command, pass_fds=[theirs.fileno()], stderr=stderr)
        theirs.close()
        self.pipe = Connection(ours.detach())
        self.pipe.send_bytes(pickled_factory)

    def send(self, *message: Any) -> None:
        try:
            self.pipe.send(message)
        except OSError:
            raise StepFailure(None, self._exit_reason()) from None

    def receive(self) -> Any:
        """The answer of the worker. A failure in the worker is raised here."""
        try:
            answer = self.pipe.recv()
        except (EOFError, OSError):
            raise StepFailure(None, self._exit_reason()) from None
        if isinstance(answer, tuple):
            raise StepFailure(*answer)
        return answer

    def close(self) -> None:
        """Close the pipe, which ends the process; kill it after two seconds."""
        self.pipe.close()
        try:
            self.process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def _exit_reason(self) -> str:
        status = self.process.wait()
        return f"crashed its worker process ({f'signal {-status}' if status < 0 else f'exit status {status}'})"
