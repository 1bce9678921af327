"""Pictures of what skills do, in envs that can be seen: robots, and Gymnasium envs that render."""

from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Int, UInt8

from edl.artifacts import SkillPolicy
from edl.envs.base import Env
from edl.envs.host import HostEnv
from edl.envs.mjx.env import MjxEnv, MjxMaze
from edl.envs.mjx.render import NO_RENDERER, render_poses
from edl.envs.rollout import Episode

NUM_PICTURES, MAX_ROWS = 6, 16
"""Pictures per rollout, and the number of skills that are shown: all of those in the tables of robots."""


class Film(NamedTuple):
    """Pictures of each skill after ``times`` steps; or no frames, and the ``problem`` says why."""

    name: str
    frames: UInt8[np.ndarray, "k f h w 3"] | None
    times: Int[np.ndarray, " f"]
    problem: str = ""


def film_of(env: Env, policy: SkillPolicy, episodes: Episode) -> Film | None:
    """Pictures of one rollout of each skill of one seed, or of the first `MAX_ROWS`; None if the env cannot be seen."""
    if isinstance(env, MjxEnv | MjxMaze):
        times = _times(env.horizon)
        return Film("robot", _robot_frames(env, episodes, times), times, NO_RENDERER)
    if not isinstance(env, HostEnv):
        return None
    from edl.interop import pictures  # imports Gymnasium

    times = _times(int(np.sum(np.asarray(episodes.valid)[:MAX_ROWS], axis=-1).max()))
    found = pictures.skill_pictures(env, jax.device_put(policy), policy.codes[:MAX_ROWS], times.tolist())
    return None if found is None else Film("pictures", found.frames, times, found.problem)


def film_figure(film: Film | None) -> dict[str, Any]:
    """The pictures as a figure, by its name; a message if they could not be rendered."""
    from edl import figures

    if film is None:
        return {}
    if film.frames is None:
        return {film.name: figures.message_figure(film.problem)}
    return {film.name: figures.filmstrip_figure(film.frames, film.times.tolist())}


def film_caption(film: Film | None, num_skills: int) -> dict[str, str]:
    """The caption of the pictures, by the name of their figure, if they do not show all skills."""
    from edl import figures

    if film is None or film.frames is None or len(film.frames) == num_skills:
        return {}
    _, caption = figures.OTHER_CAPTIONS[film.name]
    return {film.name: caption.replace("each skill", f"each of the first {len(film.frames)} skills")}


def _robot_frames(
    env: MjxEnv | MjxMaze, episodes: Episode, times: Int[np.ndarray, " f"]
) -> UInt8[np.ndarray, "k f h w 3"] | None:
    """Pictures of the first rollout of each skill; None if there is no renderer."""
    poses = np.asarray(episodes.observations)[:MAX_ROWS, 0][:, times, : env.physics.model.nq]
    frames = render_poses(env, poses.reshape(-1, poses.shape[-1]))
    return None if frames is None else frames.reshape(*poses.shape[:2], *frames.shape[1:])


def _times(last: int) -> Int[np.ndarray, " f"]:
    return np.linspace(0, last, NUM_PICTURES).astype(int)
