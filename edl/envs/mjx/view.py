"""What a robot on a free joint sees in its own frame, on a floor where neither its place nor its heading matters.

psi is the heading: the angle from the x-axis of the world to that of the body, in the plane. Everything that has a
direction in the world is turned by -psi about z. What is left does not change if the robot is moved or turned:

    [z, R(-psi) q, joints, R(-psi) v, omega, speeds of the joints]

MuJoCo has the velocity v of a free joint in the world's frame, and its angular velocity omega in the body's.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float

from edl.types import Scalar


def heading(quaternion: Float[Array, " 4"]) -> Scalar:
    """psi; 0 if the x-axis of the body is vertical."""
    w, x, y, z = quaternion
    return jnp.arctan2(2 * (x * y + w * z), 1 - 2 * (y * y + z * z))


def turned(vector: Float[Array, " 2"], angle: Scalar) -> Float[Array, " 2"]:
    """A vector of the plane, turned by -``angle``."""
    x, y = vector
    cos, sin = jnp.cos(angle), jnp.sin(angle)
    return jnp.stack([cos * x + sin * y, cos * y - sin * x])


def turned_quaternion(quaternion: Float[Array, " 4"], angle: Scalar) -> Float[Array, " 4"]:
    """A rotation followed by one of -``angle`` about z. Of the two quaternions, the one whose real part is positive."""
    w, x, y, z = quaternion
    cos, sin = jnp.cos(angle / 2), jnp.sin(angle / 2)
    product = jnp.stack([cos * w + sin * z, cos * x + sin * y, cos * y - sin * x, cos * z - sin * w])
    return jnp.where(product[0] < 0, -product, product)


def own_view(qpos: Float[Array, " q"], qvel: Float[Array, " v"]) -> tuple[Float[Array, " o"], Scalar]:
    """The observation in the robot's frame, without x and y, and the heading."""
    quaternion = qpos[3:7] / jnp.linalg.norm(qpos[3:7])
    angle = heading(quaternion)
    parts = [qpos[2:3], turned_quaternion(quaternion, angle), qpos[7:], turned(qvel[:2], angle), qvel[2:]]
    return jnp.concatenate(parts), angle
