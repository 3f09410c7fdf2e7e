"""A server on the loopback address that answers as S3 does where files are read: HEAD,
GET with ranges, and lists."""

import contextlib
import hashlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

ENTRY = "<Contents><Key>{}</Key><LastModified>2024-01-01T00:00:00.000Z</LastModified><Size>{}</Size></Contents>"
LIST = "<ListBucketResult><IsTruncated>false</IsTruncated><KeyCount>{}</KeyCount>{}</ListBucketResult>"


class Bucket(BaseHTTPRequestHandler):
    """Requests for the objects of a bucket. server.objects: by name; server.asked: what
    was asked for."""

    protocol_version = "HTTP/1.1"

    def do_HEAD(self):
        self.answer(with_body=False)

    def do_GET(self):
        parts = urlsplit(self.path)
        if "list-type" in parse_qs(parts.query):
            self.list(parse_qs(parts.query).get("prefix", [""])[0])
        else:
            self.answer(with_body=True)

    def list(self, prefix):
        objects = [
            (name, data)
            for name, data in self.server.objects.items()
            if name.startswith(prefix)
        ]
        text = "".join(ENTRY.format(escape(name), len(data)) for name, data in objects)
        self.send(200, LIST.format(len(objects), text).encode())

    def answer(self, with_body):
        name = unquote(urlsplit(self.path).path).partition("/")[2].partition("/")[2]
        self.server.asked.append((self.command, name, self.headers.get("Range")))
        data = self.server.objects.get(name)
        if data is None or self.server.is_denied or (with_body and self.server.is_down):
            if self.server.is_denied:
                code = 403
            elif data is None:
                code = 404
            else:
                code = 500
            self.send(
                code,
                b"<Error><Code>AccessDenied</Code></Error>" if with_body else b"",
                bool(with_body),
            )
            return
        tag = hashlib.md5(data).hexdigest()
        code = 200
        headers = {}
        if "Range" in self.headers and with_body:
            first, _, last = self.headers["Range"].removeprefix("bytes=").partition("-")
            first = int(first)
            last = min(int(last or len(data) - 1), len(data) - 1)
            code = 206
            headers = {"Content-Range": f"bytes {first}-{last}/{len(data)}"}
            data = data[first : last + 1]
        headers |= {
            "ETag": f'"{tag}"',
            "Last-Modified": "Mon, 01 Jan 2024 00:00:00 GMT",
        }
        self.send(code, data, with_body, headers)

    def send(self, code, data, with_body=True, headers=None):
        self.send_response(code)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if with_body:
            self.wfile.write(data[: len(data) // 2] if self.server.drops else data)
            self.close_connection = self.server.drops

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def bucket(objects):
    """Yield a server with these objects (bytes by name); its address is
    server.address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Bucket)
    server.objects = dict(objects)
    server.asked = []
    server.is_denied = False
    server.is_down = False
    server.drops = False
    server.address = f"127.0.0.1:{server.server_port}"
    # seconds until it sees its end
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
