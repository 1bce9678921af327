"""A Ray cluster: Ray Core tasks, with a GPU or a core each.

Ray Tune is not used: it runs one trial per config, and a chunk has many configs in one program. Workers keep their
compiled programs (``max_calls=0``). Two tasks per device are submitted at a time, so that a device never waits for the
driver. A task whose worker or node is lost starts again on another one and continues from its checkpoint on shared
storage.
"""

import contextlib
import importlib.metadata
import logging
import os
import platform
import secrets
import socket
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import edl
from edl.config import ConfigError
from edl.runs.executors import Outcome, Task, call
from edl.runs.store import write_file

IN_FLIGHT = 2
"""Tasks per device that are submitted and unfinished."""
CONNECT_SECONDS = 10.0
CHECK_SECONDS = 120.0
"""How long a node may take to start a worker that reports its versions."""
STOP_SECONDS = 20.0
VERSIONS = ("jax", "jaxlib", "numpy", "equinox", "optax")
"""Packages that must be the same on all nodes: they may change the bits of a result."""
PASSED_ON = ("EDL_CACHE", "JAX_PLATFORMS", "JAX_COMPILATION_CACHE_DIR", "XLA_FLAGS")
"""Variables that workers get from the driver, if it has them."""


class RayExecutor:
    """Runs tasks on a Ray cluster. ``workers`` 0 means one per GPU, or one per core if there are none."""

    def __init__(self, address: str | None, workers: int, folder: str | None):
        self.ray = import_ray()
        self.owned = not self.ray.is_initialized()
        if self.owned:
            connect(self.ray, address, workers)
        try:
            check_nodes(self.ray, folder)
        except BaseException:
            self._disconnect()
            raise
        self.own_node = self.ray.get_runtime_context().get_node_id()
        total = self.ray.cluster_resources()
        gpus, cores = int(total.get("GPU", 0)), int(total.get("CPU", 0))
        self.backend: str | None = "gpu" if gpus else "cpu"
        self.workers = workers or gpus or max(cores, 1)
        self.capacity = IN_FLIGHT * self.workers
        needs = {"num_gpus": 1, "num_cpus": 1} if gpus else {"num_cpus": 1}
        # A lost task is submitted again by `run_tasks`, which counts the losses; max_calls=0 keeps the process.
        options = {**needs, "max_calls": 0, "max_retries": 0, "runtime_env": {"env_vars": worker_variables(not gpus)}}
        self.remote = self.ray.remote(**options)(run_in_worker)
        self.running: dict[Any, Task] = {}

    def submit(self, task: Task) -> None:
        self.running[self.remote.remote(task)] = task

    def wait(self, seconds: float) -> list[Outcome]:
        ready, _ = self.ray.wait(list(self.running), num_returns=1, timeout=seconds)
        return [self._outcome(reference) for reference in ready]

    def _outcome(self, reference: Any) -> Outcome:
        task = self.running.pop(reference)
        try:
            value, error = self.ray.get(reference)
        except self.ray.exceptions.RayTaskError as failure:  # the task could not even be read in the worker
            return Outcome(task, error=failure)
        except self.ray.exceptions.RayError as failure:  # the worker, its node or its raylet has died
            if not self._is_connected():
                raise ConfigError(
                    "Ray has ended on this machine, so that no more tasks can be started. Continue with --resume."
                ) from failure
            return Outcome(task, lost=True)
        return Outcome(task, value, error)

    def _is_connected(self) -> bool:
        """Whether the node that this process submits its tasks to is alive. Without it, every task would fail."""
        try:
            return any(node["NodeID"] == self.own_node and node["Alive"] for node in self.ray.nodes())
        except (self.ray.exceptions.RayError, OSError, RuntimeError):
            return False

    def close(self) -> None:
        """Cancel the tasks that are running: they write a checkpoint if they are given the time."""
        for reference in self.running:
            with contextlib.suppress(self.ray.exceptions.RayError):
                self.ray.cancel(reference, force=False)
        if self.running:
            self.ray.wait(list(self.running), num_returns=len(self.running), timeout=STOP_SECONDS)
        self.running = {}
        self._disconnect()

    def _disconnect(self) -> None:
        if self.owned:
            self.ray.shutdown()


def run_in_worker(task: Task) -> tuple[Any, BaseException | None]:
    """Run a task in a Ray worker, which is set up on its first call."""
    from edl import runtime

    runtime.enable()
    return call(task)


