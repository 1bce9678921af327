"""Runs: their settings, the stages as data, the driver that executes them, run folders, and sweeps.

| what | modules |
| --- | --- |
| settings of a run | `config`, `presets`, `resolve`, `limits`, `dry_run` |
| stages of a run | `pipeline`, `driver`, `executables`, `compile_ahead` |
| one run | `run`, `session`, `parts`, `failures`, `snapshots` |
| while it runs | `progress`, `live`, `loggers`, `interrupt`, `errors` |
| its folder | `store`, `manifest`, `tensors`, `binding`, `checking`, `provenance`, `saved_states`, `given_skills` |
| its results | `result`, `evaluation`, `cross_check`, `films`, `compare` |
| downstream tasks | `downstream`, `downstream_table`, `tasks`, `controllers` |
| sweeps | `sweep`, `grid`, `search`, `optuna_search`, `summary` |
| many runs or seeds at a time | `points`, `lanes`, `many_seeds`, `chunks`, `chunk_work`, `executors` |
"""
