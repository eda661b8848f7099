"""Asks a daemon, or starts one for a folder and ends it by its own id."""

import base64
import contextlib
import json
import os
import re
import socket
import struct
import subprocess
import time
import urllib.error
import urllib.request


class Client:
    def __init__(self, url, timeout_seconds=120):
        self.url, self.timeout_seconds = url.rstrip("/"), timeout_seconds

    def open(self, path, data=None):
        request = urllib.request.Request(
            self.url + path, data, {"Content-Type": "application/json"}
        )
        return urllib.request.urlopen(request, timeout=self.timeout_seconds)

    def get(self, path):
        with self.open(path) as reply:
            return json.load(reply)

    def post(self, path, body):
        """(200, the answer), or another status and what the error says."""
        try:
            with self.open(path, json.dumps(body).encode()) as reply:
                return reply.status, json.load(reply)
        except urllib.error.HTTPError as error:
            text = error.read().decode(errors="replace")
            with contextlib.suppress(ValueError, KeyError, TypeError):
                text = json.loads(text)["error"]["message"]
            return error.code, text[:300]
        except OSError as error:
            return 0, f"no answer: {error}"

    def version(self):
        """The daemon's own words for itself, or None if it does not show its metrics."""
        with contextlib.suppress(OSError):
            with self.open("/metrics") as reply:
                found = re.search(r"^seqd_build_info{(.*)}", reply.read().decode(), re.MULTILINE)
            labels = dict(re.findall(r'(\w+)="([^"]*)"', found[1])) if found else {}
            if labels:
                return "seqd {version} ({commit}, kernels {kernels})".format(**labels)
        return None

    def ready(self):
        with contextlib.suppress(OSError):
            with self.open("/readyz"):
                return True
        return False


def floats(datum):
    """The numbers of an `embedding`, which may be base64."""
    value = datum["embedding"]
    if not isinstance(value, str):
        return value
    data = base64.b64decode(value)
    numbers = list(struct.unpack(f"<{len(data) // 4}f", data))
    if len(datum["shape"]) == 1:
        return numbers
    width = datum["shape"][1]
    return [numbers[i : i + width] for i in range(0, len(numbers), width)]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def serving(command, folder, log_path, seconds=60):
    """A client of a daemon that serves the folder.  `command`: words with {folder} and {port}."""
    port = free_port()
    words = [word.format(folder=folder, port=port) for word in command]
    ours = {name for name in os.environ if name.startswith("SEQD_")} - {"SEQD_ISA"}
    environment = {k: v for k, v in os.environ.items() if k not in ours}
    with open(log_path, "wb") as log:
        process = subprocess.Popen(words, stdout=log, stderr=log, env=environment)
    try:
        client, end = Client(f"http://127.0.0.1:{port}"), time.monotonic() + seconds
        while not client.ready():
            if process.poll() is not None or time.monotonic() > end:
                with open(log_path, encoding="utf-8", errors="replace") as log:
                    raise RuntimeError(f"the daemon does not serve: {log.read()[-600:]}")
            time.sleep(0.05)
        yield client
        if process.poll() is not None:
            raise RuntimeError(f"the daemon ended with {process.returncode}; see {log_path}")
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