def worker_variables(cpu: bool) -> dict[str, str]:
    """The environment of a worker. On a CPU it has one device and one thread: Ray gives it one core."""
    found = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    own = {"JAX_NUM_CPU_DEVICES": "1", "NPROC": "1"} if cpu else {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    paths = [str(Path(edl.__file__).parents[1]), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    return {**found, **own, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def import_ray() -> Any:
    """Ray, without its reports and its messages in the terminal."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # leave CUDA_VISIBLE_DEVICES to JAX
    os.environ.setdefault("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
    try:
        import ray
    except ImportError as error:
        raise ConfigError("--executor ray needs Ray. In a checkout, pip install '.[ray]'.") from error
    return ray


def connect(ray: Any, address: str | None, workers: int) -> None:
    """Connect to a cluster, or start one on this machine if there is no address."""
    if address is not None and address not in ("auto", "local"):
        check_reachable(address)
    quiet = {"logging_level": logging.ERROR, "log_to_driver": False, "configure_logging": True}
    local = {"include_dashboard": False, **({"num_cpus": workers} if workers else {})}
    try:
        with warnings.catch_warnings():
            # Ray starts its processes with fork and exec at once, which is safe in spite of JAX's threads.
            warnings.filterwarnings("ignore", message=r"os\.fork\(\) was called", category=RuntimeWarning)
            ray.init(address or "local", **quiet, **(local if address in (None, "local") else {}))
    except (ConnectionError, TimeoutError, ValueError) as error:
        raise ConfigError(unreachable(address, str(error))) from error
    except RuntimeError as error:  # Ray or Python of another version
        raise ConfigError(f"the Ray cluster at {address!r} does not fit this machine: {error}") from error


def check_reachable(address: str) -> None:
    """Reject an address that nobody listens on. Ray itself would try for a minute."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise ConfigError(f"--address must be host:port, auto or local (got {address!r}).")
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise ConfigError(unreachable(address, str(error))) from error


def unreachable(address: str | None, why: str) -> str:
    first = why.strip().splitlines()[0] if why.strip() else "no answer"
    return (
        f"no Ray cluster can be reached at {address!r} ({first.rstrip('.')}). Start one with `ray start --head`, check "
        "the address, or leave out --address to use this machine."
    )


def versions() -> dict[str, str]:
    """The versions that must agree, of this process."""
    packages = {name: importlib.metadata.version(name) for name in VERSIONS}
    return {"edl": edl.__version__, "python": platform.python_version(), **packages}


def report_node(token_file: str | None) -> tuple[dict[str, str], str | None]:
    """Called on a node: its versions, and what it reads in the file of the driver; None if it sees no such file."""
    seen = None
    if token_file is not None:
        with contextlib.suppress(OSError):
            seen = Path(token_file).read_text()
    return versions(), seen


def check_nodes(ray: Any, folder: str | None) -> None:
    """Reject a cluster whose nodes have other versions, or do not see the folder of the results."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    nodes = {node["NodeID"]: node["NodeManagerAddress"] for node in ray.nodes() if node["Alive"]}
    usable = {name: address for name, address in nodes.items() if cores_of(ray, name) > 0}
    if not usable:
        raise ConfigError("the Ray cluster has no CPUs. Start nodes with `ray start --address ... --num-cpus N`.")
    with token_in(folder) as (file, token):
        options = {"num_cpus": 0, "max_retries": 1, "runtime_env": {"env_vars": worker_variables(True)}}
        asked = {}
        for name in usable:
            strategy = NodeAffinitySchedulingStrategy(name, soft=False)
            asked[name] = ray.remote(**options)(report_node).options(scheduling_strategy=strategy).remote(file)
        for name, reference in asked.items():
            try:
                found, seen = ray.get(reference, timeout=CHECK_SECONDS)
            except ray.exceptions.RayError as error:
                raise ConfigError(
                    f"node {usable[name]} of the Ray cluster cannot run edl ({str(error).splitlines()[-1]}). "
                    "Install the same version of edl on all nodes."
                ) from error
            check_versions(usable[name], found)
            if file is not None and seen != token:
                raise ConfigError(
                    f"node {usable[name]} of the Ray cluster does not see the folder {folder!r}. "
                    "Choose an --out on storage that all nodes share, under the same path."
                )


def cores_of(ray: Any, node: str) -> float:
    return next((each["Resources"].get("CPU", 0.0) for each in ray.nodes() if each["NodeID"] == node), 0.0)


def check_versions(node: str, found: Mapping[str, str]) -> None:
    """Reject a node with other versions than this process."""
    own = versions()
    other = [f"{name} {found.get(name)} (here {own[name]})" for name in own if found.get(name) != own[name]]
    if other:
        raise ConfigError(
            f"node {node} of the Ray cluster has other versions: {', '.join(other)}. "
            "Install the same versions on all nodes."
        )


@contextlib.contextmanager
def token_in(folder: str | None) -> Iterator[tuple[str | None, str]]:
    """A file with a random text beside the folder, or in the nearest folder above that exists, for a moment."""
    token = secrets.token_hex(16)
    if folder is None:
        yield None, token
        return
    place = Path(folder).absolute()
    while not place.is_dir():
        place = place.parent
    file = place / f".edl-{token[:8]}"
    try:
        write_file(file, token.encode())
    except OSError as error:
        raise ConfigError(f"{str(place)!r} cannot be written ({error.strerror}). Choose another --out.") from error
    try:
        yield str(file), token
    finally:
        file.unlink(missing_ok=True)
