"""`edl bench`: its table, and the compile cache while it measures compile times."""

import jax

from edl.bench.bench import BenchResult
from edl.bench.quality import Quality
from edl.bench.timing import Row
from edl.cli.bench import print_result, without_compile_cache
from edl.cli.console import PlainConsole

RESULT = BenchResult(
    device="cpu [x86]",
    rows=[Row("training, :ant: 1 run", "env steps/s", 1234.0, 12.34, 617.0, 2.5, None, 2**21)],
    quality=[Quality("square", "cold", 60.0, 20.0, 0.97, 0.95)],
    roofline=None,
    peak_memory=2**30,
    notes=["rejax: not installed. `pip install .[bench]` installs it."],
)


def test_the_result_is_printed_as_it_is(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "200")
    print_result(PlainConsole(), RESULT)
    printed = capsys.readouterr().out
    assert "cpu [x86]" in printed
    cells = [cell.strip() for cell in next(line for line in printed.splitlines() if ":ant:" in line).split("│")]
    assert cells[1:-1] == ["training, :ant: 1 run", "1,234 env steps/s", "1 %", "617", "2.5 s", "2 MiB"]
    assert "square, cold cache: 60.0 s (20.0 s of them compile), goal_success 0.97, reached the target 0.95" in printed
    assert "peak memory: 1,024 MiB" in printed
    assert "`pip install .[bench]`" in printed


def test_compile_times_are_measured_without_the_compile_cache():
    before = jax.config.jax_enable_compilation_cache
    with without_compile_cache():
        assert not jax.config.jax_enable_compilation_cache
    assert jax.config.jax_enable_compilation_cache == before
