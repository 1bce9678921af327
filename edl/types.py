"""Type aliases that every module shares.

Axis letters used in shape annotations: ``b`` batch, ``n`` samples, ``t`` time, ``e`` episodes, ``o`` observation,
``s`` features of the state (the part that skills control), ``a`` action, ``z`` code of a skill, ``k`` number of skills.
"""

from typing import TypeAlias

import jaxtyping
from jaxtyping import Array, Float, PRNGKeyArray

Key: TypeAlias = PRNGKeyArray
Keys: TypeAlias = jaxtyping.Key[Array, "..."]
"""An array of keys, e.g. one per seed."""
Scalar: TypeAlias = Float[Array, ""]
Metrics: TypeAlias = dict[str, Array]
"""A flat dict of scalars with the same keys at every step, so that a scan can stack it."""
