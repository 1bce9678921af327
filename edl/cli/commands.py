"""The commands, one function each: words in, exit status out."""

import importlib
import re
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from edl.runtime import compile_cache
from edl.config import ConfigError
from edl.runs import store
from edl.interop.env_names import needs_import

WHOLE = (
    "env",
    "features",
    "horizon",
    "explore",
    "discover",
    "preset",
    "num_skills",
    "num_seeds",
    "seed",
    "region",
    "out",
    "config",
    "resume",
)


def console() -> Console:
    """Where results go; made anew each time, because tests and notebooks replace standard output."""
    return Console(soft_wrap=False)


def run(words: list[str]) -> int:
    """``edl run``."""
    about = "Explore, discover and learn: ten skills that fan out over a world, without a reward."
    return _whole(words, "run", about, ("explorer", "scout", "discoverer", "learner"), until="learn")


def explore(words: list[str]) -> int:
    """``edl explore``."""
    about = "Stage 1 alone: samples of p(s), and how much of the world they cover."
    return _whole(words, "explore", about, ("explorer",), until="explore")


def baseline(words: list[str]) -> int:
    """``edl baseline METHOD``."""
    from edl import baselines
    from edl.config import check_name

    method, rest = _argument(words, "METHOD", "baseline", allow_help=bool(baselines.METHODS))
    if method is not None:
        check_name(method, baselines.METHODS, "method", "`edl list` tells what each does.")
    method = method or next(iter(baselines.METHODS))
    about = f"Skill discovery without stages: {method}."
    return _whole(rest, f"baseline {method}", about, ("baseline",), until="learn", method=method)


def discover(words: list[str]) -> int:
    """``edl discover RUN``."""
    about = "Stage 2 alone, on the states of a run: skills z, q(z|s) and q(s|z)."
    return _next_stage(words, "discover", about, ("discover", "num_skills", "out"), ("discoverer",))


def learn(words: list[str]) -> int:
    """``edl learn RUN``."""
    about = "Stage 3 alone, on the skills of a run: a policy pi(a|s,z)."
    return _next_stage(words, "learn", about, ("out",), ("scout", "learner"))


def evaluate(words: list[str]) -> int:
    """``edl evaluate RUN``."""
    from edl.cli import show

    loaded, found, metrics = _measured(words, "evaluate")
    del found
    store.open_run(loaded.path).write_json(store.METRICS, metrics)
    show.summary(console(), loaded)
    return 0


def figure(words: list[str]) -> int:
    """``edl figure RUN``."""
    from edl.cli import show
    from edl.runs import assess

    loaded, found, metrics = _measured(words, "figure")
    assess.publish(store.open_run(loaded.path), loaded, metrics, assess.draw(loaded, found))
    show.summary(console(), loaded)
    return 0


def compare(words: list[str]) -> int:
    """``edl compare RUN...``."""
    from edl.cli import compare

    return compare.main(words)


def reproduce(words: list[str]) -> int:
    """``edl reproduce NAME...``."""
    from edl.cli import reproduce

    return reproduce.main(words)


def listing(words: list[str]) -> int:
    """``edl list``."""
    from edl.cli import show

    if words:
        raise ConfigError(f"unexpected {' '.join(words)!r}: `edl list` takes no arguments. Leave it out.")
    show.listing(console())
    return 0


COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "run": run,
    "explore": explore,
    "discover": discover,
    "learn": learn,
    "baseline": baseline,
    "evaluate": evaluate,
    "figure": figure,
    "compare": compare,
    "reproduce": reproduce,
    "sweep": lambda words: _elsewhere("sweep", words),
    "bench": lambda words: _elsewhere("bench", words),
    "list": listing,
    "downstream": lambda words: _elsewhere("downstream", words),
    "export": lambda words: _elsewhere("export", words),
}


def _elsewhere(command: str, words: list[str]) -> int:
    """A command with a file of its own."""
    return getattr(importlib.import_module(f"edl.cli.{command}"), command)(words)


