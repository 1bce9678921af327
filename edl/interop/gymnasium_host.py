"""The `Host` of Gymnasium worlds: lends an environment to every episode, and steps all episodes of a batch together."""

import socket
import subprocess
import sys
import threading
from multiprocessing.connection import Connection
from typing import Any

import gymnasium
import numpy as np
from jaxtyping import Array, Float, Int

from edl.envs.host import NOBODY
from edl.interop.env_worker import Bench, Factory, StepFailure

MOST_SLOTS = 8192
"""Environments at most. Beyond it the one that was lent first is taken back: its episode was given up."""


class GymnasiumHost:
    """Lends a slot, and the environment in it, to every episode; takes it back after the last step."""

    def __init__(self, name: str, factory: Factory, first: gymnasium.Env, horizon: int, workers: int = 0):
        self.name, self.horizon, self.workers = name, horizon, workers
        self.size = int(np.prod(first.observation_space.shape or ()))
        self.failure: str | None = None
        self._factory, self._first, self._lock = factory, first, threading.Lock()
        self._bench: Bench | Crew | None = None
        self._forget()

    def reset(self, seeds: Int[Array | np.ndarray, "*b"]) -> Float[np.ndarray, "*b r"]:
        """Begin an episode per seed: its ticket, then its first observation."""
        seeds = np.asarray(seeds)
        answer = np.full((seeds.size, 1 + self.size), np.nan, np.float32)
        with self._lock:
            if self.failure is None and (begun := self._begin(seeds.reshape(-1))) is not None:
                answer[:, 0], answer[:, 1:] = begun
        return answer.reshape(*seeds.shape, -1)

    def step(self, moves: Float[Array | np.ndarray, "*b m"]) -> Float[np.ndarray, "*b r"]:
        """Ticket (or `NOBODY`), time and action to ticket, observation, terminated and truncated."""
        moves = np.asarray(moves)
        rows = moves.reshape(-1, moves.shape[-1])
        answer = np.full((len(rows), 3 + self.size), np.nan, np.float32)
        with self._lock:
            if self.failure is None and np.isfinite(rows[:, 0]).all():
                self._advance(rows, answer)
        return answer.reshape(*moves.shape[:-1], -1)

    def close(self) -> None:
        """End the workers and close the environments; the next reset makes new ones."""
        with self._lock:
            if self._bench is not None:
                self._bench.close()
            self._forget()

    def _forget(self) -> None:
        self._bench, self._free, self._lent = None, [], {}
        self._seeds = np.zeros(0, np.int64)

    def _begin(self, seeds: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        """A slot for each seed, and its first observation."""
        slots = self._lend(len(seeds))
        self._seeds[slots] = seeds
        observations = self._guarded("reset", slots, seeds.tolist(), 0)
        return None if observations is None else (slots, observations)

    def _advance(self, rows: np.ndarray, answer: np.ndarray) -> None:
        going = np.flatnonzero(rows[:, 0] != NOBODY)
        if len(going) < len(rows):
            rows = rows[going]
        if not len(rows):
            return
        slots, now = rows[:, 0].astype(np.int64), int(rows[0, 1])
        if now == 0 and (slots := self._told_apart(slots)) is None:
            return
        reached = self._guarded("step", slots, rows[:, 2:], now)
        if reached is None:
            return
        answer[going, 0], answer[going, 1:] = slots, reached
        self._take_back(slots[reached[:, -2:].any(axis=1) | (now + 1 >= self.horizon)])

    def _take_back(self, slots: np.ndarray) -> None:
        for slot in reversed(slots.tolist()):
            if slot in self._lent:
                del self._lent[slot]
                self._free.append(slot)

    def _told_apart(self, slots: np.ndarray) -> np.ndarray | None:
        """Siblings share the first state of one reset: all but the first of them get an environment of their own."""
        _, first = np.unique(slots, return_index=True)
        if len(first) == len(slots):
            return slots
        twins = np.setdiff1d(np.arange(len(slots)), first)
        begun = self._begin(self._seeds[slots[twins]])
        if begun is None:
            return None
        slots = slots.copy()
        slots[twins] = begun[0]
        return slots

    def _lend(self, count: int) -> np.ndarray:
        """Slots for so many episodes: free ones, then new ones, then those lent longest ago."""
        made = len(self._seeds)
        new = min(max(count - len(self._free), 0), max(MOST_SLOTS - made, count - made, 0))
        self._free[:0] = range(made + new - 1, made - 1, -1)
        if new:
            self._seeds = np.concatenate([self._seeds, np.zeros(new, np.int64)])
        while len(self._free) < count:
            oldest = next(iter(self._lent))
            del self._lent[oldest]
            self._free.append(oldest)
        slots = [self._free.pop() for _ in range(count)]
        self._lent.update(dict.fromkeys(slots))
        return np.array(slots, np.int64)

    def _guarded(self, task: str, slots: np.ndarray, values: Any, now: int) -> np.ndarray | None:
        """Do it, or note what went wrong: the first failure is kept, and all environments are given up."""
        try:
            if self._bench is None:
                first, self._first = self._first, None
                self._bench = Crew(self._factory, self.workers) if self.workers else Bench(self._factory, first)
            chosen = slots.tolist()
            return self._bench.reset(chosen, values) if task == "reset" else self._bench.step(chosen, values)
        except StepFailure as failure:
            when = "when it was reset" if task == "reset" else f"at step {now + 1} of an episode"
            seed = "" if failure.slot is None else f" (seed {self._seeds[failure.slot]})"
            what = failure.what
        except Exception as error:  # whatever it is, it must not go through a compiled program
            when, seed, what = "while it was stepped", "", f"failed with {type(error).__name__}: {error}"
        self.failure = (
            f"world {self.name!r} {what} {when}{seed}: a finite observation of one shape is wanted. "
            "Mend the environment, then go on from the last checkpoint with --resume."
        )
        if self._bench is not None:
            self._bench.close()
        self._forget()
        return None


class Crew:
    """Worker processes, each with a bench; slot s belongs to worker s mod n."""

    def __init__(self, factory: Factory, workers: int):
        import cloudpickle

        recipe = cloudpickle.dumps(factory)
        self.workers = [Worker(recipe) for _ in range(workers)]
        for worker in self.workers:
            worker.receive()

    def reset(self, slots: list[int], seeds: list[int]) -> np.ndarray:
        """First observations."""
        return self._share("reset", np.asarray(slots), np.asarray(seeds))

    def step(self, slots: list[int], actions: np.ndarray) -> np.ndarray:
        """Observations, terminated and truncated."""
        return self._share("step", np.asarray(slots), actions)

    def close(self) -> None:
        """End the processes."""
        for worker in self.workers:
            worker.close()

    def _share(self, task: str, slots: np.ndarray, values: np.ndarray) -> np.ndarray:
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

    def __init__(self, recipe: bytes):
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-m", "edl.interop.env_worker", str(theirs.fileno())]
        self.process = subprocess.Popen(command, pass_fds=[theirs.fileno()])
        theirs.close()
        self.pipe = Connection(ours.detach())
        self.pipe.send_bytes(recipe)

    def send(self, *message: Any) -> None:
        """Hand on a task."""
        try:
            self.pipe.send(message)
        except OSError:
            raise StepFailure(None, self._how_it_died()) from None

    def receive(self) -> Any:
        """Its answer; a failure there is a failure here."""
        try:
            answer = self.pipe.recv()
        except (EOFError, OSError):
            raise StepFailure(None, self._how_it_died()) from None
        if isinstance(answer, tuple):
            raise StepFailure(*answer)
        return answer

    def close(self) -> None:
        """Let it end, or make it."""
        self.pipe.close()
        try:
            self.process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def _how_it_died(self) -> str:
        status = self.process.wait()
        return f"took its worker process down ({f'signal {-status}' if status < 0 else f'exit status {status}'})"
