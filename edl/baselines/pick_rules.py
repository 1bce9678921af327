"""Rules by which methods pick a skill for a state x, and `with_pick_rule`, which adds a rule to a method's policy.

For a method without a rule, evaluation picks the skill whose practice episodes end nearest to x.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from edl.artifacts import PickRule, SkillPolicy
from edl.nets.mlp import MLP
from edl.nets.quantiser import nearest
from edl.program import Program

S = TypeVar("S")
NUM_STARTS = 16
"""Number of start states over which a rule that depends on s_0 averages."""


class MostLikelySkill(PickRule):
    """argmax_z q(z|x), from the logits of a classifier."""

    classifier: MLP
    rule: ClassVar[str] = "argmax_z q(z|x)"

    def __call__(self, target: Float[Array, " s"]) -> Int[Array, ""]:
        return jnp.argmax(self.classifier(target))


class NearestMean(PickRule):
    """argmax_z q(x|z), where q(x|z) is a Gaussian around ``means[z]`` whose variance does not depend on z."""

    means: Float[Array, "k s"]
    rule: ClassVar[str] = "argmax_z q(x|z)"

    def __call__(self, target: Float[Array, " s"]) -> Int[Array, ""]:
        return nearest(target, self.means)


def with_pick_rule(program: Program[S, SkillPolicy], rule_of: Callable[[Any], PickRule]) -> Program[S, SkillPolicy]:
    """The same program, but its policy has a rule, which ``rule_of`` makes from the objective's final state."""

    def finish(state: Any) -> SkillPolicy:
        return dataclasses.replace(program.finish(state), pick=rule_of(state.objective))

    return dataclasses.replace(program, finish=finish)
