"""The NFS part of the demonstration: a tree and a large file, copied in and out, and compared."""
import os
import random
import shutil

import demo_common as common

DIRECTORIES = 50
SMALL_MAX = 16 << 10  # bytes of a small file


def make_tree(top, files):
    """As a source tree has them: many small files, some of them executable, and links."""
    generator = random.Random(1)
    noise = generator.randbytes(SMALL_MAX * 2)
    for number in range(files):
        directory = top / f"{number % DIRECTORIES:02}" / ("deeper" if number % 3 else ".")
        directory.mkdir(parents=True, exist_ok=True)
        start, size = generator.randrange(SMALL_MAX), generator.randrange(SMALL_MAX)
        path = directory / f"file-{number:05}"
        path.write_bytes(noise[start:start + size])
        if number % 10 == 0:
            path.chmod(0o755)
        if number % 20 == 0:
            (directory / f"link-{number:05}").symlink_to(path.name)


def contents(top):
    """{path: mode and content} of all that is in a directory."""
    found = {}
    for path in top.rglob("*"):
        name = str(path.relative_to(top))
        if path.is_symlink():
            found[name] = ("link", os.readlink(path))
        elif path.is_dir():
            found[name] = ("directory", path.stat().st_mode)
        else:
            found[name] = ("file", path.stat().st_mode, path.stat().st_mtime_ns, common.sha256(path))
    return found


def must_be_equal(one, other, what):
    if contents(one) != contents(other):
        common.fail(f"{what}: the tree is different")


def print_table(rows, server):
    print(f"\n{'NFS version 3':32}{'files':>7}{'bytes':>12}{'s':>7}{'files/s':>9}{'GB/s':>7}")
    for name, row in rows:
        print(f"{name:32}{row['files']:7}{row['bytes']:12}{row['seconds']:7.2f}"
              f"{row['files'] / row['seconds']:9.0f}{row['gb_per_s']:7.2f}")
    print(f"server, in all: {server['calls']} calls, {server['read_chunks']} Read chunks, "
          f"{server['write_chunks']} Write chunks, {server['long_replies']} Long Replies")


def show(command, work, big, files):
    """`big` is a file; `files` is how many small ones are made. Prints the table."""
    served, tree = work / "served", work / "tree"
    served.mkdir()
    common.say(f"making a tree of {files} small files")
    make_tree(tree, files)
    server = common.Server(command, "--nfs", f"{served}:no_root_squash,name=/data", "--nfs-tcp-port", 0, "--handle-key",
                           work / "handle-key")
    exports = [url for url in server.urls if url.startswith("nfs+")]
    rows = []
    try:
        if len(exports) != 2:
            common.fail(f"the server exports by RDMA and TCP, and says {exports}")
        for url in exports:
            transport = url.split(":")[0]
            common.say(f"{transport}: cp -a of the tree and of {big.name}, in and out of {url}")
            for source in (tree, big):
                rows.append((f"{source.name} in, {transport}",
                             common.run(command, "cp", "-a", source, f"{url}/")))
                rows.append((f"{source.name} out, {transport}",
                             common.run(command, "cp", "-a", f"{url}/{source.name}", work / "back")))
                copies = (served / source.name, work / "back")
                for copy in copies:
                    if source is tree:
                        must_be_equal(tree, copy, f"{transport}, {copy.name}")
                        shutil.rmtree(copy)
                    else:
                        if common.sha256(copy) != common.sha256(source):
                            common.fail(f"{transport}: {big.name} is different")
                        copy.unlink()
    finally:
        counters = server.stop()
    common.say("everything is the same at both ends: contents (SHA-256), modes, times, links")
    print_table(rows, counters)
