"""A whole run: resolve its config, run its stages, evaluate it, and write a folder that explains itself."""

import contextlib
import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import edl
from edl.config import ConfigError
from edl.interop.env_names import allow_import, remember_factory
from edl.runs import evaluation, store
from edl.runs.compile_ahead import compile_ahead
from edl.runs.config import RunConfig, differences, to_json
from edl.runs.interrupt import catch_interrupts
from edl.runs.pipeline import identity, inputs_of, outlines, plan
from edl.runs.progress import Progress, SilentProgress
from edl.runs.provenance import provenance
from edl.runs.resolve import Context, make_context, resolve_config, with_dataset
from edl.runs.result import Run, load, run_of, saved_config
from edl.runs.session import Session, load_artifact, read_progress, valid_stages
from edl.runs.store import Folder


def run(
    env: str | Callable[[], Any] = "square",
    *,
    out: str | Path | None = None,
    resume: bool = False,
    until: str = "learn",
    progress: Progress | None = None,
    **settings: Any,
) -> Run:
    """Explore, discover and learn, in a maze, a registered env, a Gymnasium env, or an env that ``env()`` makes.

    ``settings`` are the other fields of `RunConfig`; the preset fills what is left out. With ``out``, the run writes a
    folder and can be stopped and resumed; without it, nothing is written. ``until`` is the last stage to run.
    Ctrl-C writes a checkpoint and raises `KeyboardInterrupt`.
    """
    name = allow_import(env) if isinstance(env, str) else remember_factory(env)
    return execute_run(RunConfig(env=name, **settings), out=out, resume=resume, until=until, progress=progress)


def execute_run(
    config: RunConfig,
    *,
    out: str | Path | None = None,
    resume: bool = False,
    until: str = "learn",
    progress: Progress | None = None,
) -> Run:
    """`run`, for a config."""
    config = resolve_config(config)
    context = make_context(config)
    plan(config, until)  # rejects an unknown ``until``
    folder = None
    if resume:
        if out is None:
            raise ConfigError("resume needs the run's folder: pass --out DIR.")
        folder = store.open_run(out)
        check_resumable(folder, config)
        if "evaluate" in read_progress(folder) and folder.has(store.METRICS):
            return load(out, features=config.features)
    elif out is not None:
        store.check_free(Path(out))
    if "explore" not in valid_stages(config, folder):
        context = with_dataset(config, context)
        outlines(config, context)
    if folder is None and out is not None:
        folder = create_run(config, out)
    return work(config, context, folder, until, progress or SilentProgress())


def create_run(config: RunConfig, out: str | Path) -> Folder:
    """Create the folder of a new run, with its config and provenance."""
    folder = store.create(out)
    folder.write_json(store.CONFIG, to_json(config))
    write_provenance(folder)
    return folder


def write_provenance(folder: Folder) -> None:
    """Write provenance.json if it is missing: a run may be killed after it wrote its config."""
    if not folder.has(store.PROVENANCE):
        folder.write_json(store.PROVENANCE, provenance())


def check_resumable(folder: Folder, config: RunConfig) -> None:
    """Reject a folder whose run has other settings or was made by another version."""
    changed = differences(saved_config(folder), config)
    if changed:
        raise ConfigError(
            f"{str(folder.path)!r} holds a run with other settings: {'; '.join(changed)}. "
            "Resume with the same settings, or choose another --out."
        )
    _check_version(folder)


def _check_version(folder: Folder) -> None:
    write_provenance(folder)
    made_by = folder.read_json(store.PROVENANCE).get("edl", edl.__version__)
    if made_by != edl.__version__:
        raise ConfigError(
            f"{str(folder.path)!r} was started by edl {made_by} and must be resumed by it (this is {edl.__version__}). "
            "Install that version, or choose another --out."
        )


