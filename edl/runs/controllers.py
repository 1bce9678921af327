"""The controllers of `edl downstream`: what they are trained on, and their file in the run folder.

run = edl.load("runs/square")
controllers = run.controllers()
skill = controllers.choose(key, observation, seed=0, task=3)  # the row of run.policy.codes to play next
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from edl.artifacts import SkillPolicy
from edl.config import ConfigError
from edl.hierarchy.controller import ControlConfig, controller
from edl.runs import store, tensors
from edl.runs.config import to_json, with_changes
from edl.runs.driver import Work, outline
from edl.runs.result import Run
from edl.types import Key

CONTROLLERS = "controllers.safetensors"


class Tasks(NamedTuple):
    """Goals, and the radius within which they count as reached, per dimension."""

    goals: Float[Array, "g s"]
    radius: Float[Array, " s"]


class Controllers(NamedTuple):
    """One controller per seed and task. The arrays of ``policy`` have the leading axes (seeds, tasks)."""

    policy: SkillPolicy
    tasks: Tasks
    config: ControlConfig

    def choose(self, key: Key, observation: Float[Array, " o"], seed: int = 0, task: int = 0) -> Int[Array, ""]:
        """Draw the skill to play for the next ``config.hold`` steps. ``seed`` and ``task`` are indices."""
        one: SkillPolicy = jax.tree.map(lambda leaf: leaf[seed, task], self.policy)
        return one.act(key, observation, one.codes[0])


def controller_work(run: Run, tasks: Tasks, config: ControlConfig) -> Work:
    """The training of a run's controllers, for the driver."""
    inputs = (run.env, run.policy, tasks.goals, tasks.radius, config)
    return Work(controller, inputs, (False, True, False, False, False))


def save_controllers(run: Run, controllers: Controllers) -> None:
    """Write the controllers to the folder of their run, with their tasks and settings."""
    assert run.path is not None
    notes = {**_as_lists(controllers.tasks), "control": to_json(controllers.config)}
    store.open_run(run.path).save(CONTROLLERS, controllers.policy, notes)


def load_controllers(run: Run) -> Controllers:
    """The controllers that `edl downstream` saved in the folder of a loaded run."""
    folder = None if run.path is None else store.open_run(run.path)
    if folder is None or run.policy is None or not folder.has(CONTROLLERS):
        raise ConfigError(f"{str(run.path)!r} has no controllers. Train them with `edl downstream`.")
    whose = str(folder.place(CONTROLLERS))
    notes = tensors.notes_of(folder.read(CONTROLLERS), whose)
    try:
        tasks = Tasks(*(jnp.asarray(notes[name], jnp.float32) for name in Tasks._fields))
        config = with_changes(ControlConfig(), notes["control"], whose)
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(f"{whose} is damaged ({error}). Run `edl downstream` again.") from error
    skeleton = outline(controller_work(run, tasks, config), run.config.num_seeds).artifact
    return Controllers(folder.load(CONTROLLERS, skeleton), tasks, config)


def _as_lists(tasks: Tasks) -> dict[str, PyTree]:
    return {name: jax.device_get(value).tolist() for name, value in tasks._asdict().items()}
