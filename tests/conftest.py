"""How every test runs: on the CPU, with shapes checked at run time, and with compiled programs kept between runs."""

import gc
import os
import shutil
import signal
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from jaxtyping import install_import_hook

# Processes that tests start inherit these. On one device, as in this process, they find programs that are already
# compiled and give the same bits. The tests of several devices set their own number.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("JAX_NUM_CPU_DEVICES", "1")
os.environ.setdefault("EDL_CACHE", str(Path(__file__).parents[1] / ".cache" / "jax"))
if version("jaxlib").startswith("0.10."):
    # The suite compiles thousands of programs that run for a moment: less optimisation saves a tenth of its time. Later
    # versions lack the second option or crash with it. Programs are not split for parallel code generation, because
    # the workers use all cores. `make test-slow` compiles as users do.
    options = ("backend_optimization_level=1", "cpu_use_fusion_emitters=false", "cpu_parallel_codegen_split_count=1")
    os.environ.setdefault("XLA_FLAGS", " ".join(f"--xla_{option}" for option in options))

# Works on modules that are not yet imported, so nothing of edl is imported above this line.
install_import_hook("edl", "beartype.beartype")

from edl.runtime import compile_cache, effort, threefry  # noqa: E402

compile_cache.enable()
threefry.enable()
effort.enable()
# Traced programs stay in memory, and each search for garbage among them takes seconds.
gc.set_threshold(100_000, 50, 1000)

# A shell without job control starts processes in the background such that they ignore Ctrl-C. Tests and the processes
# that they start do not.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The first example compiles, so there is no fair deadline; and a suite that passed must pass again.
settings.register_profile("edl", deadline=None, derandomize=True, database=None)
settings.load_profile("edl")


CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"))), None
)
"""The system's browser, if it has one. Playwright finds its own, if it has downloaded one."""


def has_browser() -> bool:
    """Whether tests marked ``browser`` can run."""
    downloads = (os.environ.get("PLAYWRIGHT_BROWSERS_PATH"), "~/.cache/ms-playwright", "~/Library/Caches/ms-playwright")
    return CHROMIUM is not None or any(any(Path(it).expanduser().glob("chromium-*")) for it in downloads if it)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests marked ``browser`` run where there is a browser, and say so where there is none."""
    missing = pytest.mark.skipif(not has_browser(), reason="no Chromium found: `make browser` tries to get one")
    for item in items:
        if item.get_closest_marker("browser"):
            item.add_marker(missing)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A real browser without a window; tests that use it are marked ``browser``."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # Chromium's sandbox does not start for root, which is who runs the tests in most containers.
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield running
        running.close()


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """An empty page that cannot reach the network, and that fails the test if its scripts or resources do."""
    page = browser.new_page(offline=True)
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("requestfailed", lambda request: errors.append(f"could not load {request.url[:200]}"))
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    yield page
    page.close()
    assert not errors, "\n".join(errors)
