"""The server of the studio: pages, runs, mazes, and the live view over a web socket."""

import asyncio
import contextlib
import importlib.resources
import json
import re
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from edl.config import ConfigError
from edl.runs import store
from edl.studio import library, submission
from edl.studio.guard import BodyTooLargeError, Guard, message
from edl.studio.library import NoSuchRunError, find_run
from edl.studio.queue import WORKER, RunQueue

POLL_SECONDS, LIVE_SECONDS = 0.3, 0.5
STATIC = re.compile(r"[a-z_]+\.(js|css)")
TYPES = {"js": "text/javascript", "css": "text/css"}
REPORT_SANDBOX = "sandbox allow-scripts; frame-ancestors 'none'"
"""Reports have no origin, so a script in one cannot use the token."""


def make_app(runs: Path, token: str, port: int, worker: Sequence[str] = WORKER) -> Starlette:
    """The app that serves the runs of a folder. ``worker`` is the command that executes one."""
    queue = RunQueue(runs, worker=worker)
    submitting = threading.Lock()

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        poller = asyncio.create_task(poll_forever(queue))
        yield
        poller.cancel()
        await run_in_threadpool(queue.close)

    async def list_runs(request: Request) -> Response:
        folders = [find_run(runs, name) for name in library.run_names(runs)]
        return JSONResponse({"runs": [library.summary(folder, queue.status(folder)) for folder in folders]})

    async def submit(request: Request) -> Response:
        form = await body_of(request)

        def work() -> str:
            with submitting:  # two runs with one name
                return submission.submit(runs, form)

        name = await run_in_threadpool(work)
        queue.add(find_run(runs, name))
        return JSONResponse({"name": name}, status_code=201)

    async def show_run(request: Request) -> Response:
        folder = find_run(runs, request.path_params["name"])
        status = queue.status(folder)
        facts = await run_in_threadpool(library.details, folder, status)
        if status == "failed":
            facts["message"] = queue.message(folder)
        return JSONResponse(facts)

    async def act(request: Request) -> Response:
        folder, action = find_run(runs, request.path_params["name"]), request.path_params["action"]
        if action == "resume":
            queue.add(folder, first=queue.status(folder) == "paused")
        elif action in ("pause", "stop"):
            queue.end(folder, {"pause": "paused", "stop": "stopped"}[action])
        else:
            return message(404, f"there is no action {action[:40]!r}. Use pause, resume or stop.")
        return JSONResponse({"status": queue.status(folder)})

    async def show_file(request: Request) -> Response:
        folder, kind = find_run(runs, request.path_params["name"]), request.path_params["kind"]
        if kind == "thumbnail":
            return Response(library.read_inside(folder, "figures/skills.png"), media_type="image/png")
        if kind == "report":
            headers = {"Content-Security-Policy": REPORT_SANDBOX}
            return Response(library.read_inside(folder, store.REPORT), media_type="text/html", headers=headers)
        if kind == "panel":
            return JSONResponse({"panel": await run_in_threadpool(library.panel_of_report, folder)})
        return message(404, f"there is no file {kind[:40]!r}. Use thumbnail, report or panel.")

    async def live(socket: WebSocket) -> None:
        with contextlib.suppress(WebSocketDisconnect, NoSuchRunError):
            folder = find_run(runs, socket.path_params["name"])
            await socket.accept()
            await send_live(socket, folder, lambda: queue.status(folder))

    routes = [
        *(Route(path, show_page) for path in ("/", "/new", "/run/{name}")),
        Route("/static/{file}", show_static),
        Route("/api/choices", show_choices),
        Route("/api/maze", check_maze, methods=["POST"]),
        Route("/api/runs", list_runs),
        Route("/api/runs", submit, methods=["POST"]),
        Route("/api/runs/{name}", show_run),
        Route("/api/runs/{name}/files/{kind}", show_file),
        Route("/api/runs/{name}/{action}", act, methods=["POST"]),
        WebSocketRoute("/api/runs/{name}/live", live),
    ]
    handlers: dict[Any, Callable] = {
        ConfigError: lambda request, error: message(400, str(error)),
        NoSuchRunError: lambda request, error: message(404, str(error)),
        404: lambda request, error: message(404, "there is no such page."),
        405: lambda request, error: message(405, "this address does not take that method. Use GET or POST."),
    }
    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers=handlers)
    app.add_middleware(Guard, token=token, port=port)
    return app


async def poll_forever(queue: RunQueue) -> None:
    while True:
        queue.poll()
        await asyncio.sleep(POLL_SECONDS)


async def send_live(socket: WebSocket, folder: store.Folder, status: Callable[[], str]) -> None:
    """Send status and live view whenever they change, until the run is done or the page is gone."""
    last: tuple[str, str | None] | None = None
    closed = asyncio.ensure_future(socket.receive())
    while not closed.done():
        now = (status(), library.live_text(folder))
        if now != last:
            await socket.send_text(f'{{"status": {json.dumps(now[0])}, "live": {now[1] or "null"}}}')
            last = now
        await asyncio.wait([closed], timeout=LIVE_SECONDS)


async def body_of(request: Request) -> dict[str, Any]:
    """The JSON object in the body of a request."""
    try:
        found = json.loads(await request.body())
    except BodyTooLargeError:
        raise
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"the request must be JSON ({error}).") from error
    if not isinstance(found, dict):
        raise ConfigError("the request must be a JSON object.")
    return found


async def show_page(request: Request) -> Response:
    return Response(read_studio("index.html"), media_type="text/html")


async def show_static(request: Request) -> Response:
    """A script or style of the studio or of the panel."""
    name = request.path_params["file"]
    if STATIC.fullmatch(name):
        for package in ("edl.studio", "edl.figures"):
            file = importlib.resources.files(package).joinpath("web", name)
            if file.is_file():
                return Response(file.read_bytes(), media_type=TYPES[name.rpartition(".")[2]])
    return message(404, "there is no such file.")


async def show_choices(request: Request) -> Response:
    return JSONResponse(submission.choices())


async def check_maze(request: Request) -> Response:
    return JSONResponse(submission.check_maze((await body_of(request)).get("text")))


def read_studio(name: str) -> bytes:
    return importlib.resources.files("edl.studio").joinpath("web", name).read_bytes()
