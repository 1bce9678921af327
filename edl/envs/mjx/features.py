"""The features of a MuJoCo model by name: ``--features "torso.x,torso.y"``, ``"shoulder,elbow"`` or ``"0,1"``.

A feature is one of

* a number: a dimension of the observation, which is qpos followed by qvel,
* a joint: its position (a hinge or slide joint has one number, a ball joint four, a free joint x, y and z),
* a body: its position x, y and z in the world, which is then appended to the observation,
* ``NAME.x``, ``NAME.y`` or ``NAME.z``: one coordinate of a free joint or of a body.

A name that both a joint and a body have means the joint.
"""

from typing import Any, NamedTuple

from edl.config import ConfigError
from edl.envs.features import Features, count_features, parse_features
from edl.envs.mjx.library import load_library

AXES = {"x": 0, "y": 1, "z": 2}


class ChosenFeatures(NamedTuple):
    """Features of a model: as they are written in config.json, and as a selection from the observation.

    ``bodies`` are the bodies whose positions are appended to the observation.
    """

    written: Any
    selection: Features
    bodies: tuple[int, ...]
    observation_size: int
    feature_size: int


def choose_features(features: str | Features | None, model: Any, name: str) -> ChosenFeatures:
    """The features of an env called ``name``, whose model is an ``MjModel``."""
    size = model.nq + model.nv
    if features is None or callable(features):
        selection = parse_features(features, size)
        return ChosenFeatures(selection, selection, (), size, count_features(selection, size))
    parts = [part.strip() for part in features.split(",")] if isinstance(features, str) else list(map(str, features))
    if all(_is_number(part) for part in parts):
        selection = parse_features(",".join(parts), size)
        return ChosenFeatures(selection, selection, (), size, count_features(selection, size))
    named = _Names(model, name)
    dims = tuple(dim for part in parts for dim in named.dims_of(part))
    if len(set(dims)) != len(dims):
        raise ConfigError(f"features of env {name!r} must differ (got {features!r}). Leave out the repetition.")
    bodies = tuple(named.bodies)
    return ChosenFeatures(tuple(parts), dims, bodies, size + 3 * len(bodies), len(dims))


class _Names:
    """Looks up names in a model, and collects the bodies that were named."""

    def __init__(self, model: Any, name: str):
        self.model, self.name = model, name
        self.bodies: list[int] = []
        objects = load_library().mujoco.mjtObj
        self.joint_kind, self.body_kind = objects.mjOBJ_JOINT, objects.mjOBJ_BODY

    def dims_of(self, part: str) -> tuple[int, ...]:
        """The dimensions of the observation that a feature means."""
        if _is_number(part):
            return tuple(parse_features(part, self.model.nq + self.model.nv))  # type: ignore[arg-type]
        joint, body = self._find(part)
        if joint >= 0:
            return self._position_of(joint)
        if body >= 0:
            return self._place(body)
        owner, dot, axis = part.rpartition(".")
        joint, body = self._find(owner)
        if dot and axis in AXES and joint >= 0 and self._is_free(joint):
            return (self._position_of(joint)[AXES[axis]],)
        if dot and axis in AXES and body >= 0:
            return (self._place(body)[AXES[axis]],)
        last = self.model.nq + self.model.nv - 1
        raise ConfigError(
            f"features of env {self.name!r} must be joints or bodies of its model, or dimensions of the observation "
            f"(got {part!r}). Its joints are {self._all_names('joint')}; its bodies are {self._all_names('body')}. "
            f"NAME.x, NAME.y and NAME.z are coordinates of a body or of a free joint; dimensions are 0 to {last}."
        )

    def _find(self, name: str) -> tuple[int, int]:
        """The numbers of the joint and of the body of that name; -1 if there is none."""
        find = load_library().mujoco.mj_name2id
        return find(self.model, self.joint_kind, name), find(self.model, self.body_kind, name)

    def _is_free(self, joint: int) -> bool:
        return self.model.jnt_type[joint] == load_library().mujoco.mjtJoint.mjJNT_FREE

    def _position_of(self, joint: int) -> tuple[int, ...]:
        kinds = load_library().mujoco.mjtJoint
        sizes = {kinds.mjJNT_FREE: 3, kinds.mjJNT_BALL: 4}
        first = int(self.model.jnt_qposadr[joint])
        return tuple(range(first, first + sizes.get(kinds(self.model.jnt_type[joint]), 1)))

    def _place(self, body: int) -> tuple[int, ...]:
        if body not in self.bodies:
            self.bodies.append(body)
        first = self.model.nq + self.model.nv + 3 * self.bodies.index(body)
        return tuple(range(first, first + 3))

    def _all_names(self, kind: str) -> str:
        count, get = (self.model.njnt, self.model.joint) if kind == "joint" else (self.model.nbody, self.model.body)
        return ", ".join(name for i in range(count) if (name := get(i).name)) or "without names"


def _is_number(part: str) -> bool:
    return part.lstrip("+-").isdecimal()
