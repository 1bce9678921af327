"""A `SkillPolicy` in NumPy: `to_numpy` converts it, and `exported` writes it as one self-contained Python file."""

import importlib.resources

import jax
import jax.numpy as jnp
import numpy as np

from edl.artifacts import SkillModel, SkillPolicy, concatenate, goals_of
from edl.config import ConfigError
from edl.interop.numpy_skills import NumpySkills
from edl.nets.distributions import Beta, Categorical, TanhGaussian

KINDS = {Beta: "beta", TanhGaussian: "tanh_gaussian", Categorical: "categorical"}
WIDTH = 110


def to_numpy(policy: SkillPolicy, skills: SkillModel | None = None) -> NumpySkills:
    """Convert the policy of one seed, with the goals and q(z|s) of its skills if they are given."""
    if policy.codes.ndim != 2:
        raise ConfigError(
            f"the policy must be of one seed (got codes of shape {policy.codes.shape}). Choose one: run.seeds[0]."
        )
    kind = KINDS.get(type(policy.distribution))
    if kind is None or policy.integrate is not concatenate or policy.actor.activation is not jax.nn.relu:
        raise ConfigError(
            "a policy must be a ReLU network of the concatenated (s, z) to run without JAX (got a policy with "
            f"{type(policy.distribution).__name__} actions and inputs {getattr(policy.integrate, '__name__', '?')!r}). "
            "Use run.policy in JAX."
        )
    actor, distribution = policy.actor, policy.distribution
    arrays = {"codes": policy.codes, "mean": policy.normaliser.mean, "scale": policy.normaliser.scale}
    arrays |= {f"weight{i}": weight for i, weight in enumerate(actor.weights)}
    arrays |= {f"bias{i}": bias for i, bias in enumerate(actor.biases)}
    if policy.horizon:
        arrays["horizon"] = jnp.int32(policy.horizon)
    goals = goals_of(policy, skills)
    if goals is not None:
        arrays["goals"] = goals
    if skills is not None:
        arrays |= {"state_mean": skills.normaliser.mean, "state_scale": skills.normaliser.scale}
        if skills.codes.shape != policy.codes.shape:  # goals are the codes of the policy
            arrays["encoded_codes"] = skills.codes
        layers = [] if skills.encoder is None else zip(skills.encoder.weights, skills.encoder.biases, strict=True)
        for i, (weight, bias) in enumerate(layers):
            arrays |= {f"encoder_weight{i}": weight, f"encoder_bias{i}": bias}
    if isinstance(distribution, Beta | TanhGaussian):
        arrays |= {"low": distribution.low, "high": distribution.high}
    return NumpySkills(kind, {name: np.asarray(array) for name, array in arrays.items()})


HEADER = "# -*- coding: utf-8 -*-\n# Skills exported by edl.\n"
"""The first two lines of an exported file."""


def exported(policy: SkillPolicy, about: str, skill_model: SkillModel | None = None) -> str:
    """The text of a Python file that defines ``skills``. ``about``, the origin of the policy, is a comment."""
    source = importlib.resources.files("edl.interop").joinpath("numpy_skills.py").read_text("utf-8")
    skills = to_numpy(policy, skill_model)
    text = skills.to_text()
    lines = "\n".join(f'    "{text[i : i + WIDTH]}"' for i in range(0, len(text), WIDTH))
    # Python reads the encoding of a file from its first two lines, so these must not hold text of others.
    words = "".join(c for c in " ".join(about.split()) if c.isprintable()).replace("\\", "/")
    return f'{HEADER}# {words}\n{source}\n\nskills = NumpySkills.from_text(\n    "{skills.kind}",\n{lines},\n)\n'
