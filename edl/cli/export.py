"""``edl export RUN``: the policy of a run as one Python file that needs NumPy alone, or as ONNX."""

import dataclasses
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.console import Console

from edl.config import ConfigError
from edl.runs import store
from edl.runs.result import Run, load

ABOUT = "The policy pi(a|s,z) of a run as a file that needs neither edl nor JAX."


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """Where to, and what."""

    out: Annotated[str | None, tyro.conf.arg(help="The file; RUN/policy.py or RUN/policy.onnx by default.")] = None
    format: Annotated[Literal["numpy", "onnx"], tyro.conf.arg(help="A Python file with NumPy, or an ONNX graph.")] = (
        "numpy"
    )
    index: Annotated[int, tyro.conf.arg(help="Which of the run's seeds, counted from 0.")] = 0


def export(words: list[str]) -> int:
    """``edl export``."""
    path = words[0] if words and not words[0].startswith("-") else None
    rest = words if path is None else words[1:]
    options = tyro.cli(Options, args=rest, prog="edl export RUN", description=ABOUT)
    if path is None:
        raise ConfigError("RUN is missing: `edl export RUN ...` is wanted. Put it first.")
    run = load(path)
    if run.policy is None:
        raise ConfigError(f"{path!r} has no policy: skills are wanted. Run `edl learn {path}` first.")
    suffix, data = (".onnx", _onnx(run, options.index)) if options.format == "onnx" else (".py", _numpy(run, options))
    place = Path(path) / f"policy{suffix}" if options.out is None else Path(options.out)
    folder = store.Folder(place.parent)
    if not place.parent.is_dir():
        raise ConfigError(f"{str(place.parent)!r} is no folder: one that exists is wanted. Choose another --out.")
    folder.write(place.name, data)
    Console().print(f"wrote {place}", markup=False, highlight=False, soft_wrap=True)
    return 0


def _numpy(run: Run, options: Options) -> bytes:
    from edl.interop.numpy_policy import exported

    policy = run.seed(options.index).policy
    assert policy is not None
    about = f"{run.config.num_skills} skills for {run.config.env}, seed {run.config.seed + options.index}, by edl"
    return exported(policy, about).encode()


def _onnx(run: Run, index: int) -> bytes:
    from edl.interop.onnx_policy import to_onnx

    return to_onnx(run.numpy_policy(index))
