"""What the studio accepts and what it refuses: hosts, origins, tokens, sizes, paths and bad input."""

import json
import re
import shutil
import socket

import pytest

from edl.envs import layouts
from edl.figures.report import report_html
from edl.studio.server import read_studio
from tests.studio.conftest import TOKEN, Server

NASTY = "<img src=x onerror=alert(1)>"
PANEL = {"kind": "maze", "title": NASTY, "seeds": [{"seed": 0}]}


@pytest.fixture
def old_run(server: Server):
    """A finished run, made by hand."""
    path = server.runs / "old"
    (path / "figures").mkdir(parents=True)
    config = {"env": "square", "method": "edl", "explore": NASTY, "discover": "kmeans", "num_skills": 2, "num_seeds": 1}
    (path / "config.json").write_text(json.dumps(config))
    (path / "metrics.json").write_text(json.dumps({"aggregate": {"goal_success": {"mean": 0.5}}}))
    (path / "report.html").write_text(report_html({}, {}, {}, panel=PANEL))
    (path / "figures" / "skills.png").write_bytes(b"\x89PNG")
    yield path
    shutil.rmtree(path)


def test_the_first_visit_moves_the_token_from_the_address_to_a_cookie(server):
    answer = server.ask(f"/?token={TOKEN}", Authorization="")
    assert answer.status == 303
    assert answer.headers["location"] == "/"
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    page = server.ask("/", Authorization="", Cookie=cookie.split(";")[0])
    assert page.status == 200
    assert b"edl studio" in page.body


@pytest.mark.parametrize(
    ("path", "headers", "status", "words"),
    [
        ("/", {"Authorization": ""}, 401, "token is missing or wrong"),
        ("/api/runs", {"Authorization": "Bearer wrong"}, 401, "token is missing or wrong"),
        ("/?token=wrong", {"Authorization": ""}, 401, "token is missing or wrong"),
        ("/static/app.js", {"Authorization": ""}, 401, "token is missing or wrong"),
        ("/api/runs", {"Host": "evil.example:80"}, 421, "this server is not 'evil.example:80'"),
        ("/api/runs", {"Host": "127.0.0.1"}, 421, "this server is not"),
        ("/api/runs", {"Origin": "http://evil.example"}, 403, "requests from 'http://evil.example' are not accepted"),
        ("/api/runs", {"Origin": "null"}, 403, "are not accepted"),
    ],
)
def test_requests_from_elsewhere_are_refused(server, path, headers, status, words):
    answer = server.ask(path, **headers)
    assert answer.status == status
    assert words in answer.json["error"]
    assert "default-src 'none'" in answer.headers["content-security-policy"]


def test_a_cross_site_post_with_the_cookie_is_refused(server):
    cookie = {"Authorization": "", "Cookie": f"edl_studio_{server.port}={TOKEN}"}
    assert server.ask("/api/maze", {"text": ""}, Origin="http://evil.example", **cookie).status == 403
    assert server.ask("/api/maze", {"text": ""}, **cookie).status == 403  # a form of another site may have no Origin
    assert server.ask("/api/maze", {"text": ""}, Origin=f"http://{server.host}", **cookie).status == 200


@pytest.mark.parametrize("headers", [{"Origin": "http://evil.example"}, {"Authorization": ""}, {}])
def test_web_sockets_need_the_origin_and_the_token(server, old_run, headers):
    upgrade = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "x3JJHMbDL1EzLkh9GBhXDw==",
    }
    answer = server.ask("/api/runs/old/live", **upgrade, **headers) if headers else None
    if answer is not None:
        assert answer.status == 403
        return
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
        lines = ["GET /api/runs/old/live HTTP/1.1", f"Host: {server.host}", f"Authorization: Bearer {TOKEN}"]
        lines += [f"{name}: {value}" for name, value in upgrade.items()]
        connection.sendall("\r\n".join([*lines, "", ""]).encode())
        received = b""
        while b'"status": "done"' not in received:
            received += connection.recv(4096)
        assert received.startswith(b"HTTP/1.1 101")


def test_large_bodies_are_refused(server):
    answer = server.ask("/api/maze", b" " * 1_000_001)
    assert answer.status == 413
    assert "at most 1000000 bytes" in answer.json["error"]
    # Without a Content-Length the bytes are counted.
    chunks = (b"%x\r\n" % 100_000 + b" " * 100_000 + b"\r\n") * 11 + b"0\r\n\r\n"
    answer = server.ask("/api/maze", chunks, Transfer_Encoding="chunked")
    assert answer.status == 413
    assert "at most 1000000 bytes" in answer.json["error"]
    assert "default-src 'none'" in answer.headers["content-security-policy"]


@pytest.mark.parametrize(
    "path",
    [
        "/api/runs/../secret", "/api/runs/%2e%2e%2fsecret", "/api/runs/..%2fsecret/files/report", "/api/runs/link",
        "/static/..%2findex.html", "/static/%2e%2e/%2e%2e/queue.py", "/static/index.html", "/api/runs/missing",
        "/api/runs/old/files/x", "/run/../../etc/passwd", "//etc/passwd",
    ],
)  # fmt: skip
def test_no_path_leads_out_of_the_folder(server, path, tmp_path):
    (tmp_path / "config.json").write_text("{}")
    (server.runs.parent / "secret").mkdir(exist_ok=True)
    (server.runs.parent / "secret" / "config.json").write_text("{}")
    link = server.runs / "link"
    if not link.exists():
        link.symlink_to(tmp_path)
    answer = server.ask(path)
    link.unlink()
    # "runs/../secret" has the form of an action, which must be a POST.
    assert answer.status == (405 if path.endswith(("/../secret", "%2fsecret")) else 404)
    assert answer.json["error"]


