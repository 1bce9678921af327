"""A whole run: resolve its config, run its stages, evaluate it, and write a folder that explains itself."""

import contextlib
import dataclasses
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import edl
from edl.config import ConfigError, RunWarning
from edl.envs.host import using_hosts
from edl.runs import evaluation, store
from edl.runs.binding import save_artifact
from edl.runs.compile_ahead import compile_ahead
from edl.runs.config import RunConfig, differences, to_json
from edl.runs.dry_run import dry_run
from edl.runs.interrupt import catch_interrupts
from edl.runs.pipeline import has_explored, identity, inputs_of, plan
from edl.runs.progress import Progress, SilentProgress
from edl.runs.provenance import other_numerics, provenance, read_provenance
from edl.runs.resolve import Context, Given, make_context, resolve_config, with_dataset, with_given
from edl.runs.result import Run, load, run_of, saved_config
from edl.runs.session import Session, load_artifact, read_progress, valid_stages
from edl.runs.store import Folder


def execute_run(
    config: RunConfig,
    *,
    out: str | Path | None = None,
    resume: bool = False,
    until: str | None = None,
    progress: Progress | None = None,
    given: Given = Given(),
) -> Run:
    """Run the stages of a config. What is ``given`` takes the place of the first stages."""
    config, found = with_given(config, given)
    config = resolve_config(config)
    context = make_context(config)._replace(**found)
    until = plan(config, until)[-1].name  # rejects an unknown ``until``
    if resume and out is None:
        raise ConfigError("resume needs the run's folder: pass --out DIR.")
    if out is not None and not resume:
        store.check_free(Path(out))
    with contextlib.ExitStack() as lock:
        folder = None
        if resume and out is not None:
            folder = store.open_run(out)
            lock.enter_context(store.locked(folder))
            check_resumable(folder, config)
            if is_complete(folder, config):
                return load(out, features=config.features)
        if not has_explored(config, valid_stages(config, folder)):
            context = with_dataset(config, context)
            dry_run(config, context)
        if folder is None and out is not None:
            folder = lock.enter_context(store.new_folder(out))
            write_start(folder, config)
        return work(config, context, folder, until, progress or SilentProgress())


def is_complete(folder: Folder, config: RunConfig) -> bool:
    """Whether all stages of a run and its evaluation are finished, and the results are still there."""
    kept = valid_stages(config, folder)
    done = all(stage.name in kept for stage in plan(config) if not stage.temporary)
    return done and "evaluate" in read_progress(folder) and folder.has(store.METRICS)


def create_run(config: RunConfig, out: str | Path) -> Folder:
    """Create the folder of a new run, with its config and provenance. It is locked only while these are written."""
    with store.new_folder(out) as folder:
        write_start(folder, config)
        return folder


