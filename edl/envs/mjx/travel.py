"""What the structure of a model says about features that are positions: can the robot travel, is its floor empty?

The answers decide on defaults. A goal of a robot that travels is reached within one unit, as in the literature, and its
far goals are far; an empty floor need not be observed.
"""

from typing import Any, NamedTuple

import numpy as np

from edl.envs.features import Features
from edl.envs.mjx.library import load_library


class Track(NamedTuple):
    """A position of a robot that nothing limits: x (``axis`` 0) or y (1) of its root ``body``, at an index of qpos."""

    index: int
    body: int
    axis: int


def are_place(selection: Features, model: Any, bodies: tuple[int, ...] = ()) -> bool:
    """Whether the features are x or y of a robot that can travel without limit.

    A gripper does not get far, a puck does not move by itself, and a height is no place to go to: for these, one unit
    may be more than all they can reach. ``bodies`` are those whose positions are observed. Not known of a function.
    """
    if callable(selection):
        return False
    tracks, first = tracks_of(model), model.nq + model.nv
    dims = {track.index for track in tracks}
    for number, body in enumerate(bodies):
        dims |= {first + 3 * number + track.axis for track in tracks if track.body == model.body_rootid[body]}
    return set(selection) <= dims


def are_place_on_floor(selection: Features, model: Any) -> bool:
    """Whether the features are x and y of the only thing that moves, on a level floor without anything fixed to it.

    Then nothing depends on the place or on the heading: what a robot has learned in one place holds in all of them.
    """
    if callable(selection) or selection != (0, 1):
        return False
    joint, geom = load_library().mujoco.mjtJoint, load_library().mujoco.mjtGeom
    fixed = model.geom_bodyid == 0
    level = np.abs(model.geom_quat[fixed][:, 1:3]).max(initial=0.0) < 1e-6  # rotations about z at most
    sideways = np.any(model.opt.gravity[:2]) or np.any(model.opt.wind[:2])
    return bool(
        model.jnt_type[0] == joint.mjJNT_FREE
        and np.all(model.body_rootid[1:] == model.jnt_bodyid[0])
        and np.all(model.geom_type[fixed] == geom.mjGEOM_PLANE)
        and level
        and not sideways
        and not is_tied_to_world(model)
    )


def tracks_of(model: Any) -> list[Track]:
    """The tracks of all robots of a model: of root bodies with a free joint or with slide joints along x or y."""
    library = load_library().mujoco
    data = library.MjData(model)
    library.mj_kinematics(model, data)
    robots = roots_with_actuators(model)
    found = []
    for joint, (kind, body, index) in enumerate(zip(model.jnt_type, model.jnt_bodyid, model.jnt_qposadr, strict=True)):
        if body not in robots or model.jnt_limited[joint]:
            continue
        if kind == library.mjtJoint.mjJNT_FREE:
            found += [Track(int(index) + axis, int(body), axis) for axis in (0, 1)]
        elif kind == library.mjtJoint.mjJNT_SLIDE:
            along = np.abs(data.xaxis[joint][:2]) > 1 - 1e-6
            found += [Track(int(index), int(body), axis) for axis in np.flatnonzero(along).tolist()]
    return found


def roots_with_actuators(model: Any) -> set[int]:
    """The bodies directly in the world of which some part has an actuator. A tendon may pull at any of them."""
    kinds, all_bodies = load_library().mujoco.mjtTrn, range(1, model.nbody)
    owners = {
        kinds.mjTRN_JOINT: model.jnt_bodyid,
        kinds.mjTRN_JOINTINPARENT: model.jnt_bodyid,
        kinds.mjTRN_SITE: model.site_bodyid,
        kinds.mjTRN_BODY: np.arange(model.nbody),
    }
    found = set()
    for kind, target in zip(map(kinds, model.actuator_trntype), model.actuator_trnid[:, 0], strict=True):
        moved = [owners[kind][target]] if kind in owners else all_bodies
        found |= {int(model.body_rootid[body]) for body in moved}
    return found


def is_tied_to_world(model: Any) -> bool:
    """Whether an equality, a tendon or an actuator refers to something that is fixed in the world."""
    # As numbers of NumPy, the kinds would not be found in a tuple of MuJoCo's enums.
    library = load_library().mujoco
    equality, wrap, transmission = library.mjtEq, library.mjtWrap, library.mjtTrn
    bodies: list[int] = []
    for kind, of, *ends in zip(
        map(equality, model.eq_type), model.eq_objtype, model.eq_obj1id, model.eq_obj2id, strict=True
    ):
        if kind in (equality.mjEQ_CONNECT, equality.mjEQ_WELD):
            bodies += [model.site_bodyid[end] for end in ends] if of == library.mjtObj.mjOBJ_SITE else ends
    for kind, target in zip(map(wrap, model.wrap_type), model.wrap_objid, strict=True):
        if kind == wrap.mjWRAP_SITE:
            bodies.append(model.site_bodyid[target])
        elif kind in (wrap.mjWRAP_SPHERE, wrap.mjWRAP_CYLINDER):
            bodies.append(model.geom_bodyid[target])
    for kind, ends in zip(map(transmission, model.actuator_trntype), model.actuator_trnid, strict=True):
        if kind in (transmission.mjTRN_SITE, transmission.mjTRN_SLIDERCRANK):
            bodies += [model.site_bodyid[end] for end in ends if end >= 0]
    return 0 in bodies