def test_a_link_in_a_run_is_not_followed(server, old_run, tmp_path):
    secret = tmp_path / "secret.html"
    secret.write_text("secret")
    (old_run / "report.html").unlink()
    (old_run / "report.html").symlink_to(secret)
    answer = server.ask("/api/runs/old/files/report")
    assert answer.status == 404
    assert answer.json["error"] == "run 'old' has no file 'report.html'."


def test_the_list_of_runs(server, old_run):
    (server.runs / "broken").mkdir()
    (server.runs / "broken" / "config.json").write_text("{")
    runs = {run["name"]: run for run in server.ask("/api/runs").json["runs"]}
    shutil.rmtree(server.runs / "broken")
    assert runs["old"]["status"] == "done"
    assert runs["old"]["goal_success"] == 0.5
    assert runs["old"]["explore"] == NASTY  # the page shows it as text, see test_studio.py
    assert runs["broken"]["status"] == "damaged"
    assert "not valid JSON" in runs["broken"]["message"]


def test_files_of_a_run(server, old_run):
    report = server.ask("/api/runs/old/files/report")
    assert report.headers["content-security-policy"] == "sandbox allow-scripts; frame-ancestors 'none'"
    assert report.headers["x-content-type-options"] == "nosniff"
    assert server.ask("/api/runs/old/files/panel").json["panel"] == [PANEL]
    assert server.ask("/api/runs/old/files/thumbnail").headers["content-type"] == "image/png"
    assert server.ask("/api/runs/old").json["maze"]["name"] == "square"
    refused = server.ask("/api/runs/old/resume", {})
    assert refused.status == 400
    assert "run 'old' is done" in refused.json["error"]
    assert server.ask("/api/runs/old/explode", {}).status == 404
    assert "there is no file 'config'" in server.ask("/api/runs/old/files/config").json["error"]


def test_every_module_that_a_page_imports_is_served(server):
    page = read_studio("index.html").decode()
    found, waiting = set(), set(re.findall(r"/static/([\w.]+)", page))
    while waiting:
        name = waiting.pop()
        found.add(name)
        answer = server.ask(f"/static/{name}")
        assert answer.status == 200, name
        waiting |= set(re.findall(r'from "\./([\w.]+)"', answer.body.decode())) - found
    assert {"site.js", "editor.js", "app.js", "physics.js", "page.css"} <= found


@pytest.mark.parametrize(
    ("text", "row", "column", "words"),
    [
        ("", 1, 1, "the first row has 0 characters"),
        ("+-+\n|#|\n+-+\n", 2, 2, "no start cell"),
        ("+-+\n|S \n+-+\n", 2, 3, "leaks to the outside"),
        ("+-+\n|X|\n+-+\n", 2, 2, "unknown character 'X'"),
        ("+-+-+\n|S| |\n+-+-+\n", 2, 4, "cannot be reached"),
        ("+-" * 300 + "+\n|S" + "  " * 299 + "|\n" + "+-" * 300 + "+\n", 3, 601, "more than 256 cells along a side"),
    ],
)
def test_bad_mazes_are_refused_with_their_place(server, text, row, column, words):
    found = server.ask("/api/maze", {"text": text}).json
    assert words in found["error"]
    assert (found["row"], found["column"]) == (row, column)
    refused = server.ask("/api/runs", {"name": "bad", "maze": text or "x", "num_skills": 2})
    assert refused.status == 400
    assert not (server.runs / "bad").exists()


def test_a_good_maze_is_parsed(server):
    text = (layouts.FOLDER / "square.txt").read_text()
    assert len(server.ask("/api/maze", {"text": text}).json["maze"]["cells"]) == len(layouts.load("square").cells)
    assert server.ask("/api/choices").json["templates"]["square"] == text


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ({"name": "../up", "env": "square"}, "the name of a run must have 1 to 64 letters"),
        ({"name": "a/b", "env": "square"}, "the name of a run must have"),
        ({"name": 3, "env": "square"}, "the name of a run must have"),
        ({"env": "square"}, "the name of a run must have"),
        ({"name": "x", "env": "os:system"}, "unknown maze 'os:system'"),
        ({"name": "x", "env": "/etc/passwd"}, "unknown maze '/etc/passwd'"),
        ({"name": "x", "env": "Ant-v5"}, "unknown maze"),
        ({"name": "x", "env": "square", "explore": "dataset:/etc/passwd"}, "unknown explore"),
        ({"name": "x", "env": "square", "features": "os:path"}, "unknown settings: features"),
        ({"name": "x", "env": "square", "num_skills": 201}, "num_skills must be at most 200"),
        ({"name": "x", "env": "square", "num_skills": "many"}, "num_skills must be an integer"),
        ({"name": "x", "env": "square", "region": "__import__('os')"}, "region"),
        ({"name": "x", "env": "square", "method": "nothing"}, "unknown method"),
        ({"name": "x", "env": "square", "explorer": {"no_such": 1}}, "no_such"),
    ],
)
def test_bad_runs_are_refused(server, form, words):
    answer = server.ask("/api/runs", form)
    assert answer.status == 400, answer.body
    assert words in answer.json["error"]
    assert not (server.runs / "x").exists()


@pytest.mark.parametrize("body", [b"{", b"[]", b"\xff", b"[" * 100_000])
def test_requests_must_be_json_objects(server, body):
    answer = server.ask("/api/runs", body)
    assert answer.status == 400
    assert "the request must be" in answer.json["error"]
