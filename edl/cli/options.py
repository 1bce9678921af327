"""From words to a `RunConfig`.

Which options there are depends on the methods that a run names, so words are read twice: first for the names alone,
then, by tyro, with the options of just those methods. A preset gives defaults, a saved config changes some, and flags
come last.
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import tyro

from edl.runs import store
from edl.runs.presets import RECIPES, complete
from edl.runs.result import from_json
from edl.runs.config import DERIVED, RunConfig

NAMES = ("env", "preset", "explore", "discover")
"""Settings that decide which options there are."""
HELP = {
    "env": "A world of `edl list`, the path of a maze text file, a Gymnasium id, or module:name of what makes one.",
    "features": "In a Gymnasium world: the dimensions of its observations that skills are about, e.g. '0,1'.",
    "horizon": "In a Gymnasium world: the steps of an episode (0: the world's own, up to 200).",
    "explore": "An explorer of `edl list`, or dataset:PATH (.npz, .npy, .csv, .parquet, or a Minari id).",
    "discover": "A discoverer of `edl list`.",
    "preset": f"Where defaults come from: {' or '.join(RECIPES)}.",
    "num_skills": "How many skills to discover.",
    "num_seeds": "How many seeds to run, all in one program.",
    "seed": "The first seed.",
    "region": "Restrict p(s) to a region, e.g. 'x > 0 and abs(y) < 2'.",
    "out": "The folder for the run.",
    "config": "A saved config.json to start from; flags override it.",
    "resume": "Continue the run in --out.",
}
TYPES: dict[str, Any] = {"horizon": int, "num_skills": int, "num_seeds": int, "seed": int, "resume": bool}
METAVARS = {
    "out": "DIR",
    "config": "FILE",
    "region": "EXPRESSION",
    "env": "WORLD",
    "features": "DIMS",
    "explore": "NAME",
    "discover": "NAME",
}


def given(words: Sequence[str], name: str) -> str | None:
    """The value that the words give to ``--name``, if any: the last one counts."""
    flag, value = f"--{name.replace('_', '-')}", None
    for word, following in zip(words, (*words[1:], None), strict=False):
        head, equals, tail = word.partition("=")
        if head.replace("_", "-") == flag:
            value = tail if equals else following
    return value


def has_flag(words: Sequence[str], name: str) -> bool:
    """Whether a switch is on."""
    return f"--{name}" in words


def starting_point(words: Sequence[str], method: str = "edl") -> RunConfig:
    """The config that flags are applied to: saved in the folder to resume, or in --config, or the preset's."""
    named: dict[str, Any] = {name: value for name in NAMES if (value := given(words, name)) is not None}
    out, file = given(words, "out"), given(words, "config")
    if has_flag(words, "resume") and out is not None and (Path(out) / store.CONFIG).is_file():
        folder = store.open_run(out)
        return from_json(folder.read_json(store.CONFIG), str(folder.place(store.CONFIG)), method=method, **named)
    if file is not None:
        return from_json(store.parse_json(store.read_file(file), file), file, method=method, **named)
    return complete(RunConfig(method=method, **named))


def read(
    words: Sequence[str], base: RunConfig, prog: str, about: str, fields: Sequence[str], nested: Sequence[str]
) -> Any:
    """Read all words with tyro: ``fields`` of the run, and the options of the ``nested`` configs it has."""
    options = [(name, *_plain_field(name, base)) for name in fields]
    options += [(name, *_nested_field(getattr(base, name))) for name in nested if getattr(base, name) is not None]
    form = dataclasses.make_dataclass("Options", options, kw_only=True, frozen=True)
    config = (tyro.conf.SuppressFixed,)
    return tyro.cli(form, args=list(words), prog=prog, description=about, config=config)


def merged(base: RunConfig, options: Any) -> RunConfig:
    """The config that the options ask for."""
    changes = {}
    for field in dataclasses.fields(options):
        value = getattr(options, field.name)
        if field.name in ("explorer", "scout", "discoverer", "learner", "baseline"):
            changes[field.name] = _filled(getattr(base, field.name), value)
        elif field.name in RunConfig.__dataclass_fields__:
            changes[field.name] = value
    return dataclasses.replace(base, **changes)


def _plain_field(name: str, base: RunConfig) -> tuple[Any, Any]:
    default = getattr(base, name, False if TYPES.get(name) is bool else None)
    kind = TYPES.get(name, str if default is not None else str | None)
    argument = tyro.conf.arg(help=HELP[name], metavar=METAVARS.get(name))
    return Annotated[kind, argument], dataclasses.field(default=default)


def _nested_field(config: Any) -> tuple[Any, Any]:
    form = _without_derived(type(config))
    values = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
    return form, dataclasses.field(default=form(**values))


def _without_derived(config: type) -> type:
    """The same config, with the fields that the run sets by itself hidden from the command line."""
    hidden = [
        (field.name, Annotated[Any, tyro.conf.Suppress], dataclasses.field(default=field.default))
        for field in dataclasses.fields(config)
        if field.name in DERIVED
    ]
    return dataclasses.make_dataclass(config.__name__, hidden, bases=(config,), kw_only=True, frozen=True)


def _filled(config: Any, form: Any) -> Any:
    names = [field.name for field in dataclasses.fields(config) if field.name not in DERIVED]
    return dataclasses.replace(config, **{name: getattr(form, name) for name in names})
