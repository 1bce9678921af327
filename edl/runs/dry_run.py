"""The dry run: settings that a run cannot finish with are rejected before anything is computed or written.

The start and the end of every stage are traced, which finds settings that do not fit together, and sizes are estimated.
What a step of a program needs in between is known only to the compiler. So programs with unusually large settings are
compiled too.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax

from edl.config import ConfigError
from edl.runs.config import RunConfig
from edl.runs.driver import Outline
from edl.runs.lanes import program_memory
from edl.runs.limits import check_estimates, check_memory, large_settings, traced, usable_memory
from edl.runs.pipeline import outlines, plan, work_of
from edl.runs.resolve import Context

BYTES_PER_ENV_STEP = 2048
"""More than the episodes of one iteration usually take in memory, per env step."""


def dry_run(
    config: RunConfig, context: Context, known: Mapping[str, Any] | None = None, until: str | None = None
) -> None:
    """Reject settings that a run cannot finish with. ``known`` are artifacts of finished stages."""
    found = traced(lambda: outlines(config, context, known, until))
    check_estimates(config, found)
    if large_settings(config) or any(is_large(each) for each in found.values()):
        check_programs(config, context, known or {}, until)


def is_large(facts: Outline) -> bool:
    return facts.env_steps * BYTES_PER_ENV_STEP > usable_memory()


def check_programs(config: RunConfig, context: Context, known: Mapping[str, Any], until: str | None) -> None:
    """Compile the stages for one seed, and reject those that do not fit into memory."""
    named = ", ".join(f"{path}={value}" for path, value in large_settings(config))
    config = dataclasses.replace(config, num_seeds=1)
    known = jax.tree.map(lambda leaf: leaf[:1], dict(known))
    artifacts = {**known, **{name: each.artifact for name, each in outlines(config, context, known, until).items()}}
    for stage in plan(config, until):
        if stage.name in known:
            continue
        what = f"stage {stage.name!r}" + (f" with {named}" if named else "")
        try:
            needed = program_memory(work_of(stage, config, context, artifacts), 1, None)
        except ConfigError:
            raise
        except (ArithmeticError, MemoryError, TypeError, ValueError, jax.errors.JaxRuntimeError) as error:
            reason = str(error).split("\n")[0]
            raise ConfigError(f"{what} cannot be compiled ({reason}). Choose smaller numbers.") from error
        check_memory(what, needed)
