"""``edl export RUN``: the policy of a run as one Python file that needs only NumPy, or as ONNX."""

import dataclasses
import shlex
from pathlib import Path
from typing import Annotated, Literal

import tyro

from edl.cli.console import new_console, print_labelled
from edl.cli.options import EnvAgain, RunFolder
from edl.config import ConfigError
from edl.runs import store
from edl.runs.result import Run, load

ABOUT = "Write the policy pi(a|s,z) of a run to a file that needs neither edl nor JAX."


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """Options of ``edl export``."""

    run: RunFolder
    out: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """File to write. RUN/policy.py or RUN/policy.onnx by default."""
    format: Literal["numpy", "onnx"] = "numpy"
    """A Python file that needs only NumPy, or an ONNX graph."""
    index: int = 0
    """Index of the run's seed, starting at 0."""
    env: EnvAgain = None


def main(words: list[str]) -> int:
    options = tyro.cli(Options, args=words, prog="edl export", description=ABOUT)
    with store.locked(store.open_run(options.run), shared=True):
        run = load(options.run, env=options.env)
    if run.policy is None:
        raise ConfigError(f"{options.run!r} has no policy. Run `edl learn {shlex.quote(options.run)}` first.")
    suffix, data = (".onnx", _onnx(run, options)) if options.format == "onnx" else (".py", _numpy(run, options))
    place = Path(options.run) / f"policy{suffix}" if options.out is None else options.out
    store.check_writable(place)
    store.write_file(place, data)
    print_labelled(new_console(), "wrote", str(place))
    return 0


def _numpy(run: Run, options: Options) -> bytes:
    from edl.interop.numpy_policy import exported

    one = run.seed(options.index)
    assert one.policy is not None
    about = f"{run.config.num_skills} skills for {run.config.env}, seed {run.config.seed + options.index}, by edl"
    return exported(one.policy, about, one.skills).encode()


def _onnx(run: Run, options: Options) -> bytes:
    from edl.interop.onnx_policy import to_onnx

    return to_onnx(run.numpy_policy(options.index))
