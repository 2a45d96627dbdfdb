"""What the guest boots from: made by guest/*.sh when it is missing or when those changed, and kept in build-lab."""
import dataclasses
import hashlib
import os
import pathlib
import shutil
import subprocess

from contained import contained, run_contained

SCRIPTS = pathlib.Path(__file__).resolve().parent / "guest"
PROBE_SECONDS = 20


@dataclasses.dataclass
class GuestFiles:
    root_image: pathlib.Path
    kernel: pathlib.Path
    initrd: pathlib.Path
    version: str
    accelerator: str


def make(folder, script, arguments, output, inputs):
    """Runs a script of guest/ in an empty folder, unless its output is there and came from the same inputs."""
    stamp = folder / (output.name + ".stamp")
    digest = hashlib.sha256(repr(arguments[:-1]).encode())
    for name in (script, *inputs):
        digest.update((SCRIPTS / name).read_bytes())
    if output.exists() and stamp.exists() and stamp.read_text() == digest.hexdigest():
        return
    stamp.unlink(missing_ok=True)
    scratch = folder / "scratch"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    try:
        run_contained([SCRIPTS / script, *arguments], cwd=scratch, env={**os.environ, "TMPDIR": str(scratch)})
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    stamp.write_text(digest.hexdigest())


def kvm_answers(kernel_folder):
    """/dev/kvm may be there and a guest never run: only a boot tells."""
    if not os.access("/dev/kvm", os.W_OK):
        return False
    qemu = ["qemu-system-x86_64", "-accel", "kvm", "-cpu", "host", "-m", "512", "-nodefaults", "-no-reboot",
            "-display", "none", "-serial", "stdio", "-kernel", kernel_folder / "kernel", "-initrd",
            kernel_folder / "initrd", "-append", "console=ttyS0 panic=-1 quiet lab.probe"]
    print(f"guest: does KVM work here? (at most {PROBE_SECONDS} s, asked once)", flush=True)
    try:
        result = subprocess.run(contained(qemu), stdin=subprocess.DEVNULL, capture_output=True,
                                timeout=PROBE_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return False
    return result.returncode == 0 and b"lab-probe-answers" in result.stdout


def prepare(folder, series, rebuild):
    folder.mkdir(parents=True, exist_ok=True)
    if rebuild:
        for stamp in folder.glob("*.stamp"):
            stamp.unlink()
    root_image, kernel_folder = folder / "root.ext4", folder / f"kernel-{series}"
    make(folder, "root_image.sh", [root_image], root_image, ["common.sh"])
    make(folder, "kernel.sh", [series, kernel_folder], kernel_folder, ["common.sh", "first_stage.sh"])
    answer = folder / "accelerator.stamp"
    if not answer.exists():
        answer.write_text("kvm" if kvm_answers(kernel_folder) else "tcg,thread=multi")
    return GuestFiles(root_image, kernel_folder / "kernel", kernel_folder / "initrd",
                      (kernel_folder / "version").read_text().strip(), answer.read_text())
