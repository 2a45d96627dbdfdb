"""What the tests of `rpcrdma mount` have in common: a server, mounts of it, and their end."""
import json
import os
import pathlib
import subprocess

from command_fixture import BOUND_S, COMMAND, CommandFixture, run

TIMEO = 600  # tenths of seconds that a request may take


def why_not():
    """The reason why nothing can be mounted here; none: it can."""
    if os.geteuid() != 0:
        return "mounting without root needs fusermount3 and a /dev/fuse for all; the lab has them"
    try:
        os.close(os.open("/dev/fuse", os.O_RDWR))
    except OSError as error:
        return f"/dev/fuse: {error.strerror}"
    if not json.loads(run("info", "--json").stdout)["features"]["mount"]["built"]:
        return "this build has no libfuse3"
    return None


def mounts():
    """The mount points here, with the numbers of their devices."""
    lines = pathlib.Path("/proc/self/mountinfo").read_text().splitlines()
    return {words[4]: words[2] for words in map(str.split, lines)}


class MountFixture(CommandFixture):
    def setUp(self):
        super().setUp()
        self.processes = []
        self.environment = {}
        self.at = self.root / "at"
        self.at.mkdir()
        self.server, self.url = self.serve_nfs()

    def tearDown(self):
        for point, device in mounts().items():
            if not point.startswith(str(self.root)):
                continue
            subprocess.run(["umount", "-l", point], check=False)
            abort = pathlib.Path(f"/sys/fs/fuse/connections/{device.split(':')[1]}/abort")
            try:
                abort.write_text("1")
            except OSError:
                pass  # it is gone, or the folder is not mounted here
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.communicate(timeout=BOUND_S)
        super().tearDown()

    def serve_nfs(self, port=0, folder=None):
        process = subprocess.Popen(
            [COMMAND, "serve", "--nfs", f"{folder or self.served}:no_root_squash", "--export", "/data", "--port",
             str(port), "--provider", "siwarp", "--handle-key", self.root / "key"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.processes.append(process)
        line = process.stdout.readline()
        self.assertTrue(line.startswith("ready"), line)
        return process, next(word for word in line.split() if word.startswith("nfs+rdma"))

    def port(self):
        return int(self.url.split("/")[2].split(":")[1])

    def mount(self, *arguments, at=None, url=None, options=f"timeo={TIMEO}"):
        """Mounts, and returns the process that stays in the foreground."""
        process = subprocess.Popen([COMMAND, "mount", url or self.url, at or self.at, "-f", "-o", options, "--stats",
                                    *map(str, arguments)], stderr=subprocess.PIPE, text=True,
                                   env={**os.environ, **self.environment})
        self.processes.append(process)
        line = process.stderr.readline()
        self.assertTrue(line.startswith("ready"), line)
        return process

    def ended(self, process, code=0):
        """What the process said, which ends by itself."""
        _, errors = process.communicate(timeout=BOUND_S)
        self.assertEqual(process.returncode, code, errors)
        return errors

    def is_mounted(self, at=None):
        return str(at or self.at) in mounts()

    def ok(self, *command, **keywords):
        result = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=BOUND_S, check=False,
                                **keywords)
        self.assertEqual(result.returncode, 0, (command, result.stdout, result.stderr))
        return result.stdout

    def fails_with(self, code, function, *arguments):
        with self.assertRaises(OSError) as raised:
            function(*arguments)
        self.assertEqual(raised.exception.errno, code, raised.exception)
