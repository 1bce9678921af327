"""Start a run or continue one with its next stage: the part that run, explore, baseline, discover and learn share."""

import dataclasses
import re
import shlex
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from edl.api.display import progress_display
from edl.cli import options
from edl.cli.console import new_console
from edl.cli.options import ENV_AGAIN, FLAGS, Flag
from edl.cli.summary import env_flag, print_summary
from edl.cli.sweep_display import sweep_display
from edl.config import ConfigError, check
from edl.interop.env_names import allow_import
from edl.runs import run as runs
from edl.runs import store
from edl.runs.config import RunConfig
from edl.runs.executors import check_executor
from edl.runs.executors.processes import disable_preallocation
from edl.runs.interrupt import interrupted
from edl.runs.loggers import log_to
from edl.runs.many_seeds import execute_seeds, seeds_folder
from edl.runs.presets import complete, from_json
from edl.runs.progress import Progress
from edl.runs.result import Run, saved_config
from edl.runs.session import read_progress
from edl.runs.sweep import Execution

STAGED_ONLY = ("explore", "discover", "region")
"""Flags of a run with stages, which a baseline does not have."""
EXECUTION = ("executor", "workers", "address")
"""Flags of a whole run, whose seeds can run on several devices."""
COPY_TO = "New folder for a copy of the run with this stage. By default the stage is added to RUN."


def start_run(
    words: list[str], command: str, about: str, nested: Sequence[str], until: str | None = None, method: str = "edl"
) -> int:
    """Run from the beginning, or from where a run was stopped. ``nested`` are the configs whose settings are flags."""
    base = options.starting_point(words, method)
    staged = FLAGS.keys() if method == "edl" else {"explore", "region"} if "explorer" in nested else ()
    flags = {name: flag for name, flag in FLAGS.items() if name in staged or name not in STAGED_ONLY}
    flags = {name: flag for name, flag in flags.items() if until is None or name not in EXECUTION}
    parsed = options.read(words, base, f"edl {command}", about, flags, nested)
    config = options.merged(base, parsed)
    resume = parsed.resume and not _starts_again(words, parsed.out)
    out = parsed.out or (None if resume else _free_folder(config))
    if until is None:
        check_executor(parsed.executor, parsed.workers, parsed.address)
        if parsed.executor != "local":
            return _run_seeds(words, command, parsed, config, out, resume)
        if resume and out is not None and _has_seeds_only(out):
            raise ConfigError(
                f"the seeds of {str(out)!r} are in {str(seeds_folder(out))!r}: an executor has not finished them. Add "
                "--executor processes or ray."
            )

    def work(progress: Progress) -> Run:
        with log_to(parsed.log, out, config, progress) as logged:
            return runs.execute_run(config, out=out, resume=resume, until=until, progress=logged)

    again = f"{command} --out {_quoted(out)} --resume{_log_flag(parsed.log)}"
    return _with_progress(work, lambda: _after_interrupt(out, again))


def _run_seeds(
    words: list[str], command: str, parsed: Any, config: RunConfig, out: str | Path | None, resume: bool
) -> int:
    """Run the seeds in chunks on an executor, and show the state of all of them."""
    if out is None:
        raise ConfigError("resume needs the run's folder: pass --out DIR.")
    check(parsed.log == "none", f"--log {parsed.log} needs --executor local: seeds on an executor have no common log.")
    disable_preallocation()  # before JAX uses a device: workers may share it with this process
    envs = () if parsed.env is None else (parsed.env,)
    execution = Execution(parsed.executor, parsed.workers, parsed.address, envs=envs)

    def work(progress: Progress) -> Run:
        with sweep_display(new_console()) as display:
            return execute_seeds(config, out, resume=resume, execution=execution, progress=progress, watcher=display)

    again = words if "--resume" in words else [*words, "--resume"]
    again = again if parsed.out else [*again, "--out", str(out)]
    return _with_progress(work, lambda: f"Continue with: edl {command} {shlex.join(again)}")


