"""Gym's robots by name, and METRA's protocol. Their physics compile slowly, so one slow test steps the ant."""

import jax
import numpy as np
import pytest

from edl.config import ConfigError
from edl.envs import make
from edl.envs.mjx.library import load_library, read_gym_model
from edl.envs.mjx.physics import Settings, compile_spec, parse_spec
from edl.envs.mjx.reference import ReferenceRobot
from edl.envs.mjx.robots import RobotName, is_robot, parse_name
from edl.interop.env_names import is_maze, layout_for, make_env, needs_import, remember_factory, text_to_keep
from tests.compiling import jit
from tests.envs.mjx.models import BALL, one, play, write

pytest.importorskip("mujoco.mjx")

FAST, EXACT = Settings("fast", 5, 0.1, "rest"), Settings("exact", 5, 0.1, "rest")
HALL = "+-+-+-+\n|S    |\n+-+-+-+"


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("ant", RobotName("ant", "", FAST)),
        ("ant?physics=exact", RobotName("ant", "", EXACT)),
        ("ant:bottleneck", RobotName("ant", "bottleneck", FAST)),
        ("ant:mazes/hall.txt?physics=exact", RobotName("ant", "mazes/hall.txt", EXACT)),
        ("ant:random:8x8?seed=7&physics=exact", RobotName("ant", "random:8x8?seed=7", EXACT)),
        ("half_cheetah?frame_skip=2&noise=0", RobotName("half_cheetah", "", Settings("fast", 2, 0.0, "rest"))),
        ("mjx:my/robot.xml", RobotName("mjx", "my/robot.xml", Settings("exact", 5, 0.01))),
    ],
)
def test_names_have_parts(name, parts):
    assert is_robot(name)
    assert parse_name(name) == parts
    assert not is_maze(name)
    assert not needs_import(name)


@pytest.mark.parametrize("name", ["square", "Ant-v5", "ants", "bodies:ant", "mjx", "mjx.txt", "my.ant:Env"])
def test_other_names_are_not_robots(name):
    assert not is_robot(name)


def test_a_python_factory_may_have_the_name_of_a_robot():
    assert make_env(remember_factory(lambda: make_env("square"), "ant:mine")).observation_size == 2
    assert is_robot("ant:mine")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("ant?physics=slow", "unknown physics in env 'ant.physics=slow': 'slow'"),
        ("ant?divergence=stop", "unknown divergence in env"),
        ("ant?speed=2", "takes the settings physics, frame_skip, noise and divergence"),
        ("ant?frame_skip=0", "frame_skip must be"),
        ("ant?noise=x", "frame_skip must be"),
        ("ant:no_such_maze", "unknown env 'no_such_maze'"),
        ("ant:no_such_maze.txt", "cannot be read"),
        ("half_cheetah:square", r"moves in the plane \(got 'half_cheetah'"),
    ],
)
def test_bad_names_are_rejected(name, message):
    with pytest.raises(ConfigError, match=message):
        make_env(name)


def test_a_robot_in_a_maze_has_fixed_features():
    with pytest.raises(ConfigError, match="fixed features"):
        make_env("ant:square", features="0,1")


@pytest.mark.parametrize(("name", "sizes", "actions"), [("ant", (29, 2), 8), ("half_cheetah", (18, 1), 6)])
def test_the_protocol_is_metras(name, sizes, actions):
    env = make_env(name)
    assert (env.observation_size, env.feature_size) == sizes
    assert env.horizon == make(name).horizon == 200
    assert make(name, horizon=50).horizon == make_env(name, horizon=50).horizon == 50
    np.testing.assert_array_equal(env.action_space, [-np.ones(actions), np.ones(actions)])
    model = env.physics.model
    assert env.physics.settings.frame_skip * model.opt.timestep == pytest.approx(0.05)
    states = jit(jax.vmap(env.reset))(jax.random.split(jax.random.key(0), 2048))
    np.testing.assert_allclose(np.abs(states.qpos - model.qpos0).max(), 0.1, rtol=0.01)
    np.testing.assert_allclose(np.std(states.qvel), 0.1, rtol=0.05)
    observation = env.observe(one(states, 0))
    np.testing.assert_array_equal(observation, np.concatenate([states.qpos[0], states.qvel[0]]))
    np.testing.assert_array_equal(env.features(observation), states.qpos[0, : sizes[1]])


def test_skills_of_a_robot_can_be_about_other_features():
    assert make_env("ant", features="hip_1,torso.z").chosen_features == ("hip_1", "torso.z")


@pytest.mark.parametrize("name", ["ant", "half_cheetah"])
def test_fast_physics_changes_the_solver_and_exact_physics_does_not(name):
    integrators = load_library().mujoco.mjtIntegrator
    fast, exact = make_env(name).physics.model.opt, make_env(f"{name}?physics=exact").physics.model.opt
    own = compile_spec(name, parse_spec(name, read_gym_model(f"{name}.xml"))).opt
    assert (fast.integrator, fast.iterations, fast.ls_iterations) == (integrators.mjINT_EULER, 4, 4)
    for field in ("integrator", "iterations", "ls_iterations", "solver", "cone", "tolerance", "timestep"):
        assert getattr(exact, field) == getattr(own, field)


