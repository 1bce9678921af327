"""``edl studio``: a local web page to draw mazes, start runs, watch them and play with their skills."""

import dataclasses
import secrets
import socket
import webbrowser
from pathlib import Path
from typing import Annotated

import tyro

from edl.cli.console import new_console, print_labelled
from edl.config import ConfigError, check

ABOUT = "Open the studio: draw mazes, start runs, watch them learn, and play with their skills, in a browser."
LOOPBACK = "127.0.0.1"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """Options of ``edl studio``."""

    runs: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("runs")
    """Folder of the runs. The studio reads and writes nothing outside of it."""
    port: int = 8347
    """Port on this machine; 0 chooses a free one. Other machines cannot connect."""
    open: bool = True
    """Open the page in a browser."""


def main(words: list[str]) -> int:
    options = tyro.cli(Options, args=words, prog="edl studio", description=ABOUT)
    check(0 <= options.port < 65536, f"--port must be between 0 and 65535 (got {options.port}).")
    try:
        import uvicorn

        from edl.studio.server import make_app
    except ImportError as error:
        raise ConfigError(
            f"edl studio needs the extra 'studio' ({error}). In a checkout, pip install '.[studio]'."
        ) from error
    options.runs.mkdir(parents=True, exist_ok=True)
    listener = listen(options.port)
    port, token = listener.getsockname()[1], secrets.token_urlsafe(24)
    address = f"http://{LOOPBACK}:{port}/?token={token}"
    print_labelled(new_console(), "studio", address)
    app = make_app(options.runs.resolve(), token, port)
    if options.open:
        webbrowser.open(address)
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", server_header=False, ws_max_size=65536))
    server.run(sockets=[listener])
    return 0


def listen(port: int) -> socket.socket:
    """A socket on the loopback interface."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((LOOPBACK, port))
        listener.listen()  # a browser that is faster than the server waits
    except OSError as error:
        listener.close()
        raise ConfigError(f"port {port} cannot be used ({error.strerror}). Choose another --port.") from error
    return listener