def extend_run(words: list[str], stage: str, about: str, flags: Sequence[str], nested: Sequence[str]) -> int:
    """Run the next stage of the run whose folder is the first word."""
    source, rest = first_argument(words)
    if source is None and not options.wants_help(words):
        raise ConfigError(f"RUN is missing. Name the folder of a run first: edl {stage} RUN.")
    base = complete(RunConfig()) if source is None else _saved_config(source, rest)
    offered: dict[str, Flag] = {name: FLAGS[name] for name in flags if name != "out"}
    offered |= {"env": Flag(ENV_AGAIN, "ENV", default=None), "out": Flag(COPY_TO, "DIR"), "log": FLAGS["log"]}
    shown = about if source else f"{about} RUN is the folder of a run: `edl {stage} RUN --help` shows its own settings."
    parsed = options.read(rest, base, f"edl {stage} {source or 'RUN'}", shown, offered, nested)
    assert source is not None  # without it, `read` has printed the help and left
    named = parsed.env
    check(named in (None, base.env), f"--env must be the env of the run, {base.env!r} (got {named!r}).")
    parsed = dataclasses.replace(parsed, env=base.env)
    config, out = options.merged(base, parsed), parsed.out or source

    def work(progress: Progress) -> Run:
        with log_to(parsed.log, out, config, progress) as logged:
            return runs.extend(source, stage, config, out=parsed.out, progress=logged)

    again = shlex.join([stage, *words]) if rest and parsed.out is None else None
    log = _log_flag(parsed.log)
    return _with_progress(work, lambda: _after_interrupt(out, _command_after_stage(stage, out, again, log)))


def first_argument(words: list[str]) -> tuple[str | None, list[str]]:
    """The first word, unless it is a flag, and the rest."""
    return (words[0], words[1:]) if words and not words[0].startswith("-") else (None, words)


def _saved_config(source: str, words: Sequence[str]) -> RunConfig:
    """The config of a run, with the discoverer that the words name, and its env allowed if they name it."""
    env, discoverer = (options.given(words, name) for name in ("env", "discover"))
    if env is not None:
        allow_import(env)
    folder = store.open_run(source)
    saved_config(folder)  # rejects a config that names a file, before anything opens that file
    overrides = {} if discoverer is None else {"discover": discoverer}
    return from_json(folder.read_json(store.CONFIG), str(folder.place(store.CONFIG)), **overrides)


def _with_progress(work: Callable[[Progress], Run], after_interrupt: Callable[[], str]) -> int:
    """Show the progress of a run and print its result. After Ctrl-C, print how to continue."""
    console, began = new_console(), time.perf_counter()
    try:
        with progress_display(console) as progress:
            result = work(progress)
    except KeyboardInterrupt as stop:
        raise interrupted(after_interrupt(), stop) from stop
    print_summary(console, result, time.perf_counter() - began)
    return 0


def _after_interrupt(out: str | Path | None, command: str) -> str:
    """How to continue an interrupted run."""
    if out is None or not (Path(out) / store.CONFIG).is_file():
        return "Nothing was written."
    env = store.open_run(out).read_json(store.CONFIG)["env"]
    return f"Continue with: edl {command}{'' if '--env' in command else env_flag(env)}"


def _command_after_stage(stage: str, out: str | Path, again: str | None, log: str) -> str:
    """The command that continues after an interrupt in ``edl discover`` or ``edl learn``, or in their evaluation.

    ``again`` is the interrupted command if it has flags and works in the folder of the run: they may not be saved yet.
    """
    finished = (Path(out) / store.CONFIG).is_file() and stage in read_progress(store.open_run(out))
    if again is not None and not finished:
        return again
    if stage == "learn":
        return f"run --out {_quoted(out)} --resume{log}"
    return f"figure {_quoted(out)}" if finished else f"{stage} {_quoted(out)}{log}"


def _starts_again(words: Sequence[str], out: str | None) -> bool:
    """Whether ``--resume`` starts a run: it was killed before it wrote anything, and the words have its settings."""
    if out is None or any((Path(folder) / store.CONFIG).is_file() for folder in (out, seeds_folder(out))):
        return False
    flags = {word.partition("=")[0] for word in words if word.startswith("--")}
    return bool(flags - {"--out", "--resume", "--log", *(f"--{name}" for name in EXECUTION)})


def _has_seeds_only(out: str | Path) -> bool:
    """Whether seeds of this run were started on an executor and have not been joined."""
    return not (Path(out) / store.CONFIG).is_file() and (seeds_folder(out) / store.CONFIG).is_file()


def _log_flag(target: str) -> str:
    return "" if target == "none" else f" --log {target}"


def _free_folder(config: RunConfig) -> Path:
    """runs/ENV-METHOD, with a number if that folder exists."""
    how = f"{config.explore.split(':')[0]}-{config.discover}" if config.method == "edl" else config.method
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", f"{Path(config.env).stem}-{how}")
    number = 1
    while (place := Path("runs") / (name if number == 1 else f"{name}-{number}")).exists():
        number += 1
    return place


def _quoted(path: str | Path | None) -> str:
    return shlex.quote(str(path))