def write_start(folder: Folder, config: RunConfig) -> None:
    """Write the first files of a new run, whose folder is locked."""
    folder.start_manifest()
    folder.write_json(store.CONFIG, to_json(config))
    write_provenance(folder)


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
    """Reject a run that another version of edl started, and warn if its JAX was another."""
    write_provenance(folder)
    recorded = read_provenance(folder)
    made_by = recorded.get("edl", edl.__version__)
    if made_by != edl.__version__:
        raise ConfigError(
            f"{str(folder.path)!r} was started by edl {made_by} and must be resumed by it (this is {edl.__version__}). "
            "Install that version, or choose another --out."
        )
    changed = other_numerics(recorded)
    if changed:
        warnings.warn(
            f"{str(folder.path)!r} was started with {', '.join(changed)}. The result may differ from that of a run "
            "that was not interrupted.",
            RunWarning,
            stacklevel=2,
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
    progress = progress or SilentProgress()
    with contextlib.ExitStack() as locks:
        with contextlib.ExitStack() as source_lock:
            source_lock.enter_context(store.locked(folder, shared=out is not None))
            kept, before = valid_stages(config, folder), _stage_before(config, stage)
            _check_extendable(folder, config, kept, before, None if out is not None else stage)
            if out is None:
                _check_version(folder)
            _check_next_stage(folder, stage, config, context)
            if out is not None:
                target = locks.enter_context(store.new_folder(out))
                _copy_stages(folder, target, config, kept, until=before)
                folder = target
            else:
                locks.enter_context(source_lock.pop_all())  # the lock of the source is that of the run
                if differences(saved_config(folder), config):
                    folder.remove(store.CHECKPOINT, store.PREVIOUS_CHECKPOINT)
                    folder.write_json(store.PROGRESS, kept)
                    folder.write_json(store.CONFIG, to_json(config))
        return work(config, context, folder, stage, progress)


def _check_extendable(
    folder: Folder, config: RunConfig, kept: Mapping[str, Any], before: str, in_place: str | None
) -> None:
    """Reject a run without the stage ``before``; and one that already has the stage ``in_place``."""
    where, recorded = str(folder.path), read_progress(folder)
    if before not in kept and before in recorded and folder.has(_file_of(config, before)):
        raise ConfigError(
            f"stage {before!r} of {where!r} was computed with other settings or by another version of edl. "
            f"Run `edl {before}` again, in a new folder."
        )
    if before not in kept:
        wanted = "" if in_place is None else f", which {in_place!r} needs"
        raise ConfigError(f"{where!r} has no finished stage {before!r}{wanted}. Run `edl {before}`.")
    if in_place is not None and in_place in recorded:
        raise ConfigError(f"{where!r} already has a finished stage {in_place!r}. Choose a new folder with --out.")


def _stage_before(config: RunConfig, name: str) -> str:
    """The last stage before this one that has a command of its own: it has methods to choose from, and a result."""
    stages = {stage.name: stage for stage in plan(config)}
    taken = [stages[each] for each in stages[name].takes if each in stages]
    return [stage.name for stage in taken if stage.registry is not None and stage.field is not None][-1]


def _file_of(config: RunConfig, name: str) -> str:
    return next(stage.file for stage in plan(config) if stage.name == name)


def _check_next_stage(folder: Folder, name: str, config: RunConfig, context: Context) -> None:
    """Reject settings that the stage cannot run with, before anything is written."""
    stages = plan(config, name)
    known = {each.name: load_artifact(folder, each, config, context, {}) for each in stages if each.reads_dataset}
    dry_run(config, context, known, until=name)
    stages[-1].check_inputs(config, inputs_of(stages[-1], known))


def _copy_stages(source: Folder, target: Folder, config: RunConfig, finished: Mapping[str, Any], *, until: str) -> None:
    """Start a run in the new folder ``target`` with the finished stages of another run, up to ``until``."""
    stages = [stage for stage in plan(config, until) if stage.name in finished]
    write_start(target, config)
    for stage in stages:
        target.write(stage.file, source.read(stage.file))
    names = [stage.name for stage in stages]
    target.write_log([row for row in source.read_log() if row.get("stage") in names])
    target.write_json(store.PROGRESS, {name: finished[name] for name in names})


def import_stages(config: RunConfig, out: str | Path, artifacts: Mapping[str, Any]) -> Folder:
    """Create a run folder whose first stages are given: ``artifacts`` by stage name. `execute_run` can resume it."""
    folder = create_run(config, out)
    nothing = {"seconds": 0.0, "compile_seconds": 0.0, "iterations": 0, "env_steps": 0}
    progress = {}
    for stage in plan(config):
        if stage.name in artifacts:
            save_artifact(folder, stage, config, artifacts[stage.name])
            progress[stage.name] = {"identity": identity(stage, config), **nothing}
    folder.write_json(store.PROGRESS, progress)
    return folder


def work(config: RunConfig, context: Context, folder: Folder | None, until: str, progress: Progress) -> Run:
    """Run the stages that are not finished, then evaluate the run and write its report. The folder is locked."""
    with catch_interrupts() as interrupt, using_hosts(context.env):
        session = Session(config, context, folder, interrupt, progress)
        with compile_ahead(config, context, until, session.finished):
            artifacts = session.run_stages(until)
        result = run_of(config, context, artifacts, folder)
        result = dataclasses.replace(result, log=session.rows, failed=session.failed)
        found = session.run_timed("evaluate", lambda: evaluation.evaluate_run(result))
        drawings = evaluation.Drawings()
        if folder is not None:
            drawings = session.run_timed("draw", lambda: evaluation.draw_figures(result, found))
        metrics = evaluation.metrics_of(result, found, session.env_steps, session.seconds)
        result = dataclasses.replace(result, metrics=store.plain(metrics))
        if folder is not None:
            session.finish_log()
            interrupt.run_interruptible(lambda: evaluation.write_report(folder, metrics, drawings))
            if until == plan(config)[-1].name:
                session.complete()
        return result
