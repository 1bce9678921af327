"""Gymnasium envs in slots, stepped one after the other: in this process, or in a worker process (`python -m`).

A worker is started as a separate program and not by `multiprocessing`, which would import the user's script again. It
imports neither JAX nor the rest of edl. Messages are small arrays over a pipe.
"""

import inspect
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any

import gymnasium
import numpy as np

Factory = Callable[[], gymnasium.Env]
PICTURE_WIDTH = 240
"""Width of a rendered picture in pixels, at most."""


class StepFailure(Exception):
    """An env failed; ``slot`` says which one, if it is known."""

    def __init__(self, slot: int | None, reason: str):
        super().__init__(slot, reason)
        self.slot, self.reason = slot, reason


class EnvSlots:
    """Envs by slot. An env is made when its slot is first used."""

    def __init__(self, factory: Factory, first: gymnasium.Env | None = None):
        self.factory = factory
        self.spare = first if first is not None else factory()
        space, actions = self.spare.observation_space, self.spare.action_space
        assert space.shape is not None  # a Box: `edl.interop.gymnasium_envs` has checked
        self.shape, self.size = space.shape, int(np.prod(space.shape))
        self.convert = _as_integer(actions) if isinstance(actions, gymnasium.spaces.Discrete) else _as_box(actions)
        self.envs: dict[int, gymnasium.Env] = {}

    def reset(self, slots: Sequence[int], seeds: Sequence[int]) -> np.ndarray:
        """First observations, one row per slot."""
        observations = []
        for slot, seed in zip(slots, seeds, strict=True):
            try:
                observations.append(self._env(slot).reset(seed=seed)[0])
            except Exception as error:
                raise StepFailure(slot, _describe(error)) from error
        return self._check(slots, observations)

    def step(self, slots: Sequence[int], actions: np.ndarray) -> np.ndarray:
        """Rows of (observation, terminated, truncated), one per slot."""
        observations, ends = [], []
        for slot, action in zip(slots, self.convert(actions), strict=True):
            try:
                observation, _, terminated, truncated, _ = self.envs[slot].step(action)
            except Exception as error:
                raise StepFailure(slot, _describe(error)) from error
            observations.append(observation)
            ends.append((terminated, truncated))
        return np.concatenate([self._check(slots, observations), np.array(ends, np.float32)], axis=1)

    def render(self, slots: Sequence[int]) -> np.ndarray:
        """One picture per slot, no wider than `PICTURE_WIDTH`."""
        pictures = []
        for slot in slots:
            try:
                picture = self.envs[slot].render()
            except Exception as error:
                raise StepFailure(slot, f"could not be rendered: it {_describe(error)}") from error
            if not isinstance(picture, np.ndarray) or picture.dtype != np.uint8 or picture.shape[2:] != (3,):
                found = f"shape {picture.shape}" if isinstance(picture, np.ndarray) else type(picture).__name__
                raise StepFailure(slot, f"returned no RGB picture from render() (got {found})")
            pictures.append(_shrunk(picture))
        return np.stack(pictures)

    def close(self) -> None:
        for env in self.envs.values():
            env.close()
        self.envs.clear()

    def _env(self, slot: int) -> gymnasium.Env:
        if slot not in self.envs:
            self.envs[slot] = self.factory() if self.spare is None else self.spare
            self.spare = None
        return self.envs[slot]

    def _check(self, slots: Sequence[int], observations: list) -> np.ndarray:
        """All observations as one array. Checking each one alone would cost as much as stepping a simple env."""
        try:
            rows = np.array(observations, np.float32)
        except (TypeError, ValueError):
            rows = np.zeros(0)
        if rows.shape != (len(slots), *self.shape):
            shapes = [np.shape(observation) for observation in observations]
            row = next((row for row, shape in enumerate(shapes) if shape != self.shape), 0)
            raise StepFailure(slots[row], f"returned an observation of shape {shapes[row]} instead of {self.shape}")
        if not np.isfinite(rows).all():
            row, column = np.argwhere(~np.isfinite(rows))[0]
            raise StepFailure(slots[row], f"returned {rows[row, column]} in dimension {column} of its observation")
        return rows


def make_rendering(factory: Factory) -> gymnasium.Env:
    """An env whose ``render()`` returns a picture. Call it in a process of its own: it sets an environment variable."""
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # pygame needs no display
    if _takes_render_mode(factory):
        return factory(render_mode="rgb_array")  # type: ignore[call-arg]
    env = factory()
    if env.render_mode is None:
        env.unwrapped.render_mode = "rgb_array"  # most envs look at it when they render
    return env


def _takes_render_mode(factory: Factory) -> bool:
    try:
        parameters = inspect.signature(factory).parameters
    except (TypeError, ValueError):  # some built-in callables have no signature
        return False
    return "render_mode" in parameters


def _as_integer(space: gymnasium.spaces.Discrete) -> Callable[[np.ndarray], list]:
    return lambda actions: (actions[:, 0].astype(np.int64) + int(space.start)).tolist()


def _as_box(space: Any) -> Callable[[np.ndarray], np.ndarray]:
    def convert(actions: np.ndarray) -> np.ndarray:
        return np.clip(actions.reshape(-1, *space.shape).astype(space.dtype), space.low, space.high)

    return convert


def _shrunk(picture: np.ndarray) -> np.ndarray:
    """The picture with blocks of pixels averaged."""
    side = -(-picture.shape[1] // PICTURE_WIDTH)
    height, width = picture.shape[0] // side, picture.shape[1] // side
    blocks = picture[: height * side, : width * side].reshape(height, side, width, side, 3)
    return blocks.mean(axis=(1, 3)).astype(np.uint8)


def _describe(error: Exception) -> str:
    """The error, and the line that raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({os.path.basename(frames[-1].filename)}, line {frames[-1].lineno})" if frames else ""
    return f"raised {type(error).__name__}: {error}{where}"


def serve(pipe: Connection) -> None:
    """The main loop of a worker: receive a factory, then reset and step envs on request."""
    # Unpickling is safe here: the factory comes from the parent process over a private pipe, and not from a file.
    import cloudpickle

    try:
        slots = EnvSlots(cloudpickle.loads(pipe.recv_bytes()))
    except Exception as error:
        pipe.send((None, _describe(error)))
        return
    pipe.send("ready")
    while True:
        try:
            task, chosen, values = pipe.recv()
        except (EOFError, KeyboardInterrupt):
            return slots.close()
        try:
            if task == "render":
                pipe.send(slots.render(chosen))
            else:
                pipe.send(slots.reset(chosen, values) if task == "reset" else slots.step(chosen, values))
        except StepFailure as failure:
            pipe.send((failure.slot, failure.reason))


if __name__ == "__main__":
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process handles Ctrl-C
    serve(Connection(int(sys.argv[1])))
