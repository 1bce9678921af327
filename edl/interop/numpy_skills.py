"""Skills in plain NumPy: pi(a|s,z) without JAX, e.g. on a robot or in a web server.

This file needs NumPy only. `edl export` copies it into a new file and appends the arrays of a policy:

    from policy import skills
    action = skills.mode(observation, 3)  # skill number 3
    action = skills.act(rng, observation, 0.5 * skills.codes[3] + 0.5 * skills.codes[4])  # any code, e.g. a blend
    number = skills.pick(state)  # the skill for reaching a state, in the features that skills are about

If ``skills.horizon`` is not 0, a skill lasts that many steps and is at its goal after the last one. Tell it how many
steps ago it began: ``skills.act(rng, observation, 3, time=t)``. With ``time=skills.horizon - k`` it has k steps left.
"""

import base64
import io
from typing import Any

import numpy as np

EDGE = 1e-6


class NumpySkills:
    """pi(a|s,z) from the arrays of a trained policy. Observations and codes may have leading axes."""

    def __init__(self, kind: str, arrays: dict[str, np.ndarray]):
        self.kind, self.arrays = kind, {name: np.asarray(array) for name, array in arrays.items()}
        self.codes = self.arrays["codes"]
        self.goals = self.arrays.get("goals")  # one state per skill; None for methods without goals
        self.layers, self.encoder = self._layers(""), self._layers("encoder_")
        self.horizon = int(self.arrays.get("horizon", 0))  # 0: skills do not depend on the time

    def _layers(self, prefix: str) -> list[tuple[np.ndarray, np.ndarray]]:
        count = sum(name.startswith(f"{prefix}weight") for name in self.arrays)
        return [(self.arrays[f"{prefix}weight{i}"], self.arrays[f"{prefix}bias{i}"]) for i in range(count)]

    def __repr__(self) -> str:
        goals = "" if self.goals is None else f" with goals in {self.goals.shape[-1]} features"
        return f"NumpySkills: {self.num_skills} skills{goals}; mode, act, pick, codes, goals, horizon"

    @property
    def num_skills(self) -> int:
        return len(self.codes)

    def params(self, observation: Any, code: Any, time: int = 0) -> np.ndarray:
        """The output of the network. ``code`` is a code, or the number of a skill."""
        seen = np.asarray(observation, np.float32)
        if self.horizon:
            left = np.log1p(max(self.horizon - time, 0)) / np.log1p(self.horizon)
            seen = np.concatenate([seen, np.full((*seen.shape[:-1], 1), left, np.float32)], axis=-1)
        seen = (seen - self.arrays["mean"]) / self.arrays["scale"]
        code = np.asarray(code)
        code = self.codes[code] if np.issubdtype(code.dtype, np.integer) else code.astype(np.float32)
        shape = np.broadcast_shapes(seen.shape[:-1], code.shape[:-1])
        parts = [np.broadcast_to(part, (*shape, part.shape[-1])) for part in (seen, code)]
        x = np.concatenate(parts, axis=-1)
        for weight, bias in self.layers[:-1]:
            x = np.maximum(x @ weight + bias, 0.0)
        weight, bias = self.layers[-1]
        return x @ weight + bias

    def mode(self, observation: Any, code: Any, time: int = 0) -> np.ndarray:
        """The deterministic action: the mean of a continuous pi(a|s,z), the mode of a discrete one."""
        params = self.params(observation, code, time)
        if self.kind == "categorical":
            return np.asarray(np.argmax(params, axis=-1))
        first, second = np.split(params, 2, axis=-1)
        if self.kind == "beta":
            alpha, beta = _softplus(first) + 1.05, _softplus(second) + 1.05
            return self._scaled(alpha / (alpha + beta))
        return self._scaled((np.clip(np.tanh(first), EDGE - 1, 1 - EDGE) + 1) / 2)

    def act(self, rng: np.random.Generator, observation: Any, code: Any, time: int = 0) -> np.ndarray:
        """Draw a ~ pi(a|s,z)."""
        params = self.params(observation, code, time)
        if self.kind == "categorical":
            return np.asarray(np.argmax(params + rng.gumbel(size=params.shape), axis=-1))
        first, second = np.split(params, 2, axis=-1)
        if self.kind == "beta":
            unit = rng.beta(_softplus(first) + 1.05, _softplus(second) + 1.05)
        else:
            drawn = np.tanh(first + np.exp(np.clip(second, -5.0, 2.0)) * rng.normal(size=first.shape))
            unit = (drawn + 1) / 2
        return self._scaled(np.clip(unit, EDGE, 1 - EDGE))

    def pick(self, state: Any) -> Any:
        """The number of the skill for reaching a state, or one number per row: by q(z|s), or by the nearest goal."""
        x = np.asarray(state, np.float32)
        if "state_mean" in self.arrays:
            x = (x - self.arrays["state_mean"]) / self.arrays["state_scale"]
            for i, (weight, bias) in enumerate(self.encoder):
                x = x @ weight + bias
                x = x if i + 1 == len(self.encoder) else np.maximum(x, 0.0)
            rows = self.arrays.get("encoded_codes", self.codes)
            x = x[..., : rows.shape[-1]]
        elif self.goals is not None:
            rows = self.goals
        else:
            raise ValueError("these skills have no goals and no q(z|s) to pick by. Pick by where their rollouts end.")
        found = np.argmin(np.sum((x[..., None, :] - rows) ** 2, axis=-1), axis=-1)
        return int(found) if found.ndim == 0 else found

    def _scaled(self, unit: np.ndarray) -> np.ndarray:
        low, high = self.arrays["low"], self.arrays["high"]
        return (low + (high - low) * unit).astype(np.float32)

    def to_text(self) -> str:
        """All arrays as text."""
        file = io.BytesIO()
        np.savez_compressed(file, **self.arrays)  # type: ignore[arg-type]
        return base64.b64encode(file.getvalue()).decode("ascii")

    @classmethod
    def from_text(cls, kind: str, text: str) -> "NumpySkills":
        """The inverse of `to_text`."""
        with np.load(io.BytesIO(base64.b64decode(text)), allow_pickle=False) as arrays:
            return cls(kind, dict(arrays))


def _softplus(x: np.ndarray) -> np.ndarray:
    return np.logaddexp(x, 0.0)
