"""The tables of the documentation, regenerated from scratch: ``edl tables``. ``TABLES`` maps a name to a table.

To add a table, write a module with a `Table` and add an entry.
"""

from edl.tables import downstream, explorers, gymnasium_explorers, mazes, methods, robots, seeds, training, tuning
from edl.tables.table import Table, TableSettings

TABLES: dict[str, Table] = {
    tuning.NAME: tuning.TABLE,
    methods.NAME: methods.TABLE,
    mazes.NAME: mazes.TABLE,
    seeds.SEEDS: seeds.SEEDS_TABLE,
    seeds.PAPER_MAZES: seeds.PAPER_TABLE,
    downstream.NAME: downstream.TABLE,
    explorers.NAME: explorers.TABLE,
    explorers.LONG: explorers.LONG_TABLE,
    gymnasium_explorers.NAME: gymnasium_explorers.TABLE,
    training.COVERAGE: training.COVERAGE_TABLE,
    training.ENVS: training.ENVS_TABLE,
    robots.NAME: robots.TABLE,
    robots.TASK_TABLE: robots.TASKS_TABLE,
    robots.ENVS_NAME: robots.ENVS_TABLE,
}

__all__ = ["TABLES", "Table", "TableSettings"]
