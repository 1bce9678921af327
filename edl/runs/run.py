"""All of a run: explore, discover, learn, evaluate, and a folder that explains itself."""

import contextlib
import dataclasses
import datetime
import importlib.metadata
import platform
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax

import edl
from edl.runtime import devices
from edl.artifacts import States
from edl.config import ConfigError
from edl.runs import assess, driver, stages, store
from edl.runs.driver import Work
from edl.runs.interrupt import listening
from edl.runs.live import coverage_so_far
from edl.runs.result import Run, config_of, load, load_states
from edl.runs.session import FILES, Quiet, Report, Session, file_of, progress_of, unplace
from edl.runs.config import RunConfig, differences, to_json
from edl.runs.stages import World
from edl.runs.store import Folder
from edl.interop.env_names import name_world, remember
from edl.learn.distance import Distance, Euclidean

BEFORE = {"discover": ("explore",), "learn": ("explore", "discover")}
"""The stages that a stage continues from."""
FEW_CORES = 2
PACKAGES = ("jax", "jaxlib", "numpy", "equinox", "optax", "safetensors")


def run(
    env: str | Callable[[], Any] = "square",
    *,
    out: str | Path | None = None,
    resume: bool = False,
    until: str = "learn",
    report: Report | None = None,
    **settings: Any,
) -> Run:
    """Explore, discover and learn, in a maze, in a Gymnasium world by its id, or in one that ``env()`` makes.

    ``settings`` are the other fields of `RunConfig`; the preset knows what is left out. With ``out``, the run leaves a
    folder behind, and can be stopped and resumed; without, it leaves nothing. ``until`` is the last stage to run.
    Ctrl-C saves a checkpoint and raises `KeyboardInterrupt`.
    """
    name = name_world(env) if isinstance(env, str) else remember(env)
    return execute(RunConfig(env=name, **settings), out=out, resume=resume, until=until, report=report)


def execute(
    config: RunConfig,
    *,
    out: str | Path | None = None,
    resume: bool = False,
    until: str = "learn",
    report: Report | None = None,
) -> Run:
    """`run`, for a config."""
    config = stages.settle(config)
    world = stages.make_world(config)
    if resume:
        if out is None:
            raise ConfigError("resume without a folder: the folder of the run is wanted. Say which with --out.")
        folder = store.open_run(out)
        check_same(config_of(folder), config, folder)
        if not folder.has(store.PROVENANCE):
            folder.write_json(store.PROVENANCE, provenance())
        if "evaluate" in progress_of(folder) and folder.has(store.METRICS):
            return load(out)
    else:
        if out is not None:
            store.check_free(Path(out))
        folder = None
    works: list[Work] = []
    if "explore" not in progress_of(folder):
        world = stages.with_data(config, world)
        works = stages.rehearse(config, world)
    if folder is None and out is not None:
        folder = begin(config, out)

    def compile_ahead() -> None:
        if until == "learn" and works:
            driver.prepare(works[1:], config.num_seeds, after=lambda: _prepare_assessment(config, world, works))

    # On few cores it would hold up the first stage, whose compilation is Python's work as much as the compiler's.
    if len(devices.available_cores()) > FEW_CORES:
        compile_ahead()
        return work(config, world, folder, until, report or Quiet())
    return work(config, world, folder, until, report or Quiet(), meanwhile=compile_ahead)


def _prepare_assessment(config: RunConfig, world: World, works: Sequence[Work]) -> None:
    """Compile the end of a run too, from the shapes of what its stages will hand over."""
    policy = driver.outline(works[-1], config.num_seeds).artifact
    goals = policy.goals
    if config.method == "edl":
        goals = driver.outline(works[1], config.num_seeds).artifact.goals
    assess.prepare(config, world.env, policy, goals)


def begin(config: RunConfig, out: str | Path) -> Folder:
    """Make the folder of a new run, with what it is going to do and by what means."""
    folder = store.create(out)
    folder.write_json(store.CONFIG, to_json(config))
    folder.write_json(store.PROVENANCE, provenance())
    return folder


def extend(
    source: str | Path, stage: str, changes: RunConfig, *, out: str | Path | None = None, report: Report | None = None
) -> Run:
    """Take a run on to its next stage, with the settings of ``changes``; in its own folder, or in a copy at ``out``."""
    folder = store.open_run(source)
    config, finished = stages.settle(changes), progress_of(folder)
    before = BEFORE[stage]
    if before[-1] not in finished:
        raise ConfigError(
            f"{str(source)!r} has not been through {before[-1]!r}: {stage!r} continues from there. Run that first."
        )
    if out is None and stage in finished:
        raise ConfigError(
            f"{str(source)!r} has been through {stage!r} already: choose a new folder for this with --out."
        )
    world = stages.make_world(config)
    if stage == "discover":
        stages.discover_work(config, load_states(folder, config, world.env))
    if out is not None:
        folder = _copy(folder, before, config, out)
    elif differences(config_of(folder), config):
        folder.remove(store.CHECKPOINT)
        folder.write_json(store.CONFIG, to_json(config))
        folder.write_json(store.PROGRESS, {name: finished[name] for name in before})
        unplace(folder)
    return work(config, world, folder, stage, report or Quiet())