@pytest.mark.parametrize(
    ("name", "env_id", "options"),
    [
        ("ant", "Ant-v5", {"include_cfrc_ext_in_observation": False, "terminate_when_unhealthy": False}),
        ("half_cheetah", "HalfCheetah-v5", {}),
    ],
)
def test_the_reference_is_gyms_env(name, env_id, options):
    pytest.importorskip("imageio", reason="Gym's MuJoCo envs need it")
    import gymnasium

    env = make_env(name)
    gym = gymnasium.make(env_id, exclude_current_positions_from_observation=False, **options).unwrapped
    gym.reset(seed=0)
    start = jax.device_get(env.reset(jax.random.key(3)))
    gym.set_state(np.asarray(start.qpos, float), np.asarray(start.qvel, float))
    actions = np.random.default_rng(0).uniform(-1, 1, (30, env.action_space.size)).astype(np.float32)
    expected = np.stack([gym.step(action)[0] for action in actions])
    np.testing.assert_allclose(ReferenceRobot(env).play(start, actions)[1:], expected, atol=1e-8)
    gym.close()


def test_the_maze_of_a_robot_has_a_layout(tmp_path):
    path = tmp_path / "hall.txt"
    path.write_text(HALL)
    name = f"ant:{path}"
    assert layout_for("ant:bottleneck").name == "ant:bottleneck"
    assert layout_for(name).text == HALL
    assert layout_for("ant") is None
    assert layout_for(write(tmp_path)) is None
    assert text_to_keep("ant:bottleneck") is None
    assert text_to_keep("ant") is None
    kept = text_to_keep(name)
    assert kept == HALL
    path.unlink()
    assert layout_for(name, kept).name == name
    env = make_env(name, maze=kept)
    assert (env.horizon, env.feature_size, env.observation_size) == (200, 2, 29)


def test_the_text_of_a_model_is_kept(tmp_path):
    name = write(tmp_path)
    env, kept = make_env(name, features="y"), text_to_keep(name)
    (tmp_path / "robot.xml").unlink()
    assert make_env(name, features="y", maze=kept).physics == env.physics
    with pytest.raises(ConfigError, match="there is no file"):
        make_env(name, features="x")


@pytest.mark.slow
def test_the_ant_moves_as_in_mujoco(tmp_path):
    # The pyramid of friction has another orientation in MJX than in MuJoCo, a cone has none.
    xml = read_gym_model("ant.xml").replace('integrator="RK4"', 'integrator="RK4" cone="elliptic"')
    env = make_env(write(tmp_path, xml) + "?noise=0.1", features="0,1")
    actions = jax.random.uniform(jax.random.key(1), (3, 20, 8), minval=-1.0, maxval=1.0)
    starts = jax.vmap(env.reset)(jax.random.split(jax.random.key(0), 3))
    played = play(env, starts, actions)
    robot = ReferenceRobot(env)
    for i in range(3):
        expected = robot.play(one(starts, i), np.asarray(actions[i]))[1:]
        np.testing.assert_allclose(played[i, :, :15], expected[:, :15], atol=0.02)


MESHED = BALL.replace("<worldbody>", '<asset><mesh name="hull" file="hull.obj"/></asset><worldbody>').replace(
    '<geom size="0.5"', '<geom type="mesh" mesh="hull" contype="0"'
)
TETRAHEDRON = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n"


@pytest.mark.parametrize("meshes", ["", "meshes"])
def test_a_kept_model_finds_its_meshes_from_any_folder(tmp_path, monkeypatch, meshes):
    home = tmp_path / "home"
    (home / meshes).mkdir(parents=True)
    (home / meshes / "hull.obj").write_text(TETRAHEDRON)
    xml = MESHED.replace("<option", f'<compiler meshdir="{meshes}"/><option') if meshes else MESHED
    write(home, xml)
    monkeypatch.chdir(home)
    kept = text_to_keep("mjx:robot.xml")
    monkeypatch.chdir(tmp_path)
    assert make_env("mjx:robot.xml", maze=kept).observation_size == 4


@pytest.mark.parametrize(
    ("xml", "message"),
    [
        (MESHED, "needs a file that cannot be read .*hull.obj.* correct its path in the XML"),
        ("<mujoco>", "is not valid MuJoCo XML"),
        ("<mujoco><worldbody><geom size='1'/></worldbody></mujoco>", r"must have joints \(got none\)"),
    ],
)
def test_a_model_that_cannot_be_used_is_rejected(tmp_path, xml, message):
    with pytest.raises(ConfigError, match=message):
        make_env(write(tmp_path, xml))
