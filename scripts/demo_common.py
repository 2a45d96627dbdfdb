"""What the parts of the demonstration have in common: a server, the command, sums of files."""
import hashlib
import json
import os
import pathlib
import signal
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def fail(text):
    sys.exit(f"demo: {text}")


def say(text):
    print(f"demo: {text}", flush=True)


def sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def make_big(path, size):
    block = os.urandom(1 << 20)
    with open(path, "wb") as file:
        left = size
        while left > 0:
            # Each block differs, so that one that lands in the wrong place is noticed.
            piece = left.to_bytes(8, "big") + block[8:]
            file.write(piece[:left])
            left -= min(left, len(piece))


class Server:
    """`rpcrdma serve` on a free port of loopback. `url` is of RDMA, `urls` are all that it is ready at."""

    def __init__(self, command, *arguments):
        self.process = subprocess.Popen(
            [command, "serve", "--listen", "127.0.0.1", "--port", "0", "--json", "--log-level", "warning",
             *map(str, arguments)], stdout=subprocess.PIPE, text=True)
        ready = self.process.stdout.readline().split()
        if ready[:1] != ["ready"]:
            self.process.kill()
            self.process.wait()
            fail("the server did not start")
        self.urls = ready[1:]
        self.url = ready[1]

    def stop(self):
        """Its counters."""
        self.process.send_signal(signal.SIGTERM)
        try:
            output, _ = self.process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        if self.process.returncode != 0:
            fail(f"the server ended with status {self.process.returncode}")
        return json.loads(output[output.index("{"):])


def run(command, *arguments):
    result = subprocess.run([command, *map(str, arguments), "--json"], stdout=subprocess.PIPE, text=True,
                            check=False)
    if result.returncode != 0:
        fail(f"rpcrdma {arguments[0]} ended with status {result.returncode}")
    return json.loads(result.stdout)
