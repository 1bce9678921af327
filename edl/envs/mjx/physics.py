"""The physics of a robot: a MuJoCo model, stepped by MJX.

A `Physics` is static to ``jit``. Two of them are equal if they have the same model and settings, so an env that is made
twice compiles once. The state of an episode is only what the next step depends on: positions, velocities, activations,
the warm start of the solver, and the time. For Gym's ant that is 44 numbers. A whole ``mjx.Data`` has 21.7 kB, most
of it contacts and constraints, which every step computes again.

``fast`` changes the solver of the model: the integrator is Euler's, with 4 solver and 4 line-search iterations.
The line search rarely needs more: 4 and 8 give the same bits in 98 % of random episodes of Gym's robots.
``exact`` keeps the settings of the model. Gym's ant has RK4 with 100 and 50.

Physics can diverge, above all when a policy that is being trained presses a robot into the floor. What happens then is
the setting ``divergence``:

* ``error``: as in MuJoCo, a state with a NaN or a number above `MAX_VALUE` has diverged. All of its positions become
  NaN, so that nothing can overlook it: see `edl.envs.mjx.divergence`.
* ``rest``: a step that diverges, or after which a joint is faster than `MAX_SPEED`, is undone: the robot stays where it
  was, at rest. One robot would otherwise end a training of millions of steps. MuJoCo, and so Gym's envs, also go on:
  they put such a robot back to its start. An action that is NaN still gives NaN.
"""

import dataclasses
import functools
import warnings
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from edl.config import ConfigError, check
from edl.envs.base import Box
from edl.envs.mjx.acceleration import accelerated, runs_on_device
from edl.envs.mjx.library import load_library
from edl.envs.mjx.walls import WallMap, move_walls
from edl.types import Key

MAX_VALUE = 1e10
"""mjMAXVAL of MuJoCo: a position or velocity above it has diverged."""
MAX_SPEED = 1e3
"""With ``divergence=rest``, the largest velocity of a joint. The joints of Gym's robots stay below 100."""
GYMS_WARNING = "compiler attribute 'settotalmass' is deprecated"
"""MuJoCo says this about Gym's half-cheetah, which a user cannot change."""
FAST_ITERATIONS, FAST_LINE_SEARCH = 4, 4
Accuracy = Literal["fast", "exact"]
Divergence = Literal["rest", "error"]


class Settings(NamedTuple):
    """How a model is simulated.

    ``physics`` are the settings of the solver: see the module. ``frame_skip`` is the number of physics steps per
    action. At reset, uniform noise of up to ``noise`` is added to the positions, and normal noise with standard
    deviation ``noise`` to the velocities. ``divergence`` is what happens if the physics diverges: see the module.
    """

    physics: Accuracy = "exact"
    frame_skip: int = 5
    noise: float = 0.01
    divergence: Divergence = "error"


class PhysicsState(NamedTuple):
    """What the next step depends on. ``bodies`` are the positions of bodies that are observed."""

    qpos: Float[Array, " q"]
    qvel: Float[Array, " v"]
    act: Float[Array, " c"]
    warmstart: Float[Array, " v"]
    bodies: Float[Array, "b 3"]
    time: Int[Array, ""]