def _whole(words: list[str], command: str, about: str, nested: Sequence[str], until: str, method: str = "edl") -> int:
    """A run from its beginning, or from where it was stopped."""
    from edl.cli import options
    from edl.runs import run as runs

    base = options.starting_point(words, method)
    fields = [name for name in WHOLE if method == "edl" or name not in ("explore", "discover", "region")]
    parsed = options.read(words, base, f"edl {command}", about, fields, nested)
    config = options.merged(base, parsed)
    resume = parsed.resume
    if resume and parsed.out is not None and not (Path(parsed.out) / store.CONFIG).is_file() and len(words) > 3:
        resume = False  # it was killed before it had written anything: the same words begin it
    out = parsed.out or (None if resume else _free_folder(config))
    return _with_report(
        lambda report: runs.execute(config, out=out, resume=resume, until=until, report=report), out, command
    )


def _next_stage(words: list[str], stage: str, about: str, fields: Sequence[str], nested: Sequence[str]) -> int:
    """A stage that continues from the folder of the one before."""
    from edl.cli import options
    from edl.runs import run as runs

    source, rest = _argument(words, "RUN", stage, allow_help=False)
    folder = store.open_run(source)
    whose = str(folder.place(store.CONFIG))
    named = {"discover": value} if (value := options.given(rest, "discover")) is not None else {}
    base = options.from_json(folder.read_json(store.CONFIG), whose, **named)
    parsed = options.read(rest, base, f"edl {stage} {source}", about, fields, nested)
    config = options.merged(base, parsed)
    return _with_report(
        lambda report: runs.extend(source, stage, config, out=parsed.out, report=report), parsed.out or source, stage
    )


def _with_report(work: Callable[[Any], Any], out: str | Path | None, command: str) -> int:
    """Work with a progress bar, then print what came of it; stopped, say how to go on."""
    from edl.cli import progress, show

    compile_cache.enable()
    screen = console()
    try:
        with progress.reporter(screen) as report:
            result = work(report)
    except KeyboardInterrupt as stop:
        raise KeyboardInterrupt(_how_to_resume(out, command)) from stop
    show.summary(screen, result)
    return 0


def _how_to_resume(out: str | Path | None, command: str) -> str:
    if out is None or not (Path(out) / store.CONFIG).is_file():
        return "Nothing was written."
    place = shlex.quote(str(out))
    words = f"{command} {place}" if command in ("discover", "learn") else f"{command} --out {place} --resume"
    world = store.open_run(out).read_json(store.CONFIG)["env"]
    return f"Continue with: edl {words}" + (f" --env {shlex.quote(world)}" if needs_import(world) else "")


def _measured(words: list[str], command: str) -> tuple:
    """A run with its numbers taken anew."""
    import dataclasses

    from edl.runs import assess
    from edl.runs.result import load

    path, rest = _argument(words, "RUN", command, allow_help=False)
    if rest:
        raise ConfigError(f"unexpected {' '.join(rest)!r}: `edl {command} RUN` takes nothing else. Leave it out.")
    compile_cache.enable()
    loaded = load(path)
    before = loaded.metrics or {}
    found = assess.assess(loaded)
    metrics = store.plain(assess.metrics_of(loaded, found, before.get("steps", {}), before.get("seconds", {})))
    return dataclasses.replace(loaded, metrics=metrics), found, metrics


def _argument(words: list[str], what: str, command: str, allow_help: bool) -> tuple[Any, list[str]]:
    """The argument that comes first, and the rest of the words."""
    if words and not words[0].startswith("-"):
        return words[0], words[1:]
    if allow_help and ("-h" in words or "--help" in words):
        return None, words
    if "-h" in words or "--help" in words:
        print(f"usage: edl {command} {what} [OPTIONS]")
        raise SystemExit(0)
    raise ConfigError(f"{what} is missing: `edl {command} {what} ...` is wanted. Put it first.")


def _free_folder(config: Any) -> Path:
    """runs/WORLD-METHOD, with a number if that is taken."""
    how = f"{config.explore.split(':')[0]}-{config.discover}" if config.method == "edl" else config.method
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", f"{Path(config.env).stem}-{how}")
    number = 1
    while (place := Path("runs") / (name if number == 1 else f"{name}-{number}")).exists():
        number += 1
    return place
