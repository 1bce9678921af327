"""The built-in robots, and any MuJoCo model: ``ant``, ``half_cheetah``, ``ant:bottleneck`` and ``mjx:FILE.xml``.

The protocol is METRA's (Park et al., 2024): the models are those of Gym, the observation is qpos and qvel with x and y,
an action lasts 5 physics steps of 0.01 s, episodes have 200 steps and never terminate, and skills are about x and y
(Ant) or x (HalfCheetah).

    ENV = ROBOT[:MAZE][?SETTINGS]  or  mjx:FILE.xml[?SETTINGS]
    SETTINGS = physics=fast|exact, frame_skip=5, noise=0.1, joined by '&'

MAZE is anything that `edl.envs.layout_of` takes: a built-in maze, a random one, or a text file.
"""

import pathlib
from typing import Any, NamedTuple

from edl.config import check, check_name
from edl.envs.features import Features
from edl.envs.layouts import Layout
from edl.envs.maze import maze
from edl.envs.mjx.env import MjxEnv, MjxMaze
from edl.envs.mjx.features import choose_features
from edl.envs.mjx.library import load_library, read_gym_model
from edl.envs.mjx.physics import (
    Settings,
    build_physics,
    check_supported,
    compile_spec,
    invalid_model,
    model_text,
    parse_spec,
)
from edl.envs.mjx.walls import WALL_NAMES, add_near_walls, wall_map
from edl.envs.random_maze import cell_distances, is_random

HORIZON = 200
"""Steps per episode in the open."""
STEPS_PER_CELL = 40
"""Steps per cell of a maze between the start and the cell farthest from it: 0.1 units per step."""
MODEL = "mjx"
"""The word before ``:FILE.xml``."""


class Robot(NamedTuple):
    """A built-in robot: Gym's file, the features of its skills, and whether x and y are its first two positions."""

    file: str
    features: tuple[int, ...]
    in_plane: bool


ROBOTS = {
    "ant": Robot("ant.xml", (0, 1), in_plane=True),
    "half_cheetah": Robot("half_cheetah.xml", (0,), in_plane=False),
}
ROBOT_SETTINGS = Settings(physics="fast", frame_skip=5, noise=0.1, divergence="rest")
MODEL_SETTINGS = Settings(physics="exact", frame_skip=5, noise=0.01)


class RobotName(NamedTuple):
    """The parts of a name. ``place`` is a maze, the file of a model, or empty."""

    kind: str
    place: str
    settings: Settings


def is_robot(name: str) -> bool:
    """Whether a name means an env of this package."""
    kind, colon, _ = name.partition("?")[0].partition(":")
    return kind in ROBOTS or (kind == MODEL and bool(colon))


def parse_name(name: str) -> RobotName:
    """``ant:random:8x8?seed=7&physics=exact`` as its parts. Other settings than ours belong to the maze."""
    before, _, after = name.partition("?")
    kind, _, place = before.partition(":")
    words = [word for word in after.split("&") if word]
    ours = [word for word in words if "=" in word and word.partition("=")[0] in Settings._fields]
    others = [word for word in words if word not in ours]
    check(
        not others or is_random(place),
        f"env {name!r} takes the settings physics, frame_skip, noise and divergence (got {'&'.join(others)!r}). "
        f"For example: {kind}{':' * bool(place)}{place}?physics=exact.",
    )
    place = "?".join(filter(None, [place, "&".join(others)]))
    default = ROBOT_SETTINGS if kind in ROBOTS else MODEL_SETTINGS
    return RobotName(kind, place, parse_settings(name, ours, default))


def parse_settings(name: str, words: list[str], default: Settings) -> Settings:
    """``physics=exact``, ``frame_skip=2``, ``noise=0.05`` and ``divergence=error``."""
    values = dict(word.split("=", 1) for word in words)
    physics, divergence = values.get("physics", default.physics), values.get("divergence", default.divergence)
    check_name(physics, ("fast", "exact"), f"physics in env {name!r}:")
    check_name(divergence, ("rest", "error"), f"divergence in env {name!r}:")
    try:
        frame_skip, noise = int(values.get("frame_skip", default.frame_skip)), float(values.get("noise", default.noise))
    except ValueError:
        frame_skip, noise = 0, 0.0
    check(
        frame_skip >= 1 and 0.0 <= noise < float("inf"),
        f"frame_skip must be a whole number of at least 1 and noise a number of at least 0 (got env {name!r}). "
        f"For example: frame_skip={default.frame_skip}&noise={default.noise:g}.",
    )
    return Settings(physics, frame_skip, noise, divergence)  # type: ignore[arg-type]


