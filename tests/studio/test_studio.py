"""The pages of the studio in a real browser, and a run from the drawing of its maze to a click on a goal."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import edl
from edl.envs import layouts
from edl.studio.library import is_locked
from tests.studio.conftest import TOKEN, Server

pytestmark = pytest.mark.browser
NASTY = "<img src=x onerror=alert(1)>"
TINY = {
    "explorer": {"iterations": 150, "rollouts": 8, "num_samples": 256},
    "learner": {
        "distance": "euclidean",
        "ppo": {"iterations": 4000, "rollouts": 4, "epochs": 1, "minibatches": 2, "hidden": [8]},
    },
}


@pytest.fixture
def studio_page(browser, server: Server):
    """A page of the running server that fails the test if its scripts do."""
    page = browser.new_page(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(f"http://{server.host}/?token={TOKEN}")
    yield page
    page.close()
    assert not errors, "\n".join(errors)


def editor_text(page) -> str:
    return page.locator("textarea[aria-label='Text of the maze']").input_value()


def cell(page, row: int, column: int) -> tuple[float, float]:
    """The point of the canvas at a character of the text."""
    box = page.locator("canvas.editor").bounding_box()
    rows = len(editor_text(page).rstrip().split("\n"))
    unit = (box["height"] - 20) / ((rows - 1) / 2)
    return box["x"] + 10 + column * unit / 2, box["y"] + 10 + row * unit / 2


def test_the_editor_reads_and_writes_the_text_byte_for_byte(studio_page, server, tmp_path):
    page = studio_page
    page.get_by_role("link", name="New run").click()
    # Windows line ends and a stripped space at the end of a row stay as they are.
    text = "+-+-+-+\r\n|S    |\r\n+ + + +\r\n|     |\r\n+-+-+-+\r\n"
    file = tmp_path / "maze.txt"
    file.write_bytes(text.encode())
    page.locator("input[type=file]").set_input_files(file)
    wait_for(lambda: editor_text(page) == text.replace("\r\n", "\n"), "the file is not opened", seconds=30)
    with page.expect_download() as download:
        page.get_by_role("button", name="Save").click()
    assert Path(download.value.path()).read_bytes() == text.encode()
    # One wall, and undo.
    page.mouse.click(*cell(page, 1, 2))
    with page.expect_download() as download:
        page.get_by_role("button", name="Save").click()
    assert Path(download.value.path()).read_bytes() == text.replace("|S    |", "|S|   |").encode()
    page.get_by_role("button", name="Undo").click()
    with page.expect_download() as download:
        page.get_by_role("button", name="Save").click()
    assert Path(download.value.path()).read_bytes() == text.encode()


def test_a_file_that_is_too_large_is_not_opened(studio_page, tmp_path):
    page = studio_page
    page.get_by_role("link", name="New run").click()
    before = editor_text(page)
    (tmp_path / "huge.txt").write_bytes(b"+" * 1_000_001)
    page.locator("input[type=file]").set_input_files(tmp_path / "huge.txt")
    page.locator("#maze-problem").filter(has_text="at most 1000000 bytes (got 1000001)").wait_for()
    assert editor_text(page) == before


def test_tools_of_the_editor(studio_page):
    page = studio_page
    page.get_by_role("link", name="New run").click()
    page.get_by_label("Template").select_option("blank 4")
    page.get_by_role("button", name="Blocked cell").click()
    page.mouse.click(*cell(page, 1, 1))
    assert editor_text(page).split("\n")[:3] == ["+ +-+-+-+", " #|     |", "+-+ + + +"]
    layouts.parse(editor_text(page))
    page.mouse.click(*cell(page, 1, 1))
    assert editor_text(page).split("\n")[:3] == ["+-+-+-+-+", "|       |", "+ + + + +"]
    page.get_by_role("button", name="Start", exact=True).click()
    page.mouse.click(*cell(page, 5, 3))
    assert editor_text(page).split("\n")[5] == "|  S    |"
    # A start above the first one is the new origin. The prior is the two cells around it.
    page.get_by_role("button", name="Prior p(s)").click()
    page.mouse.move(*cell(page, 5, 3))
    page.mouse.down()
    page.mouse.move(*cell(page, 5, 5), steps=3)
    page.mouse.up()
    assert "-0.5<=x<1.5 and -0.5<=y<0.5" in page.locator(".hint").first.inner_text()
    page.keyboard.press("Tab")
    page.locator("canvas.editor").focus()
    page.keyboard.press("Control+z")
    assert "all that is explored" in page.locator(".hint").first.inner_text()
    # The keyboard takes down the wall at the left border, and the error says where the maze leaks.
    page.get_by_role("button", name="Wall").click()
    page.locator("canvas.editor").focus()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    problem = page.locator("#maze-problem")
    problem.filter(has_text="row 2, column 1: the maze leaks to the outside here").wait_for()


def test_text_from_files_is_never_markup(studio_page, server):
    path = server.runs / "nasty"
    path.mkdir()
    config = {"env": NASTY, "method": NASTY, "explore": NASTY, "num_skills": NASTY, "num_seeds": 1}
    (path / "config.json").write_text(json.dumps(config))
    page = studio_page
    page.reload()
    page.locator(".runs h3").filter(has_text="nasty").wait_for()
    assert page.locator("img[src=x]").count() == 0
    assert NASTY in page.locator(".runs").inner_text()
    (path / "config.json").unlink()
    path.rmdir()


def test_pause_resume_and_stop_with_at_most_two_runs_at_once(browser, waiting_server):
    server, page = waiting_server, browser.new_page()

    def badge(status: str) -> None:
        page.locator(f".badge[data-status={status}]").wait_for()

    def press(action: str) -> None:
        page.get_by_role("button", name=action, exact=True).click()

    page.goto(f"http://{server.host}/?token={TOKEN}")
    page.goto(f"http://{server.host}/run/a")
    badge("stopped")
    press("Resume")
    badge("running")
    press("Pause")
    badge("paused")
    press("Resume")
    badge("running")
    assert [server.ask(f"/api/runs/{name}/resume", {}).json["status"] for name in "bc"] == ["running", "queued"]
    again = server.ask("/api/runs/a/resume", {})
    assert again.status == 400
    assert "run 'a' is running, so it cannot be started" in again.json["error"]
    press("Stop")
    badge("stopped")
    wait_for(lambda: server.ask("/api/runs/c").json["status"] == "running", "the third run does not start", seconds=30)
    page.close()


def start_server(runs: Path) -> tuple[subprocess.Popen, str]:
    """`edl studio` as a user starts it."""
    command = [sys.executable, "-m", "edl.cli", "studio", "--runs", str(runs), "--port", "0", "--no-open"]
    printed = runs / "printed.txt"
    with open(printed, "wb") as file:
        process = subprocess.Popen(command, stdout=file, start_new_session=True)
    wait_for(lambda: printed.read_text().endswith("\n"), "the server does not start")
    return process, printed.read_text().split()[1]


def wait_for(condition, what: str, seconds: float = 240.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def test_draw_a_maze_run_it_kill_the_server_and_resume(browser, tmp_path):
    from edl.runs.store import Folder

    process, address = start_server(tmp_path)
    page = browser.new_page(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    try:
        page.goto(address)
        page.get_by_role("link", name="New run").click()
        page.get_by_label("Template").select_option("blank 4")
        page.mouse.click(*cell(page, 5, 2))
        page.get_by_role("button", name="Prior p(s)").click()
        page.mouse.move(*cell(page, 7, 1))  # the start
        page.mouse.down()
        page.mouse.move(*cell(page, 3, 1), steps=6)
        page.mouse.up()
        fields = {"Name": "drawn", "Skills": "3"}
        for label, value in fields.items():
            page.get_by_label(label, exact=True).fill(value)
        page.get_by_label("Explorer").select_option("random_walk")
        page.get_by_label("Discoverer").select_option("kmeans")
        page.get_by_text("More settings, as").click()
        page.get_by_label("More settings").fill(json.dumps(TINY))
        page.get_by_role("button", name="Run", exact=True).click()
        page.wait_for_url("**/run/drawn", timeout=120_000)
        coverages: list[float] = []
        iterations: set[int] = set()

        def learns() -> bool:
            live = page.locator(".card.live")
            coverage = live.get_attribute("data-coverage")
            if coverage is not None:
                coverages.append(float(coverage))
            learning = re.match(r"learn (\d+) of", page.locator(".facts").inner_text())
            if learning and live.get_attribute("data-rollouts") == "12":
                iterations.add(int(learning[1]))
            return len(iterations) > 1  # the page follows the run

        # How often the page shows coverage depends on the machine: exploring takes a second or less.
        wait_for(learns, "the page does not follow the run")
        assert coverages
        assert coverages == sorted(coverages)
        assert coverages[-1] > 0
        folder = Folder(tmp_path / "drawn")
        process.kill()
        process.wait()
        # The worker notices, writes a checkpoint and ends.
        wait_for(lambda: not is_locked(folder), "the worker does not end")
        assert folder.has("checkpoint/state.safetensors")
        iteration = max(row["iteration"] for row in folder.read_log() if row["stage"] == "learn")
        assert 0 < iteration < TINY["learner"]["ppo"]["iterations"]

        process, address = start_server(tmp_path)
        page.goto(address)
        page.get_by_role("heading", name="drawn").click()
        page.locator(".badge[data-status=stopped]").wait_for()
        page.get_by_role("button", name="Resume").click()
        page.locator(".badge[data-status=done]").wait_for(timeout=240_000)
        page.locator("#studio .frame canvas").click()
        status = page.locator("#studio .status")
        assert "picked by q(z|x)" in status.inner_text()
        assert float(status.get_attribute("data-distance")) < 10
        rows = [row["iteration"] for row in folder.read_log() if row["stage"] == "learn"]
        assert rows == sorted(set(rows))
        config = json.loads((tmp_path / "drawn" / "config.json").read_text())
        assert config["env"] == "drawn.txt"
        assert config["maze"].split("\n")[5] == "| |     |"
        assert config["region"] == "-0.5<=x<0.5 and -0.5<=y<2.5"
        states = edl.load(tmp_path / "drawn").states.samples
        assert np.all((np.asarray(states) >= -0.5) & (np.asarray(states) <= [0.5, 2.5]))
    finally:
        page.close()
        os.kill(process.pid, signal.SIGINT)
        process.wait()
