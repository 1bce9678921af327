"""What a request must satisfy before the studio looks at it.

* Host: the loopback address and port of the server. A page on a foreign domain that resolves to 127.0.0.1 (DNS
  rebinding) sends its own domain.
* Token: in a cookie that the first visit sets, or as a bearer token. Other users of the machine do not know it.
* Origin: requests that change something, and web sockets, must come from the studio's own pages.
* Size: bodies are limited.

Every response has headers that forbid foreign scripts, frames and content sniffing.
"""

import hmac
from http.cookies import CookieError, SimpleCookie

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_BODY = 1_000_000
SAFE_METHODS = ("GET", "HEAD")
CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class BodyTooLargeError(Exception):
    """The body of a request is larger than `MAX_BODY`."""


class Guard:
    """ASGI middleware that rejects requests; see the top of this file."""

    def __init__(self, app: ASGIApp, token: str, port: int):
        self.app, self.token, self.port = app, token, port
        self.hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]")}
        self.cookie = f"edl_studio_{port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            return await self.app(scope, receive, send)
        refused = self.refuse(scope)
        if refused is not None:
            return await refused_response(refused, scope, receive, send)
        if scope["type"] == "websocket":
            return await self.app(scope, receive, send)
        request = Request(scope)
        if "token" in request.query_params:  # the first visit: keep the token out of the address
            redirect = RedirectResponse(request.url.path, status_code=303)
            redirect.set_cookie(self.cookie, self.token, httponly=True, samesite="strict", path="/")
            return await with_headers(redirect)(scope, receive, send)
        try:
            await self.app(scope, limited(receive), headers_added(send))
        except BodyTooLargeError:
            await with_headers(too_large())(scope, receive, send)

    def refuse(self, scope: Scope) -> Response | None:
        """The response to a request that is refused; None for the others."""
        headers = Headers(scope=scope)
        host, origin = headers.get("host", ""), headers.get("origin")
        if host not in self.hosts:
            return message(421, f"this server is not {host[:80]!r}. Open the address that `edl studio` printed.")
        changes = scope["type"] == "websocket" or scope["method"] not in SAFE_METHODS
        bearer = headers.get("authorization", "").removeprefix("Bearer ")
        by_bearer = same(bearer, self.token)
        if origin is not None and origin not in {f"http://{name}" for name in self.hosts}:
            return message(403, f"requests from {origin[:80]!r} are not accepted. Use the studio's own pages.")
        if changes and origin is None and not by_bearer:
            return message(403, "this request has no Origin. Use the studio's own pages, or a bearer token.")
        query = Request(scope).query_params.get("token", "") if scope["type"] == "http" and not changes else ""
        if not (by_bearer or same(self.cookie_of(headers), self.token) or same(query, self.token)):
            return message(401, "the token is missing or wrong. Open the address that `edl studio` printed.")
        length = headers.get("content-length", "0")
        if not length.isdigit() or int(length) > MAX_BODY:
            return too_large()
        return None

    def cookie_of(self, headers: Headers) -> str:
        try:
            found = SimpleCookie(headers.get("cookie", "")).get(self.cookie)
        except CookieError:
            return ""
        return "" if found is None else found.value


def same(given: str, token: str) -> bool:
    """Compare in constant time."""
    return hmac.compare_digest(given.encode(), token.encode())


def message(status: int, text: str) -> JSONResponse:
    return JSONResponse({"error": text}, status_code=status)


def too_large() -> JSONResponse:
    return message(413, f"a request must have at most {MAX_BODY} bytes. Send less.")


def with_headers(response: Response) -> Response:
    add_headers(response.headers)
    return response


def add_headers(headers: MutableHeaders) -> None:
    for name, value in HEADERS.items():
        headers[name] = value
    headers.setdefault("Content-Security-Policy", CONTENT_POLICY)


def headers_added(send: Send) -> Send:
    async def send_with_headers(event: Message) -> None:
        if event["type"] == "http.response.start":
            add_headers(MutableHeaders(scope=event))
        await send(event)

    return send_with_headers


def limited(receive: Receive) -> Receive:
    """Count the bytes of a body, whose Content-Length may be missing."""
    size = 0

    async def receive_limited() -> Message:
        nonlocal size
        event = await receive()
        size += len(event.get("body", b""))
        if size > MAX_BODY:
            raise BodyTooLargeError
        return event

    return receive_limited


async def refused_response(response: Response, scope: Scope, receive: Receive, send: Send) -> None:
    """Send a refusal. A web socket is closed before it is accepted, which the browser sees as status 403."""
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.close", "code": 1008})
    else:
        await with_headers(response)(scope, receive, send)
