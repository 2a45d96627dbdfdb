"""Programs that leave nothing behind: they run in namespaces that end with them, and they end with this process."""
import subprocess


def contained(argv, network=False):
    """The command line that runs argv as process 1 of its own pid and mount namespaces. When this process dies,
    also by SIGKILL, setpriv's signal ends unshare, unshare's ends argv, and the kernel ends all that argv started
    and unmounts what it mounted. With network: no interface but a loopback, and a tap made there vanishes too."""
    return ["setpriv", "--pdeathsig", "KILL", "unshare", "--pid", "--mount", *(["--net"] if network else []),
            "--fork", "--kill-child=KILL", "--mount-proc", *map(str, argv)]


def run_contained(argv, **settings):
    subprocess.run(contained(argv), check=True, **settings)
