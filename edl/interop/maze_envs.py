"""Our mazes as Gymnasium environments, one at a time or a batch in one compiled step.

    from edl.interop.registration import register_envs
    register_envs()
    gymnasium.make("edl/Bottleneck-v0")
    gymnasium.make_vec("edl/Maze-v0", num_envs=1024, path="mine.txt")

Rewards are zero, because every skill has a reward of its own. The time limit is Gymnasium's ``max_episode_steps``.
"""

import pathlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from jaxtyping import Array, Bool, Float

from edl.config import ConfigError
from edl.envs import Layout, layout_of, layouts
from edl.envs.base import Step
from edl.envs.maze import HORIZON, MAX_ACTION, Maze, MazeState, maze
from edl.interop.raster import Raster
from edl.types import Key

NEXT_EPISODE = 2**31
"""Folded into the key of an episode, it gives the key of the next one. Time steps, also folded in, are smaller."""


class MazeEnv(gymnasium.Env[np.ndarray, np.ndarray]):
    """One maze: the name of an ``env``, the ``path`` of a maze text file, or the ``text`` itself."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012  Gymnasium's name and type

    def __init__(
        self,
        env: str | None = None,
        path: str | pathlib.Path | None = None,
        text: str | None = None,
        render_mode: str | None = None,
    ):
        layout = choose_layout(env, path, text)
        self.render_mode = check_render_mode(render_mode)
        self.observation_space, self.action_space = spaces(layout)
        self._maze, self._raster = maze(layout), Raster(layout)
        self._key, self._state = jax.random.key(0), None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start an episode. One draw of ``np_random`` determines its key."""
        super().reset(seed=seed)
        self._key = jax.random.key(draw_seed(self.np_random))
        self._state = _reset(self._maze, self._key)
        return np.array(self._state.position), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Move. Gymnasium's wrapper applies the time limit, so the maze itself never ends an episode."""
        if self._state is None:
            raise gymnasium.error.ResetNeeded("the env must be reset before its first step: call env.reset().")
        self._state = _step(self._maze, self._key, self._state, check_actions(action, (2,))).state
        return np.array(self._state.position), 0.0, False, False, {}

    def render(self) -> np.ndarray | None:
        """The maze seen from above, with ``render_mode="rgb_array"``."""
        if self.render_mode is None:
            return None
        return self._raster.frame(np.zeros(2) if self._state is None else np.array(self._state.position))


