"""Results as Markdown: cells with intervals, tables, and the facts about how the results were made."""

from collections.abc import Iterable, Sequence

from edl.tables.table import Result, Results, total_steps

NONE = "-"


def markdown_table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A table, without a line break at its end."""
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def mean_cell(result: Result, metric: str, digits: int = 2) -> str:
    """The mean of a metric, and its 95 % interval if there are several seeds."""
    mean = result.get("mean", {}).get(metric)
    if mean is None:
        return "failed" if "failed" in result else NONE
    if result["num_seeds"] == 1:
        return f"{mean:.{digits}f}"
    low, high = result["ci95"][metric]
    return f"{mean:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def bold(text: str) -> str:
    return f"**{text}**"


def million(steps: int) -> str:
    """5220000 -> 5.22M."""
    return f"{steps / 1e6:.2f}M"


def steps_cell(result: Result) -> str:
    """The environment steps of all stages of a run."""
    return million(total_steps(result)) if "steps" in result else NONE


def mean_steps_cell(results: Sequence[Result]) -> str:
    """The environment steps of a run, on average over several results."""
    steps = [total_steps(each) for each in results if "steps" in each]
    return million(round(sum(steps) / len(steps))) if steps else NONE


def seconds_cell(result: Result) -> str:
    """The seconds of a run with compilation and evaluation; older results do not have them."""
    return f"{result['seconds']['total']:.0f} s" if "seconds" in result else NONE


def _seeds(count: int) -> str:
    return "1 seed" if count == 1 else f"{count} seeds"


def facts_line(results: Results) -> str:
    """Seeds, device, version and date of all results, in one sentence each."""
    found = list(results.values())
    seeds = _listed(f"{_seeds(each['num_seeds'])} from {each['seed']}" for each in found)
    versions = _listed(_version(name, found) for name in dict.fromkeys(each["edl"] for each in found))
    dates = sorted({each["date"] for each in found})
    date = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    return f"{seeds}; {_listed(each['device'] for each in found)}; {versions}; {date}."


def _version(name: str, found: Sequence[Result]) -> str:
    """A version with the commits of its results. A plus means that files were changed since the commit."""
    commits = dict.fromkeys(each["commit"] for each in found if each["edl"] == name and each["commit"])
    short = [f"{commit[:7]}{'+' if commit.endswith('+') else ''}" for commit in commits]
    return f"edl {name} ({', '.join(short)})" if short else f"edl {name}"


def _listed(texts: Iterable[str]) -> str:
    return " and ".join(dict.fromkeys(texts))


def missing_line(missing: Sequence[str]) -> str:
    """A sentence about rows that are not there; nothing if none is missing."""
    return f"\n\nNot measured: {', '.join(missing)}." if missing else ""
