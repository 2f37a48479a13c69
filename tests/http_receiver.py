"""An HTTP endpoint on loopback, as a thread of a test: keeps what came, answers what it is told to."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class HttpReceiver(ThreadingHTTPServer):
    """`answer(rows so far)` gives the status of each request, None leaves it without one; `headers` go with every answer."""

    daemon_threads = True

    def __init__(self, answer=lambda _: 200, headers=None):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer, self.requests, self.mutex, self.ended = answer, [], threading.Lock(), threading.Event()
        self.headers, self.told, self.answered = headers or {}, b"no room", 0
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/rows"

    def rows(self):
        """Sender, batch, partition, number and body of every request that was taken in."""
        return [(*_identity(headers), body) for headers, body in self.requests]

    def __exit__(self, *_):
        self.ended.set()
        self.shutdown()
        self.server_close()


def _identity(headers):
    return headers["Evenly-Sender"], *(int(headers[f"Evenly-{name}"]) for name in ("Batch", "Partition", "Number"))


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        with self.server.mutex:
            status = self.server.answer(len(self.server.requests))
            self.server.answered += 1
            if status is not None and 200 <= status < 300:
                self.server.requests.append((self.headers, body))
        if status is None:
            self.server.ended.wait(60.0)
            self.close_connection = True
            return
        told = b"" if status < 300 else self.server.told
        self.send_response(status)
        self.send_header("Content-Length", str(len(told)))
        for name, value in self.server.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(told)

    def log_message(self, *_):
        """Tests are quiet."""