@dataclasses.dataclass(frozen=True)
class Physics:
    """A model and how it is simulated. ``xml`` is its text.

    ``bodies`` are the bodies whose positions are part of the state. ``wall_geoms`` are the four geoms that `move_walls`
    moves, if the robot is in a maze. ``spec`` is the model as it was given, and ``model`` has the settings of the
    solver. ``mjx_model`` and ``mjx_data`` have NumPy arrays as leaves, because an array on a device would tie the env
    to that device.
    """

    name: str
    xml: str
    settings: Settings
    bodies: tuple[int, ...]
    wall_geoms: tuple[int, ...]
    spec: Any = dataclasses.field(compare=False, repr=False)
    model: Any = dataclasses.field(compare=False, repr=False)
    mjx_model: Any = dataclasses.field(compare=False, repr=False)
    mjx_data: Any = dataclasses.field(compare=False, repr=False)

    @property
    def action_space(self) -> Box:
        """The control range of each actuator; [-1, 1] for an actuator without one."""
        low, high = control_range(self.model)
        return Box(jnp.asarray(low), jnp.asarray(high))

    @property
    def runs_on_device(self) -> bool:
        """Whether a GPU can run loops of steps by itself: see `edl.envs.mjx.acceleration`."""
        return runs_on_device(self.model.nv)

    def reset(self, key: Key) -> PhysicsState:
        """The model's first keyframe, or its default position if it has none, plus noise."""
        position_key, velocity_key = jax.random.split(key)
        qpos, qvel, act = (jnp.asarray(each, jnp.float32) for each in start_of(self.model))
        noise = self.settings.noise
        qpos = qpos + jax.random.uniform(position_key, qpos.shape, minval=-noise, maxval=noise)
        qvel = qvel + noise * jax.random.normal(velocity_key, qvel.shape)
        return self.observed(PhysicsState(qpos, qvel, act, jnp.zeros_like(qvel), self._no_bodies(), jnp.int32(0)))

    def step(self, state: PhysicsState, action: Float[Array, " a"], walls: WallMap | None = None) -> PhysicsState:
        """Apply an action for ``frame_skip`` physics steps."""
        low, high = self.action_space
        moved = _simulate(self, state, jnp.clip(action, low, high), walls)
        if self.settings.divergence == "rest":
            moved = stay_at_rest(state, moved, jnp.isnan(action).any())
        moved = self.observed(moved._replace(time=state.time + 1))
        stable = is_stable(moved, MAX_VALUE)
        return moved._replace(qpos=jnp.where(stable, moved.qpos, jnp.nan))

    def observed(self, state: PhysicsState) -> PhysicsState:
        """The state with the positions of its ``bodies``."""
        if not self.bodies:
            return state
        model, data = jax.tree.map(jnp.asarray, (self.mjx_model, self.mjx_data))
        places = load_library().mjx.kinematics(model, data.replace(qpos=state.qpos)).xpos
        return state._replace(bodies=places[jnp.array(self.bodies)])

    def observe(self, state: PhysicsState) -> Float[Array, " o"]:
        """Positions, velocities, and the positions of the observed bodies."""
        return jnp.concatenate([state.qpos, state.qvel, state.bodies.ravel()])

    def _no_bodies(self) -> Float[Array, "b 3"]:
        return jnp.zeros((len(self.bodies), 3))


def is_stable(state: PhysicsState, max_speed: float) -> Bool[Array, ""]:
    """Whether all numbers are small enough; false for NaN."""
    return jnp.all(jnp.abs(state.qpos) < MAX_VALUE) & jnp.all(jnp.abs(state.qvel) < max_speed)


def stay_at_rest(before: PhysicsState, after: PhysicsState, action_is_nan: Bool[Array, ""]) -> PhysicsState:
    """The state after a step, or that before it without velocities if the step diverged."""
    rest = before._replace(qvel=jnp.zeros_like(before.qvel), warmstart=jnp.zeros_like(before.warmstart))
    good = is_stable(after, MAX_SPEED) | action_is_nan
    return jax.tree.map(lambda new, old: jnp.where(good, new, old), after, rest)


@functools.partial(jax.jit, static_argnums=0)  # traced once for all programs of a run: MJX traces slowly
def _simulate(
    physics: Physics, state: PhysicsState, control: Float[Array, " a"], walls: WallMap | None
) -> PhysicsState:
    """``frame_skip`` physics steps with one control."""
    mjx = load_library().mjx
    model, data = jax.tree.map(jnp.asarray, (physics.mjx_model, physics.mjx_data))
    on_accelerator = jax.default_backend() != "cpu"

    def advance(_: Array, state: PhysicsState) -> PhysicsState:
        near = model if walls is None else move_walls(model, physics.wall_geoms, walls, state.qpos[:2])
        given = {"qpos": state.qpos, "qvel": state.qvel, "act": state.act, "qacc_warmstart": state.warmstart}
        # By default some GPUs round the factors of a matrix product to 10 bits, which is too coarse for contacts.
        with jax.default_matmul_precision("highest"), accelerated(physics.model, enabled=on_accelerator):
            after = mjx.step(near, data.replace(ctrl=control, **given))
        return state._replace(qpos=after.qpos, qvel=after.qvel, act=after.act, warmstart=after.qacc_warmstart)

    return jax.lax.fori_loop(0, physics.settings.frame_skip, advance, state)


