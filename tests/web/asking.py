"""Asking a page over HTTP."""

import http.client

from relive.web.start import Page
from waiting import PATIENCE


def get(page: Page, path: str, method: str = "GET", token: bool = True, **headers) -> tuple[int, dict, bytes]:
    """Status, headers and the beginning of what comes back."""
    connection = http.client.HTTPConnection("127.0.0.1", page.port, timeout=PATIENCE)
    given = {"Cookie": f"relive-{page.port}={page.token}"} if token else {}
    connection.putrequest(method, path, skip_host="Host" in headers, skip_accept_encoding=True)
    for name, value in {**given, **headers}.items():
        connection.putheader(name.replace("_", "-"), value)
    connection.endheaders()
    answer = connection.getresponse()
    data = answer.read1(1000) if "event-stream" in (answer.getheader("content-type") or "") else answer.read()
    connection.close()
    return answer.status, {key.lower(): value for key, value in answer.getheaders()}, data
