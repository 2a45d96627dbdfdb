#!/usr/bin/env python3
"""Runs in the guest and starts programs for the orchestrator on the host (machine.py), one JSON text a line.

From the host: {"do": "start", "id": N, "argv": [...], "env": {...}, "cwd": DIR, "log": PATH}
               {"do": "signal", "id": N, "signal": N}       {"do": "power off"}
To the host:   {"id": 0, "uname": ...} once, {"id": N, "pid": N}, {"id": N, "status": N} at the end of each, as
               Popen.returncode has it: negative for a signal; 127 when it could not be started.
What a program prints goes to PATH.out and PATH.err in the folder that both sides see, not through here.
"""
import glob
import json
import os
import subprocess
import threading
import time

PORT_NAME = "lab.agent"


def open_port():
    for _ in range(100):
        for name in glob.glob("/sys/class/virtio-ports/*/name"):
            with open(name) as file:
                if file.read().strip() == PORT_NAME:
                    return os.open("/dev/" + name.split("/")[-2], os.O_RDWR)
        time.sleep(0.1)
    raise SystemExit("agent: no port to the host")


class Agent:
    def __init__(self, port):
        self.port = port
        self.lock = threading.Lock()
        self.running = {}

    def tell(self, **message):
        data = (json.dumps(message) + "\n").encode()
        with self.lock:
            while data:
                data = data[os.write(self.port, data):]

    def start(self, request):
        log = "/lab/" + request["log"]
        environment = {**os.environ, **request["env"]}
        try:
            with open(log + ".out", "wb") as out, open(log + ".err", "wb") as err:
                # A session of its own: a signal takes the children of a shell along.
                program = subprocess.Popen(request["argv"], stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                           env=environment, cwd=request["cwd"], start_new_session=True)
        except OSError as error:
            with open(log + ".err", "a") as err:
                print(error, file=err)
            self.tell(id=request["id"], status=127)
            return
        self.running[request["id"]] = program
        self.tell(id=request["id"], pid=program.pid)
        threading.Thread(target=self.wait, args=(request["id"], program), daemon=True).start()

    def wait(self, number, program):
        status = program.wait()
        del self.running[number]
        self.tell(id=number, status=status)

    def signal(self, request):
        program = self.running.get(request["id"])
        if program:
            try:
                os.killpg(program.pid, request["signal"])
            except ProcessLookupError:
                pass

    def run(self):
        self.tell(id=0, uname=os.uname().release)
        rest = b""
        while True:
            data = os.read(self.port, 65536)
            if not data:
                return  # the host is gone
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                request = json.loads(line)
                if request["do"] == "power off":
                    return
                {"start": self.start, "signal": self.signal}[request["do"]](request)


if __name__ == "__main__":
    Agent(open_port()).run()