def build_physics(
    name: str,
    spec: Any,
    settings: Settings,
    *,
    bodies: tuple[int, ...] = (),
    wall_geoms: tuple[str, ...] = (),
) -> Physics:
    """Compile a model for MJX. ``name`` is that of the env, for messages; ``wall_geoms`` are names of geoms."""
    library = load_library()
    model = compile_spec(name, spec)
    check_supported(name, model)
    if settings.physics == "fast":
        model.opt.integrator = library.mujoco.mjtIntegrator.mjINT_EULER
        model.opt.iterations, model.opt.ls_iterations = FAST_ITERATIONS, FAST_LINE_SEARCH
    try:
        mjx_model = library.mjx.put_model(model, impl="jax")
        mjx_data = library.mjx.make_data(model, impl="jax")
    except (NotImplementedError, ValueError) as error:
        raise ConfigError(
            f"MJX cannot simulate the model of env {name!r} ({error}). Replace that part of the model, or use the env "
            "through Gymnasium."
        ) from error
    return Physics(
        name=name,
        xml=model_text(spec),
        settings=settings,
        bodies=bodies,
        wall_geoms=tuple(model.geom(geom).id for geom in wall_geoms),
        spec=spec,
        model=model,
        mjx_model=jax.tree.map(np.asarray, mjx_model),
        mjx_data=jax.tree.map(np.asarray, mjx_data),
    )


def parse_spec(name: str, xml: str, folder: str = "") -> Any:
    """An ``MjSpec`` from the text of a model. Files that it names by a relative path are in ``folder``."""
    library = load_library()
    try:
        spec = library.mujoco.MjSpec.from_string(xml)
    except ValueError as error:
        raise invalid_model(name, error) from error
    if folder:
        spec.modelfiledir = folder
    return spec


def compile_spec(name: str, spec: Any) -> Any:
    """An ``MjModel``."""
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=GYMS_WARNING)
            return spec.compile()
    except ValueError as error:
        raise invalid_model(name, error) from error


def model_text(spec: Any) -> str:
    """The XML of a spec, with included files."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=GYMS_WARNING)
        return spec.to_xml()


def invalid_model(name: str, error: Exception) -> ConfigError:
    reason = " ".join(str(error).split())
    if "opening file" in reason:
        return ConfigError(
            f"the model of env {name!r} needs a file that cannot be read ({reason}). Put the file there, or correct "
            "its path in the XML."
        )
    return ConfigError(f"the model of env {name!r} is not valid MuJoCo XML ({reason}). Correct the file.")


def check_supported(name: str, model: Any) -> None:
    """Reject models in which nothing can move, or whose state is more than a `PhysicsState`."""
    check(model.nv > 0, f"the model of env {name!r} must have joints (got none). Add a <joint> to a <body> of the XML.")
    check(model.nu > 0, f"the model of env {name!r} must have actuators (got none). Add an <actuator> to the XML.")
    check(
        model.nhistory == 0 and model.npluginstate == 0,
        f"the model of env {name!r} must not have delays or plugins (got a model with them). Remove them.",
    )


def control_range(model: Any) -> tuple[Float[np.ndarray, " a"], Float[np.ndarray, " a"]]:
    """The lowest and the highest control of each actuator."""
    limited = np.asarray(model.actuator_ctrllimited, bool)
    low, high = np.asarray(model.actuator_ctrlrange, np.float32).T
    return np.where(limited, low, np.float32(-1.0)), np.where(limited, high, np.float32(1.0))


def start_of(model: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Positions, velocities and activations at reset, without noise."""
    if model.nkey:
        return model.key_qpos[0], model.key_qvel[0], model.key_act[0]
    return model.qpos0, np.zeros(model.nv), np.zeros(model.na)
