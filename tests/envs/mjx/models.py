"""Tiny MuJoCo models: a ball on two slide joints compiles in seconds, Gym's ant in half a minute."""

from pathlib import Path

import jax
import numpy as np

from tests.compiling import jit

MASS, DAMPING, TIMESTEP, GEAR = 2.0, 0.5, 0.02, 3.0

BALL = f"""
<mujoco model="ball">
  <option timestep="{TIMESTEP}" gravity="0 0 0" cone="elliptic"/>
  <worldbody>
    <body name="ball" pos="0 0 1">
      <joint name="x" type="slide" axis="1 0 0" damping="{DAMPING}"/>
      <joint name="y" type="slide" axis="0 1 0" damping="{DAMPING}"/>
      <geom size="0.5" mass="{MASS}" conaffinity="0"/>
    </body>
  </worldbody>
  <actuator>
    <motor joint="x" gear="{GEAR}" ctrllimited="true" ctrlrange="-2 2"/>
    <motor joint="y"/>
  </actuator>
</mujoco>
"""

ARM = """
<mujoco model="arm">
  <worldbody>
    <body name="upper">
      <joint name="shoulder" type="hinge" axis="0 0 1"/>
      <geom type="capsule" fromto="0 0 0 1 0 0" size="0.1"/>
      <body name="hand" pos="1 0 0">
        <joint name="wrist" type="hinge" axis="0 0 1"/>
        <geom size="0.1"/>
      </body>
    </body>
    <body name="crate" pos="3 0 0">
      <freejoint name="crate_joint"/>
      <geom size="0.2"/>
    </body>
  </worldbody>
  <actuator>
    <motor joint="shoulder"/>
  </actuator>
</mujoco>
"""

UNSTABLE = BALL.replace('damping="0.5"', 'stiffness="1e9"')
"""An explicit integrator with this time step diverges on so stiff a spring."""


def write(folder: Path, xml: str = BALL, name: str = "robot.xml") -> str:
    """The name of the env of a model, which is written to a file."""
    path = folder / name
    path.write_text(xml)
    return f"mjx:{path}"


def one(tree, index: int):
    """One member of a batch, in NumPy."""
    return jax.tree.map(lambda x: np.asarray(x[index]), tree)


def play(env, states, actions):
    """The observations after each action, for a batch of states and of actions (b, t, a)."""

    def play_one(state, actions):
        def step(state, action):
            after = env.step(jax.random.key(0), state, action)
            return after.state, after.observation

        return jax.lax.scan(step, state, actions)[1]

    return np.asarray(jit(jax.vmap(play_one))(states, actions))