def open_robot(name: str, features: str | Features | None = None, horizon: int = 0) -> MjxEnv:
    """A built-in robot in the open."""
    parts = parse_name(name)
    robot = ROBOTS[parts.kind]
    spec = parse_spec(name, read_gym_model(robot.file))
    return _mjx_env(name, spec, parts.settings, robot.features if features is None else features, horizon)


def robot_in_maze(name: str, layout: Layout, horizon: int = 0) -> MjxMaze:
    """A built-in robot in a maze."""
    parts = parse_name(name)
    robot = ROBOTS[parts.kind]
    check(
        robot.in_plane,
        f"env {name!r} must be a robot that moves in the plane (got {parts.kind!r}, which moves along x only). "
        f"Use {', '.join(repr(each) for each, it in ROBOTS.items() if it.in_plane)}.",
    )
    return put_in_maze(name, parse_spec(name, read_gym_model(robot.file)), parts.settings, layout, horizon)


def put_in_maze(name: str, spec: Any, settings: Settings, layout: Layout, horizon: int = 0) -> MjxMaze:
    """Any model whose first two positions are x and y, in a maze."""
    add_near_walls(spec)
    physics = build_physics(name, spec, settings, wall_geoms=WALL_NAMES)
    return MjxMaze(
        walls=wall_map(layout),
        maze=maze(layout),
        physics=physics,
        horizon=horizon or maze_horizon(layout),
        observation_size=physics.model.nq + physics.model.nv,
    )


def maze_horizon(layout: Layout) -> int:
    """`STEPS_PER_CELL` steps for each cell on the way to the farthest cell, and at least `HORIZON`."""
    return max(HORIZON, STEPS_PER_CELL * int(cell_distances(layout).max()))


def robot_from_model(name: str, xml: str, features: str | Features | None = None, horizon: int = 0) -> MjxEnv:
    """A user's own model. ``xml`` is its text, as `read_model` returns it."""
    parts = parse_name(name)
    folder = str(pathlib.Path(parts.place).parent)
    return _mjx_env(name, parse_spec(name, xml, folder), parts.settings, features, horizon)


def read_model(name: str) -> str:
    """The text of the model that a name gives, with included files. Meshes and textures stay in their own files.

    The text has the absolute paths of their folders, so that it can be read from any working directory.
    """
    library, path = load_library(), pathlib.Path(parse_name(name).place)
    check(
        path.is_file(),
        f"the model of env {name!r} cannot be read: there is no file {str(path)!r}. Use mjx:FILE.xml.",
    )
    try:
        spec = library.mujoco.MjSpec.from_file(str(path))
    except ValueError as error:
        raise invalid_model(name, error) from error
    compile_spec(name, spec)
    folder = path.parent.resolve()
    if any(each.file for each in (*spec.meshes, *spec.hfields, *spec.skins)):
        spec.meshdir = str(folder / spec.meshdir)
    if any(each.file for each in spec.textures):
        spec.texturedir = str(folder / spec.texturedir)
    return model_text(spec)


def _mjx_env(name: str, spec: Any, settings: Settings, features: str | Features | None, horizon: int) -> MjxEnv:
    model = compile_spec(name, spec)
    check_supported(name, model)
    chosen = choose_features(features, model, name)
    return MjxEnv(
        physics=build_physics(name, spec, settings, bodies=chosen.bodies),
        chosen_features=chosen.written,
        selection=chosen.selection,
        horizon=horizon or HORIZON,
        observation_size=chosen.observation_size,
        feature_size=chosen.feature_size,
    )


def ant(horizon: int = HORIZON) -> MjxEnv:
    """Gym's Ant on MJX, METRA's protocol: skills about x and y."""
    return open_robot("ant", horizon=horizon)


def half_cheetah(horizon: int = HORIZON) -> MjxEnv:
    """Gym's HalfCheetah on MJX, METRA's protocol: skills about x."""
    return open_robot("half_cheetah", horizon=horizon)