def _copy(source: Folder, kept: Sequence[str], config: RunConfig, out: str | Path) -> Folder:
    """A new folder with the first stages of another run."""
    folder, finished = begin(config, out), progress_of(source)
    for name in kept:
        folder.write(FILES[name], source.read(file_of(name, source)))
    folder.write_log([row for row in source.read_log() if row.get("stage") in kept])
    folder.write_json(store.PROGRESS, {name: finished[name] for name in kept})
    return folder


def work(
    config: RunConfig,
    world: World,
    folder: Folder | None,
    until: str,
    report: Report,
    meanwhile: Callable[[], None] = lambda: None,
) -> Run:
    """Run the stages that are not done yet, then evaluate what there is; ``meanwhile`` is `Session`'s."""
    with listening() as interrupt, contextlib.nullcontext() if folder is None else store.locked(folder):
        return _stages(Session(config, folder, interrupt, report, meanwhile), world, until)


def _stages(session: Session, world: World, until: str) -> Run:
    config, folder = session.config, session.folder
    result = Run(config=config, env=world.env, layout=world.layout, path=None if folder is None else folder.path)
    if config.method == "edl":
        result = _three_stages(session, world, until, result)
    else:
        result = dataclasses.replace(result, policy=session.stage("learn", stages.baseline_work(config, world)))
    result = dataclasses.replace(result, log=session.rows)
    found = session.attend("evaluate", lambda: assess.assess(result))
    pictures = session.attend("draw", lambda: assess.draw(result, found)) if folder is not None else {}
    acted = [name for name in ("explore", "scout", "learn") if name in session.finished]
    steps = {name: session.finished[name]["env_steps"] for name in acted}
    metrics = assess.metrics_of(result, found, steps, session.seconds)
    result = dataclasses.replace(result, metrics=store.plain(metrics))
    if folder is not None:
        session.interrupt.attentively(lambda: assess.publish(folder, result, metrics, pictures))
        session.conclude(complete=until == "learn")
    return result


def _three_stages(session: Session, world: World, until: str, result: Run) -> Run:
    config = session.config
    states = explored(session, world)
    result = dataclasses.replace(result, states=states)
    if until == "explore":
        return result
    skills = session.stage("discover", stages.discover_work(config, states))
    result = dataclasses.replace(result, skills=skills)
    if until == "discover":
        return result
    distance = _distance(session, world, states)
    if stages.places_goals(config, skills):
        skills = session.stage("place", stages.place_work(skills, states, distance))
        result = dataclasses.replace(result, skills=skills)
    policy = session.stage("learn", stages.learn_work(config, world, skills, distance))
    return dataclasses.replace(result, policy=policy)


def _distance(session: Session, world: World, states: States) -> Distance:
    """What the learner's reward is made of: measured by the explorer's experience, or by a scout's."""
    config, experience = session.config, states.experience
    if config.learner.distance != "walking":
        return Euclidean()
    if config.scout is not None:
        experience = session.stage("scout", stages.scout_work(config, world)).experience
    return session.stage("measure", stages.measure_work(config, experience))


def explored(session: Session, world: World) -> States:
    """The states of stage 1, which can be loaded without the dataset they may have come from."""
    if "explore" in session.finished and session.folder is not None:
        return load_states(session.folder, session.config, world.env)
    work = stages.explore_work(session.config, world)
    wanted = not isinstance(session.report, Quiet)
    return session.stage(
        "explore",
        work,
        check=lambda states: stages.check_explored(session.config, states),
        watch=coverage_so_far(world.layout) if wanted else lambda state: {},
    )


def check_same(before: RunConfig, now: RunConfig, folder: Folder) -> None:
    """Refuse to continue a run as another one."""
    changed = differences(before, now)
    if changed:
        raise ConfigError(
            f"{str(folder.path)!r} holds a run with other settings: {'; '.join(changed)}. "
            "Resume with the same settings, or choose another --out."
        )


def provenance(command: Sequence[str] | None = None) -> dict[str, Any]:
    """By what means a run was made."""
    devices = jax.devices()
    return {
        "edl": edl.__version__,
        "commit": commit(),
        "command": shlex.join([_program(sys.argv[0]), *sys.argv[1:]] if command is None else command),
        "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "device": f"{len(devices)} x {devices[0].device_kind}",
        "backend": jax.default_backend(),
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "packages": {name: importlib.metadata.version(name) for name in PACKAGES},
    }


def _program(path: str) -> str:
    """What a user types: the same wherever it is installed, and however it was called."""
    return "edl" if Path(path).name in ("edl", "__main__.py") else Path(path).name


def commit() -> str | None:
    """The commit that this code is at, if it is in a repository; with a plus if it was changed since."""
    here = Path(__file__)
    how: Any = {"cwd": here.parent, "capture_output": True, "text": True, "timeout": 5, "check": True}
    questions = (("ls-files", "--error-unmatch", here.name), ("rev-parse", "HEAD"), ("diff", "HEAD", "--stat"))
    try:
        answers = [subprocess.run(["git", *words], **how).stdout for words in questions]
    except (OSError, subprocess.SubprocessError):
        return None
    return answers[1].strip() + ("+" if answers[2].strip() else "")
