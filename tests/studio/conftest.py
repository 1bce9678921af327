"""A server in a thread of the test process, and requests to it."""

import contextlib
import http.client
import importlib.util
import json
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

# The extra `studio` may be missing.
collect_ignore_glob = (
    [] if importlib.util.find_spec("starlette") and importlib.util.find_spec("uvicorn") else ["test_*"]
)
TOKEN = "the-token"


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Server(NamedTuple):
    port: int
    runs: Path

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    def ask(self, path: str, body: Any = None, *, method: str | None = None, **headers: str) -> Answer:
        """A request with the token, unless ``headers`` say otherwise."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        given = {"Host": self.host, "Authorization": f"Bearer {TOKEN}"} | headers
        given = {name.replace("_", "-"): value for name, value in given.items() if value}
        connection.putrequest(method or ("GET" if data is None else "POST"), path, skip_host=True)
        for name, value in given.items():
            connection.putheader(name, value)
        if data is not None and not {"Content-Length", "Transfer-Encoding"} & given.keys():
            connection.putheader("Content-Length", str(len(data)))
        connection.endheaders(data)
        response = connection.getresponse()
        answer = Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        connection.close()
        return answer


@contextlib.contextmanager
def serve(runs: Path, **options: Any) -> Iterator[Server]:
    """A server of a folder of runs in a thread of this process."""
    import uvicorn

    from edl.cli.studio import listen
    from edl.studio.server import make_app

    listener = listen(0)
    port = listener.getsockname()[1]
    running = uvicorn.Server(uvicorn.Config(make_app(runs, TOKEN, port, **options), log_level="error"))
    thread = threading.Thread(target=running.run, kwargs={"sockets": [listener]})
    thread.start()
    while not running.started:
        time.sleep(0.02)
    try:
        yield Server(port, runs)
    finally:
        running.should_exit = True
        thread.join()
        listener.close()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serve(tmp_path_factory.mktemp("studio")) as running:
        yield running


# A worker that waits for SIGINT and exits with status 130, or fails if its folder is called "bad".
WAITING_WORKER = """
import signal, sys, time
if sys.argv[1].endswith("bad"):
    sys.exit("it is broken")
signal.signal(signal.SIGINT, lambda *_: sys.exit(130))
time.sleep(0.2)  # a signal may arrive while a worker starts
signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
open(sys.argv[1] + "/started", "a").write("x")
time.sleep(60)
"""
WAITING = [sys.executable, "-S", "-c", WAITING_WORKER]


@pytest.fixture
def waiting_server(tmp_path: Path) -> Iterator[Server]:
    """A server with three runs whose workers do nothing but wait."""
    config = {"env": "square", "method": "edl", "explore": "frontier", "discover": "kmeans", "num_skills": 2}
    for name in "abc":
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(json.dumps({**config, "num_seeds": 1}))
    with serve(tmp_path, worker=WAITING) as running:
        yield running
