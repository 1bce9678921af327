"""The table of `edl downstream`: learners, their environment steps, and their success."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

Results = Mapping[str, Mapping[str, Any]]
"""Results of `edl.runs.downstream`, by the label of the run."""
COLUMNS = ("learner", "pretraining", "task", "total", "success", "skills")
"""Columns of the table. ``pretraining``, ``task`` and ``total`` are environment steps per seed and task; ``success``
has its 95 % interval over seeds; ``skills`` is the number of different skills in a successful episode."""


class Row(NamedTuple):
    """A row of the table."""

    learner: str
    pretraining: int
    task: int
    success: float
    ci95: tuple[float, float]
    num_seeds: int
    skills: float | None

    @property
    def total(self) -> int:
        return self.pretraining + self.task

    def cells(self, format_steps: Callable[[int], str] = "{:,}".format) -> tuple[str, ...]:
        """The row as text, in the order of `COLUMNS`."""
        interval = f" [{self.ci95[0]:.3f}, {self.ci95[1]:.3f}]" if self.num_seeds > 1 else ""
        steps = map(format_steps, (self.pretraining, self.task, self.total))
        return self.learner, *steps, f"{self.success:.3f}{interval}", f"{self.skills:.1f}" if self.skills else "-"


def table_rows(results: Results) -> list[Row]:
    """The table over runs: two rows per run, and then PPO without skills, once per number of steps."""
    rows: list[Row] = []
    for label, result in results.items():
        pretraining, controller = sum(result["steps"]["pretraining"].values()), result["controller"]
        skills = controller["skills_in_a_success"]
        rows.append(_row(f"{label}: controller", pretraining, result["steps"]["controller"], controller, skills))
        rows.append(_row(f"{label}: zero-shot", pretraining, 0, result["zero_shot"]))
    first = next(iter(results.values()))["flat"]
    rows.append(_row("PPO without skills", 0, first["env_steps"], first))
    full = {
        result["flat_full"]["env_steps"]: result["flat_full"] for result in results.values() if "flat_full" in result
    }
    for steps, found in sorted(full.items()):
        labels = [label for label, each in results.items() if each.get("flat_full", {}).get("env_steps") == steps]
        rows.append(_row(f"PPO without skills, total of {', '.join(labels)}", 0, steps, found))
    return rows


def _row(learner: str, pretraining: int, task: int, found: Mapping[str, Any], skills: float | None = None) -> Row:
    low, high = found["ci95"]
    return Row(learner, pretraining, task, found["success"], (low, high), len(found["per_seed"]), skills)


def to_markdown(results: Results) -> str:
    """The table as Markdown."""
    lines = [f"| {' | '.join(COLUMNS)} |", "|---" * len(COLUMNS) + "|"]
    lines += [f"| {' | '.join(row.cells())} |" for row in table_rows(results)]
    return "\n".join(lines) + "\n"


def to_task_markdown(results: Results) -> str:
    """The table of a task (`edl.runs.tasks`) as Markdown: a row per run, and PPO without skills."""
    head = ("learner", "skills named by", "pretraining", "steps", "score")
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for label, result in results.items():
        before = "-" if result["pretraining"] is None else f"{result['pretraining']:,}"
        lines.append(_task_line(f"{label}: controller", result["skills_named_by"], before, result["controller"]))
    flat = {tuple(each["flat"]["per_seed"]): each["flat"] for each in results.values()}
    lines += [_task_line("PPO without skills", "-", "0", each) for each in flat.values()]
    return "\n".join(lines) + "\n"


def _task_line(learner: str, named_by: str, pretraining: str, found: Mapping[str, Any]) -> str:
    low, high = found["ci95"]
    interval = f" [{low:.2f}, {high:.2f}]" if len(found["per_seed"]) > 1 else ""
    cells = (learner, named_by, pretraining, f"{found['env_steps']:,}", f"{found['score']:.2f}{interval}")
    return f"| {' | '.join(cells)} |"
