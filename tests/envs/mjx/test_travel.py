"""Defaults depend on whether features are a place: x and y of a robot that can travel, on a floor that may be empty."""

import pytest

from edl.interop.env_names import make_env
from edl.runs.config import RunConfig
from edl.runs.presets import complete
from tests.envs.mjx.models import ARM, write

pytest.importorskip("mujoco.mjx")

GRIPPER = """
<mujoco model="gripper">
  <worldbody>
    <body name="hand" pos="0 0 1">
      <joint name="x" type="slide" axis="1 0 0" {limit}/>
      <joint name="y" type="slide" axis="0 -1 0" {limit}/>
      <joint name="lift" type="slide" axis="0 0 1"/>
      <geom size="0.1"/>
      <body name="finger" pos="0.1 0 0">
        <joint name="bend" type="hinge" axis="0 1 0"/>
        <geom size="0.05"/>
      </body>
    </body>
    <body name="puck" pos="1 0 0.1">
      <freejoint name="puck_joint"/>
      <geom size="0.1"/>
      <site name="edge" pos="0.1 0 0"/>
    </body>
  </worldbody>
  <actuator>
    {motor}
  </actuator>
</mujoco>
"""
LIMITED, FREE = 'limited="true" range="-0.3 0.3"', ""
ON_X, ON_PUCK = '<motor joint="x"/>', '<motor site="edge" gear="1 0 0 0 0 0"/>'


@pytest.mark.parametrize(
    ("features", "limit", "motor", "expected"),
    [
        ("x,y", FREE, ON_X, True),
        ("x", FREE, ON_X, True),
        ("finger.x,finger.y", FREE, ON_X, True),  # a part of the robot goes where the robot goes
        ("x,y", LIMITED, ON_X, False),  # less than a unit is all that it can reach
        ("x,lift", FREE, ON_X, False),
        ("finger.x,finger.z", FREE, ON_X, False),
        ("x,bend", FREE, ON_X, False),
        ("puck_joint.x,puck_joint.y", FREE, ON_X, False),  # it has no actuator
        ("puck.x,puck.y", FREE, ON_X, False),
        ("puck.x,puck.y", FREE, ON_PUCK, True),
        ("x,y", FREE, ON_PUCK, False),
        (lambda observation: observation[:2], FREE, ON_X, False),
    ],
)
def test_a_place_is_x_and_y_of_a_robot_that_can_travel(tmp_path, features, limit, motor, expected):
    xml = GRIPPER.format(limit=limit, motor=motor)
    assert make_env(write(tmp_path, xml), features=features).features_are_place == expected


def test_a_slanted_joint_is_no_coordinate(tmp_path):
    xml = GRIPPER.format(limit=FREE, motor=ON_X).replace('axis="0 -1 0"', 'axis="1 1 0"')
    assert not make_env(write(tmp_path, xml), features="x,y").features_are_place


@pytest.mark.parametrize("features", ["hand", "hand.x,hand.y", "crate.x,crate.y", "shoulder", "hand,wrist"])
def test_an_arm_that_is_fixed_to_the_world_has_no_place(tmp_path, features):
    assert not make_env(write(tmp_path, ARM), features=features).features_are_place


@pytest.mark.parametrize(
    ("name", "features", "expected"),
    [
        ("ant", None, True),
        ("ant", "torso.x,torso.y", True),
        ("ant", "torso.z", False),
        ("half_cheetah", None, True),
        ("half_cheetah", "bthigh", False),
    ],
)
def test_the_built_in_robots_travel(name, features, expected):
    assert make_env(name, features=features).features_are_place == expected


WALKER = """
<mujoco model="walker">
  <worldbody>
    <geom name="floor" type="plane" size="9 9 1"/>
    {fixed}
    <body name="torso" pos="0 0 1">
      <freejoint name="root"/>
      <geom size="0.2"/>
      <site name="collar"/>
      <body name="leg" pos="0.2 0 0">
        <joint name="hip" type="hinge" axis="0 1 0"/>
        <geom size="0.1"/>
      </body>
    </body>
    {loose}
  </worldbody>
  {tied}
  <actuator>
    <motor joint="hip"/>
  </actuator>
</mujoco>
"""
BOX = '<geom type="box" size="1 1 1" pos="5 0 0"/>'
RAMP = '<geom type="plane" size="9 9 1" euler="0 20 0"/>'
CRATE = '<body pos="3 0 1"><freejoint/><geom size="0.2"/></body>'


def walker(fixed: str = "", loose: str = "", tied: str = "") -> str:
    return WALKER.format(fixed=fixed, loose=loose, tied=tied)


@pytest.mark.parametrize(
    ("fixed", "loose", "features", "expected"),
    [
        ("", "", "root.x,root.y", True),
        ("", "", "0,1", True),
        ("", "", "1,0", False),
        ("", "", "root.x", False),  # a goal that is an x does not say where y is
        ("", "", "root.x,root.z", False),
        ("", "", "leg.x,leg.y", False),
        ("", "", lambda observation: observation[:2], False),
        (BOX, "", "root.x,root.y", False),
        (RAMP, "", "root.x,root.y", False),
        ("", CRATE, "root.x,root.y", False),
    ],
)
def test_nothing_depends_on_the_place_on_an_empty_floor(tmp_path, fixed, loose, features, expected):
    env = make_env(write(tmp_path, walker(fixed, loose)), features=features)
    assert env.features_are_place_on_floor == expected


@pytest.mark.parametrize("option", ['gravity="1 0 -9.81"', 'wind="0 1 0"'])
def test_a_force_to_one_side_makes_the_heading_matter(tmp_path, option):
    xml = walker().replace("<worldbody>", f"<option {option}/><worldbody>")
    assert not make_env(write(tmp_path, xml), features="root.x,root.y").features_are_place_on_floor


def test_a_robot_on_slide_joints_is_not_known_to_be_on_a_floor(tmp_path):
    assert not make_env(write(tmp_path), features="x,y").features_are_place_on_floor


POLE = '<site name="pole" pos="2 0 1"/>'
TIES = {
    "connect": '<equality><connect body1="torso" anchor="0 0 0"/></equality>',
    "weld of sites": '<equality><weld site1="collar" site2="pole"/></equality>',
    "tendon": (
        '<tendon><spatial limited="true" range="0 3"><site site="collar"/><site site="pole"/></spatial></tendon>'
    ),
    "actuator": '<actuator><motor site="collar" refsite="pole" gear="1 0 0 0 0 0"/></actuator>',
}


@pytest.mark.parametrize("tied", TIES.values(), ids=TIES)
def test_a_leash_to_the_world_makes_the_place_matter(tmp_path, tied):
    xml = walker(fixed=POLE, tied=tied)
    assert not make_env(write(tmp_path, xml), features="root.x,root.y").features_are_place_on_floor


def test_ties_between_its_own_parts_do_not_matter(tmp_path):
    tied = '<equality><connect body1="torso" body2="leg" anchor="0.1 0 0"/></equality>'
    assert make_env(write(tmp_path, walker(tied=tied)), features="root.x,root.y").features_are_place_on_floor


@pytest.mark.parametrize(
    ("fixed", "features", "inputs", "far"),
    [("", "root.x,root.y", "egocentric", 0.4), (BOX, "root.x,root.y", "world", 0.2), ("", "root.z", "world", 0.0)],
)
def test_an_explorer_sees_an_empty_floor_from_the_robot(tmp_path, fixed, features, inputs, far):
    env = write(tmp_path, walker(fixed))
    explorer = complete(RunConfig(env=env, features=features)).explorer
    assert (explorer.inputs, explorer.far) == (inputs, far)
