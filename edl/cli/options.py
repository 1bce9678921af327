"""Flags of the command line as a `RunConfig`.

The methods of a run decide which flags exist, so the words are read twice: first for the names of the methods, then by
tyro with the settings of these methods as flags. A preset gives the defaults, a saved config changes some of them, and
flags override both.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import tyro

from edl.interop.env_names import allow_import
from edl.runs import store
from edl.runs.config import DERIVED, NESTED, RunConfig
from edl.runs.loggers import LogTarget
from edl.runs.many_seeds import seeds_folder
from edl.runs.presets import RECIPES, complete, from_json, with_time
from edl.runs.result import saved_config

NAMES = ("env", "preset", "explore", "discover")
"""The settings that decide which flags exist."""


OF_THE_RUN = object()


class Flag(NamedTuple):
    """The help, the placeholder and the type of a flag. Without a type it is a text, which may be left out.

    Without a ``default`` it is that of the run.
    """

    help: str
    metavar: str | None = None
    type: Any = None
    default: Any = OF_THE_RUN


ENV_AGAIN = "The env of the run. Only needed if it is imported as module:name, because importing it runs code."

FLAGS = {
    "env": Flag(
        "Name of an env (see `edl list`), path of a maze text file, random:8x8?seed=7, Gymnasium id, or module:name of "
        "a factory.",
        "ENV",
    ),
    "features": Flag(
        "Dimensions of the observation that the skills are about, e.g. '0,1'. Only for envs that offer a choice, such "
        "as Gymnasium envs.",
        "DIMS",
    ),
    "horizon": Flag("Steps per episode; 0 uses the env's own horizon.", type=int),
    "timed": Flag(
        "Let the policy see the time left in the episode (not in mazes and robots). By default if the explorer or the "
        "learner needs it.",
        type=bool | None,
        default=None,
    ),
    "explore": Flag(
        "Name of an explorer (see `edl list`), or dataset:PATH (.npz, .npy, .csv, .parquet, or a Minari id).", "NAME"
    ),
    "discover": Flag("Name of a discoverer (see `edl list`).", "NAME"),
    "preset": Flag(f"Source of the default settings: {' or '.join(RECIPES)}."),
    "num_skills": Flag("Number of skills.", type=int),
    "num_seeds": Flag("Number of seeds. As many seeds at a time as suit the devices.", type=int),
    "seed": Flag("First seed.", type=int),
    "region": Flag("Restrict p(s) to a region, e.g. 'x > 0 and abs(y) < 2'.", "EXPRESSION"),
    "out": Flag("Folder of the run. By default runs/ENV-METHOD, with a number if it exists.", "DIR"),
    "config": Flag("Saved config.json to start from; flags override it.", "FILE"),
    "resume": Flag("Continue the run in --out.", type=bool),
    "executor": Flag(
        "Where the seeds run: all in this process (local), or in chunks in worker processes or on a Ray cluster.",
        type=Literal["local", "processes", "ray"],
        default="local",
    ),
    "workers": Flag("Number of workers of processes and ray; 0 uses what suits them.", type=int, default=0),
    "address": Flag(
        "Address of the Ray cluster: host:port or auto. Default: a new local one.", "ADDRESS", default=None
    ),
    "log": Flag(
        "Also log to this tool. csv writes RUN-log.csv and tensorboard RUN-tensorboard, next to the folder of the run. "
        "tensorboard and wandb need more packages: in a checkout, pip install '.[log]'.",
        type=LogTarget,
        default="none",
    ),
}

RunFolder = Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="RUN", help="Folder of a run.")]
EnvAgain = Annotated[str | None, tyro.conf.arg(metavar="ENV", help=ENV_AGAIN)]


def wants_help(words: Sequence[str]) -> bool:
    return "-h" in words or "--help" in words


def given(words: Sequence[str], name: str) -> str | None:
    """The last value that the words give to ``--name``, if any."""
    flag, value = f"--{name.replace('_', '-')}", None
    for word, following in zip(words, (*words[1:], None), strict=False):
        head, equals, tail = word.partition("=")
        if head.replace("_", "-") == flag:
            value = tail if equals else following
    return value


def starting_point(words: Sequence[str], method: str = "edl") -> RunConfig:
    """The config that flags are applied to: saved in the folder to resume, saved in --config, or the preset's.

    Seeds on an executor have a folder of their own until they are joined.
    """
    named: dict[str, Any] = {name: value for name in NAMES if (value := given(words, name)) is not None}
    # Recipes for envs in JAX depend on these as well.
    named |= {} if (features := given(words, "features")) is None else {"features": features}
    named |= {"horizon": int(steps)} if (steps := given(words, "horizon") or "").isdecimal() else {}
    if "env" in named:
        allow_import(named["env"])
    out, file = given(words, "out"), given(words, "config")
    places = [] if out is None or "--resume" not in words else [Path(out), seeds_folder(out)]
    if place := next((place for place in places if (place / store.CONFIG).is_file()), None):
        folder = store.open_run(place)
        saved_config(folder)  # its message names the file
        return from_json(folder.read_json(store.CONFIG), str(folder.place(store.CONFIG)), method=method, **named)
    if file is not None:
        return from_json(store.parse_json(store.read_file(file), file), file, method=method, **named)
    return complete(RunConfig(method=method, **named))


def read(
    words: Sequence[str],
    base: RunConfig,
    prog: str,
    about: str,
    flags: Mapping[str, Flag],
    nested: Sequence[str],
) -> Any:
    """Parse all words with tyro: ``flags`` of the run, and the settings of those ``nested`` configs that it has."""
    fields = [(name, *_plain_field(name, flag, base)) for name, flag in flags.items()]
    fields += [(name, *_nested_field(getattr(base, name))) for name in nested if getattr(base, name) is not None]
    form = dataclasses.make_dataclass("Options", fields, kw_only=True, frozen=True)
    config = (tyro.conf.SuppressFixed,)
    return tyro.cli(form, args=list(words), prog=prog, description=about, config=config)


def merged(base: RunConfig, options: Any) -> RunConfig:
    """``base`` with the settings of the parsed options."""
    changes = {}
    for field in dataclasses.fields(options):
        value = getattr(options, field.name)
        if field.name in NESTED:
            changes[field.name] = _with_settings(getattr(base, field.name), value)
        elif field.name in RunConfig.__dataclass_fields__:
            changes[field.name] = value
    asked = changes.pop("timed", None)
    config = dataclasses.replace(base, **changes)
    if asked is None and _algorithm(config) == _algorithm(base):
        return config
    return with_time(dataclasses.replace(config, timed=asked))  # another learner may need it


def _algorithm(config: RunConfig) -> str | None:
    return None if config.learner is None else config.learner.algorithm


def _plain_field(name: str, flag: Flag, base: RunConfig) -> tuple[Any, Any]:
    default = getattr(base, name, False if flag.type is bool else None)
    if flag.default is not OF_THE_RUN:
        default = flag.default
    kind = flag.type or (str if default is not None else str | None)
    return Annotated[kind, tyro.conf.arg(help=flag.help, metavar=flag.metavar)], dataclasses.field(default=default)


def _nested_field(config: Any) -> tuple[Any, Any]:
    form = _without_derived(type(config))
    values = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
    return form, dataclasses.field(default=form(**values))


def _without_derived(config: type) -> type:
    """The same config, with the settings that the run derives hidden from the command line."""
    hidden = [
        (field.name, Annotated[Any, tyro.conf.Suppress], dataclasses.field(default=field.default))
        for field in dataclasses.fields(config)
        if field.name in DERIVED
    ]
    return dataclasses.make_dataclass(config.__name__, hidden, bases=(config,), kw_only=True, frozen=True)


def _with_settings(config: Any, form: Any) -> Any:
    names = [field.name for field in dataclasses.fields(config) if field.name not in DERIVED]
    return dataclasses.replace(config, **{name: getattr(form, name) for name in names})
