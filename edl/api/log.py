"""The log of a run as a table."""

import csv
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

SHOWN_ROWS = 5
SHOWN_COLUMNS = 6


class Log(list[dict[str, Any]]):
    """Rows of log.jsonl. A metric is one number, or with several seeds a list with one number per seed."""

    @classmethod
    def of_seed(cls, rows: Iterable[Mapping[str, Any]], index: int | None) -> "Log":
        """The rows with the values of one seed; with those of all seeds if ``index`` is None."""
        return cls(
            {
                name: value[index] if isinstance(value, list) and index is not None else value
                for name, value in row.items()
            }
            for row in rows
        )

    def columns(self, stage: str) -> dict[str, np.ndarray]:
        """The columns of one stage as arrays: ``run.log.columns("learn")["goal_success"]``."""
        rows = [row for row in self if row["stage"] == stage]
        names = dict.fromkeys(name for row in rows for name in row if name != "stage")
        return {name: np.array([row.get(name, np.nan) for row in rows]) for name in names}

    def to_csv(self, path: str | Path) -> None:
        """Write all rows as CSV, with one column per metric."""
        with open(path, "w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(
                file, list(dict.fromkeys(name for row in self for name in row)), lineterminator="\n"
            )
            writer.writeheader()
            writer.writerows(self)

    def __repr__(self) -> str:
        """The last rows of each stage, with their first columns."""
        lines = [
            f"{len(self)} rows; pandas.DataFrame(run.log), run.log.columns(stage) and run.log.to_csv(path) have all"
        ]
        for stage in dict.fromkeys(row["stage"] for row in self):
            rows = [row for row in self if row["stage"] == stage][-SHOWN_ROWS:]
            names = [name for name in rows[-1] if name != "stage"][:SHOWN_COLUMNS]
            lines.append(f"{stage:>9}  " + "  ".join(f"{name:>12}" for name in names))
            lines += [" " * 11 + "  ".join(f"{_short(row.get(name)):>12}" for name in names) for row in rows]
        return "\n".join(lines)


def _short(value: Any) -> str:
    if isinstance(value, list):
        return f"{np.mean(value):.4g}"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