class MazeVectorEnv(gymnasium.vector.VectorEnv[np.ndarray, np.ndarray, np.ndarray]):
    """Many copies of one maze in one compiled step. The step after the end of an episode resets it (``NEXT_STEP``)."""

    metadata = {  # noqa: RUF012  Gymnasium's name and type
        "render_modes": ["rgb_array"],
        "render_fps": 10,
        "autoreset_mode": AutoresetMode.NEXT_STEP,
    }

    def __init__(
        self,
        num_envs: int = 1,
        max_episode_steps: int = HORIZON,
        env: str | None = None,
        path: str | pathlib.Path | None = None,
        text: str | None = None,
        render_mode: str | None = None,
    ):
        layout = choose_layout(env, path, text)
        self.num_envs, self.render_mode = num_envs, check_render_mode(render_mode)
        self.single_observation_space, self.single_action_space = spaces(layout)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._maze, self._raster = maze(layout, horizon=max_episode_steps), Raster(layout)
        self._copies: Copies | None = None

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start all episodes. As usual in Gymnasium, copy i gets seed + i. Its first episode equals `MazeEnv`'s."""
        seeds = list(range(seed, seed + self.num_envs)) if isinstance(seed, int) else seed
        super().reset(seed=seed if isinstance(seed, int) else None)
        if seeds is None:
            numbers = self.np_random.integers(2**32, size=self.num_envs, dtype=np.uint32)
        else:
            numbers = np.array([draw_seed(seeding.np_random(each)[0]) for each in seeds], np.uint32)
        keys = jax.vmap(jax.random.key)(numbers)
        self._copies = Copies(keys, _reset_all(self._maze, keys), jnp.zeros(self.num_envs, bool))
        return np.array(self._copies.states.position), {}

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Move all copies. Those whose episode has ended ignore their action and are reset."""
        if self._copies is None:
            raise gymnasium.error.ResetNeeded("the envs must be reset before their first step: call envs.reset().")
        copies: Copies = _advance_all(self._maze, self._copies, check_actions(actions, (self.num_envs, 2)))
        self._copies = copies
        terminated = np.zeros(self.num_envs, bool)
        return np.array(copies.states.position), np.zeros(self.num_envs), terminated, np.array(copies.truncated), {}

    def render(self) -> tuple[np.ndarray, ...] | None:
        """One frame per copy."""
        if self.render_mode is None:
            return None
        positions = np.zeros((self.num_envs, 2)) if self._copies is None else np.array(self._copies.states.position)
        return tuple(self._raster.frame(position) for position in positions)


def choose_layout(env: str | None, path: str | pathlib.Path | None, text: str | None) -> Layout:
    """The layout, from exactly one of the three arguments."""
    given = {"env": env, "path": path, "text": text}
    given = {name: value for name, value in given.items() if value is not None}
    if len(given) != 1:
        got = " and ".join(given) or "none"
        raise ConfigError(f"exactly one of env, path and text must be given (got {got}), e.g. path='mine.txt'.")
    if text is not None:
        return layouts.parse(text)
    return layout_of(env) if env is not None else layouts.load(pathlib.Path(str(path)))


def spaces(layout: Layout) -> tuple[gymnasium.spaces.Box, gymnasium.spaces.Box]:
    """The observation space, which is the box around the maze, and the action space."""
    low, high = (corner.astype(np.float32) for corner in layout.bounds)
    actions = gymnasium.spaces.Box(-MAX_ACTION, MAX_ACTION, (2,), np.float32)
    return gymnasium.spaces.Box(low, high, dtype=np.float32), actions


def check_render_mode(render_mode: str | None) -> str | None:
    if render_mode not in (None, "rgb_array"):
        raise ConfigError(f"render_mode must be 'rgb_array' or None (got {render_mode!r}).")
    return render_mode


def check_actions(actions: Any, shape: tuple[int, ...]) -> Float[Array, "*b 2"]:
    array = np.asarray(actions, np.float32)
    if array.shape != shape or not np.isfinite(array).all():
        raise ValueError(
            f"actions must be finite numbers of shape {shape} in [-{MAX_ACTION}, {MAX_ACTION}] (got {actions!r})."
        )
    return jnp.asarray(array)


def draw_seed(generator: np.random.Generator) -> int:
    """The seed of an episode's key."""
    return int(generator.integers(2**32, dtype=np.uint32))


class Copies(NamedTuple):
    """The current episodes: their keys, their states, and whether each was truncated by its last step."""

    keys: Key
    states: MazeState
    truncated: Bool[Array, " b"]


def reset(env: Maze, key: Key) -> MazeState:
    """s_0, from the key of the episode."""
    return env.reset(key)


def step(env: Maze, key: Key, state: MazeState, action: Float[Array, " 2"]) -> Step:
    """s_{t+1}, from the key of the episode and the time."""
    return env.step(jax.random.fold_in(key, state.time), state, action)


def advance(env: Maze, copy: Copies, action: Float[Array, " 2"]) -> Copies:
    """One step, or the first state of the next episode."""
    key = jax.random.fold_in(copy.keys, jnp.uint32(NEXT_EPISODE))
    moved = step(env, copy.keys, copy.states, action)
    next_episode = Copies(key, reset(env, key), jnp.bool_(False))
    same_episode = Copies(copy.keys, moved.state, moved.truncated)
    return jax.tree.map(lambda new, old: jnp.where(copy.truncated, new, old), next_episode, same_episode)


_reset, _step = jax.jit(reset), jax.jit(step)
_reset_all = jax.jit(jax.vmap(reset, in_axes=(None, 0)))
_advance_all = jax.jit(jax.vmap(advance, in_axes=(None, 0, 0)))