def extend(
    source: str | Path,
    stage: str,
    changes: RunConfig,
    *,
    out: str | Path | None = None,
    progress: Progress | None = None,
) -> Run:
    """Continue a run with its next stage and the settings of ``changes``, in its own folder or in a copy at ``out``.

    Stages whose identity does not change are kept; the others are computed.
    """
    folder, config = store.open_run(source), resolve_config(changes)
    context = make_context(config)
    kept, before = valid_stages(config, folder), _stage_before(config, stage)
    if before not in kept and before in read_progress(folder) and folder.has(_file_of(config, before)):
        raise ConfigError(
            f"stage {before!r} of {str(source)!r} was computed with other settings or by another version of edl. "
            f"Run `edl {before}` again, in a new folder."
        )
    if before not in kept:
        raise ConfigError(
            f"{str(source)!r} has no finished stage {before!r}, which {stage!r} needs. Run `edl {before}`."
        )
    if out is None and stage in read_progress(folder):
        raise ConfigError(f"{str(source)!r} already has a finished stage {stage!r}. Choose a new folder with --out.")
    if out is None:
        _check_version(folder)
    _check_next_stage(folder, stage, config, context)
    if out is not None:
        folder = _copy_stages(folder, config, kept, until=before, out=out)
    elif differences(saved_config(folder), config):
        with store.locked(folder):
            folder.remove(store.CHECKPOINT)
            folder.write_json(store.CONFIG, to_json(config))
            folder.write_json(store.PROGRESS, kept)
    return work(config, context, folder, stage, progress or SilentProgress())


def _stage_before(config: RunConfig, name: str) -> str:
    """The last stage before this one that the user can run by itself: the one that its skills or states come from."""
    stage = next(each for each in plan(config) if each.name == name)
    return next(each for each in stage.takes if each in ("explore", "discover"))


def _file_of(config: RunConfig, name: str) -> str:
    return next(stage.file for stage in plan(config) if stage.name == name)


def _check_next_stage(folder: Folder, name: str, config: RunConfig, context: Context) -> None:
    """Reject settings that the stage cannot run with, before anything is written."""
    stages = {stage.name: stage for stage in plan(config, name)}
    states = load_artifact(folder, stages["explore"], config, context, {})
    outlines(config, context, {"explore": states}, until=name)
    stages[name].check_inputs(config, inputs_of(stages[name], {"explore": states}))


def _copy_stages(
    source: Folder, config: RunConfig, finished: Mapping[str, Any], *, until: str, out: str | Path
) -> Folder:
    """A new run folder with the finished stages of another run, up to ``until``."""
    stages = [stage for stage in plan(config, until) if stage.name in finished]
    folder = create_run(config, out)
    for stage in stages:
        folder.write(stage.file, source.read(stage.file))
    names = [stage.name for stage in stages]
    folder.write_log([row for row in source.read_log() if row.get("stage") in names])
    folder.write_json(store.PROGRESS, {name: finished[name] for name in names})
    return folder


def import_stages(config: RunConfig, out: str | Path, artifacts: Mapping[str, Any]) -> Folder:
    """Create a run folder whose first stages are given: ``artifacts`` by stage name. `execute_run` can resume it."""
    folder = create_run(config, out)
    nothing = {"seconds": 0.0, "compile_seconds": 0.0, "iterations": 0, "env_steps": 0}
    progress = {}
    for stage in plan(config):
        if stage.name in artifacts:
            folder.save(stage.file, artifacts[stage.name])
            progress[stage.name] = {"identity": identity(stage, config), **nothing}
    folder.write_json(store.PROGRESS, progress)
    return folder


def work(config: RunConfig, context: Context, folder: Folder | None, until: str, progress: Progress) -> Run:
    """Run the stages that are not finished, then evaluate the run and write its report."""
    with catch_interrupts() as interrupt, contextlib.nullcontext() if folder is None else store.locked(folder):
        session = Session(config, context, folder, interrupt, progress)
        with compile_ahead(config, context, until, session.finished):
            artifacts = session.run_stages(until)
        result = run_of(config, context, artifacts, folder)
        result = dataclasses.replace(result, log=session.rows)
        found = session.run_timed("evaluate", lambda: evaluation.evaluate_run(result))
        pictures = {} if folder is None else session.run_timed("draw", lambda: evaluation.draw_figures(result, found))
        metrics = evaluation.metrics_of(result, found, session.env_steps, session.seconds)
        result = dataclasses.replace(result, metrics=store.plain(metrics))
        if folder is not None:
            interrupt.run_interruptible(lambda: evaluation.write_report(folder, metrics, pictures))
            if until == plan(config)[-1].name:
                session.complete()
        return result
