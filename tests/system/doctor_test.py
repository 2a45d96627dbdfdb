#!/usr/bin/env python3
"""`rpcrdma doctor`: each step with its fault planted, on a machine that the test makes up or at a server of its own."""
import contextlib
import json
import os
import re
import resource
import shutil
import socket
import subprocess
import tempfile
import threading
import unittest

from command_fixture import BOUND_S, COMMAND, CommandFixture, run

GID = "fe80:0000:0000:0000:0200:00ff:fe00:0001"
ZERO = "0000:0000:0000:0000:0000:0000:0000:0000"
STEPS = ("build", "devices", "link", "gids", "mtu", "memlock", "descriptors", "hugepages", "modules", "drivers", "name",
         "route", "port", "connect", "setup", "program", "mount", "read", "counters", "settings", "ports", "rpcbind",
         "firewall")


class DoctorFixture(CommandFixture):
    def setUp(self):
        super().setUp()
        self.machine = self.root / "machine"
        self.plant("proc/modules", "ib_core 400000 2 ib_uverbs,rdma_cm, Live 0x0\nib_uverbs 1 0 - Live 0x0\n"
                                   "rdma_cm 1 1 rdma_ucm, Live 0x0\nrdma_ucm 1 0 - Live 0x0\nrpcrdma 1 0 - Live 0x0\n")
        self.plant("proc/meminfo", "MemTotal: 1 kB\nHugePages_Total:       0\nHugePages_Free:        0\n")
        # As root's, whose memory may be locked without a limit.
        self.plant("proc/self/status", "Name:\trpcrdma\nCapEff:\t0000000000004000\n")
        self.plant("proc/self/uid_map", "         0          0 4294967295\n")
        self.plant("proc/net/if_inet6", "00000000000000000000000000000001 01 80 10 80       lo\n")

    def plant(self, path, text):
        """Writes a file of the machine that is made up."""
        place = self.machine / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
        return place

    def need_verbs(self):
        if not json.loads(run("info", "--json").stdout)["features"]["verbs"]["built"]:
            self.skipTest("this rpcrdma was built without RDMA devices, and the step build says so")

    def plant_device(self, name="rxe0", netdev="lo", kind="1: CA", layer="Ethernet"):
        self.need_verbs()
        folder = f"sys/class/infiniband/{name}"
        self.plant(f"{folder}/node_type", f"{kind}\n")
        self.plant(f"{folder}/ports/1/state", "4: ACTIVE\n")
        self.plant(f"{folder}/ports/1/phys_state", "5: LinkUp\n")
        self.plant(f"{folder}/ports/1/link_layer", f"{layer}\n")
        self.plant(f"{folder}/ports/1/gids/0", f"{GID}\n")
        self.plant(f"{folder}/ports/1/gid_attrs/ndevs/0", f"{netdev}\n")
        # As unused entries of a table, which the kernel refuses to read (EINVAL).
        for path in ("gids/1", "gid_attrs/ndevs/1"):
            (self.machine / folder / "ports/1" / path).mkdir()
        self.plant(f"{folder}/ports/1/hw_counters/out_of_sequence", "7\n")
        self.plant(f"{folder}/ports/1/hw_counters/np_cnp_sent", "3\n")
        self.plant(f"sys/class/net/{netdev}/mtu", "1500\n")
        self.plant("dev/infiniband/uverbs0", "")
        self.plant("dev/infiniband/rdma_cm", "")
        return folder

    def doctor(self, *arguments, **keywords):
        environment = os.environ | {"RPCRDMA_DOCTOR_ROOT": str(self.machine)} | keywords.pop("env", {})
        patience = () if "--timeout" in arguments else ("--timeout", "40")  # whatever else this machine does
        return run("doctor", *arguments, *patience, env=environment, **keywords)

    def line(self, result, step):
        """(state, what was seen, what to do) of a step."""
        found = re.search(rf"^(\w+) +{step} +(.*)(?:\n +to do: (.*))?$", result.stdout, re.M)
        self.assertTrue(found, (step, result.stdout, result.stderr))
        return found[1], found[2], found[3] or ""

    def fails(self, step, seen, remedy, *arguments, **keywords):
        """The walk ends with this step, its exit status and what to do."""
        result = self.doctor(*arguments, **keywords)
        state, text, to_do = self.line(result, step)
        self.assertEqual((state, result.returncode), ("FAILED", 11 + STEPS.index(step)), result.stdout)
        self.assertIn(seen, text)
        self.assertIn(remedy, to_do)
        self.assertTrue(result.stdout.rstrip().endswith(to_do), "nothing comes behind the failure")
        self.assertEqual(result.stderr, "")
        return result

    def warns(self, step, seen, remedy, *arguments, code=0, **keywords):
        result = self.doctor(*arguments, **keywords)
        state, text, to_do = self.line(result, step)
        self.assertEqual((state, result.returncode), ("warning", code), result.stdout)
        self.assertIn(seen, text)
        self.assertIn(remedy, to_do)
        return result

    def is_fine(self, step, seen, *arguments, state="ok", **keywords):
        result = self.doctor(*arguments, **keywords)
        found, text, to_do = self.line(result, step)
        self.assertEqual((found, to_do, result.returncode), (state, "", 0), result.stdout)
        self.assertIn(seen, text)
        return result

    def in_namespace(self, kinds, script):
        """Runs a script of the shell where the network or the files are its own."""
        result = subprocess.run(["unshare", *kinds.split(), "sh", "-c", script], capture_output=True, text=True,
                                timeout=BOUND_S, check=False, env=os.environ | {"RPCRDMA_DOCTOR_ROOT": str(self.machine)})
        if result.returncode == 77 or "unshare" in result.stderr:
            self.skipTest(f"no namespace can be made here: {result.stderr}")
        return result


class MachineSteps(DoctorFixture):
    def limited(self, kind, limit):
        def set_limit():
            resource.setrlimit(kind, (limit, limit))
        return set_limit

    def test_healthy_machine_has_nothing_to_do(self):
        self.plant_device()
        result = self.doctor()
        self.assertEqual((result.returncode, result.stderr), (0, ""), result.stdout)
        self.assertNotIn("to do:", result.stdout)
        self.assertIn("Nothing is wrong", result.stdout)
        self.assertEqual(re.findall(r"^\w+ +(\w+) ", result.stdout.split("\n\n")[0], re.M), list(STEPS[:10]))
        self.assertIn("rxe0 (RoCE on lo)", self.line(result, "devices")[1])

    def test_plug_in_that_cannot_be_loaded_is_of_the_build(self):
        self.need_verbs()
        (self.root / "librpcrdma_verbs.so").write_bytes(b"")
        self.fails("build", "verbs cannot be loaded", "rpcrdma-verbs", env={"RPCRDMA_PROVIDER_DIR": str(self.root)})
        self.is_fine("build", "siwarp", "--provider", "siwarp", env={"RPCRDMA_PROVIDER_DIR": str(self.root)})

    def doctor_alone(self, *arguments):
        """Runs a copy of the command that has no plug-ins beside it, as the package rpcrdma installs it."""
        self.need_verbs()
        alone = self.root / "alone" / "rpcrdma"
        alone.parent.mkdir(exist_ok=True)
        shutil.copy2(COMMAND, alone)
        environment = {name: value for name, value in os.environ.items() if name != "RPCRDMA_PROVIDER_DIR"}
        result = subprocess.run([alone, "doctor", "--timeout", "40", *arguments], capture_output=True, text=True, check=False,
                                timeout=BOUND_S, env=environment | {"RPCRDMA_DOCTOR_ROOT": str(self.machine)})
        if self.line(result, "build")[1].startswith("RDMA devices (verbs)"):
            self.skipTest("this machine has the plug-in for RDMA devices where each rpcrdma finds it")
        return result

    def test_missing_plug_in_is_a_warning_until_there_is_a_device(self):
        result = self.doctor_alone()
        state, text, to_do = self.line(result, "build")
        self.assertEqual((state, result.returncode), ("warning", 0), result.stdout)
        self.assertIn("the provider verbs is not installed", text)
        self.assertIn("rpcrdma-verbs", to_do)
        self.assertEqual(self.doctor_alone("--provider", "verbs").returncode, 11)
        self.plant_device()
        result = self.doctor_alone()
        self.assertEqual((self.line(result, "build")[0], result.returncode), ("FAILED", 11), result.stdout)

    def test_missing_plug_in_for_kerberos_fails_where_it_is_asked_for(self):
        if not json.loads(run("info", "--json").stdout)["features"]["kerberos"]["built"]:
            self.skipTest("this rpcrdma was built without Kerberos")
        result = self.doctor_alone("nfs+rdma://127.0.0.1/d", "--sec", "krb5", "--provider", "siwarp")
        self.assertEqual((self.line(result, "build")[0], result.returncode), ("FAILED", 11), result.stdout)
        self.assertIn("install the package rpcrdma-krb5", self.line(result, "build")[2])

    def test_no_device_fails_where_one_is_asked_for(self):
        self.need_verbs()
        self.warns("devices", "no RDMA device", "rdma link add rxe0 type rxe")
        self.fails("devices", "no RDMA device", "rdma link add rxe0 type rxe", "--provider", "verbs")
        self.is_fine("devices", "siwarp", "--provider", "siwarp", state="skipped")

    def test_hardware_without_its_module_names_the_module(self):
        self.need_verbs()
        self.plant("sys/class/net/eth7/mtu", "1500\n")
        driver = self.machine / "sys/class/net/eth7/device/driver"
        driver.parent.mkdir()
        driver.symlink_to("../../../bus/pci/drivers/mlx5_core")
        self.warns("modules", "eth7 can do RDMA, and its module mlx5_ib", "modprobe mlx5_ib")
        self.fails("devices", "no RDMA device", "the hardware of eth7 can do RDMA: modprobe mlx5_ib", "--provider", "verbs")

    def test_device_without_link(self):
        folder = self.plant_device()
        self.plant(f"{folder}/ports/1/state", "1: DOWN\n")
        self.plant(f"{folder}/ports/1/phys_state", "3: Disabled\n")
        self.fails("link", "rxe0 port 1 is DOWN (Disabled)", "ip link set lo up")
        self.plant_device("rxe1", "eth1")
        self.warns("link", "rxe1 port 1 active; rxe0 port 1 is DOWN", "ip link set lo up")

    def test_infiniband_without_a_subnet_manager(self):
        folder = self.plant_device(layer="InfiniBand")
        self.plant(f"{folder}/ports/1/state", "2: INIT\n")
        self.fails("link", "is INIT", "opensm")

    def test_device_without_a_gid(self):
        folder = self.plant_device()
        self.plant(f"{folder}/ports/1/gids/0", f"{ZERO}\n")
        self.fails("gids", "rxe0 port 1 has no GID", "ip address add ADDRESS/BITS dev lo")
        self.plant(f"{folder}/node_type", "4: RNIC\n")
        self.assertEqual(self.line(self.doctor(), "gids")[:2], ("ok", "iWARP needs none"))

    def test_iwarp_device_is_found_by_the_hardware_address_in_its_gid(self):
        folder = self.plant_device("siw0", kind="4: RNIC")
        (self.machine / folder / "ports/1/gid_attrs/ndevs/0").unlink()
        self.plant(f"{folder}/ports/1/gids/0", "0200:0000:0001:0000:0000:0000:0000:0000\n")
        self.assertEqual(self.line(self.doctor(), "devices")[1], "siw0 (iWARP)")
        self.plant("sys/class/net/eth3/address", "02:00:00:00:00:01\n")
        self.plant("sys/class/net/lo/address", "00:00:00:00:00:00\n")
        self.assertEqual(self.line(self.doctor(), "devices")[1], "siw0 (iWARP on eth3)")

    def test_mtu_that_carries_no_packet(self):
        self.plant_device()
        self.plant("sys/class/net/lo/mtu", "300\n")
        self.fails("mtu", "the MTU of lo is 300", "ip link set lo mtu 1500")
        for mtu, packet in ((1500, 1024), (9000, 4096), (330, 256)):
            self.plant("sys/class/net/lo/mtu", f"{mtu}\n")
            self.assertEqual(self.line(self.doctor(), "mtu")[:2], ("ok", f"lo {mtu}, RoCE packets of {packet}"))

    def test_locked_memory_that_is_too_small_for_a_connection(self):
        self.plant_device()
        small = self.limited(resource.RLIMIT_MEMLOCK, 64 << 10)
        self.is_fine("memlock", "CAP_IPC_LOCK", preexec_fn=small)
        self.plant("proc/self/uid_map", "         0     100000      65536\n")  # a user namespace's root
        self.fails("memlock", "may lock 64 KiB", "--ulimit memlock=-1", preexec_fn=small)
        self.plant("proc/self/uid_map", "         0          0 4294967295\n")
        self.plant("proc/self/status", "CapEff:\t0000000000000000\n")
        self.fails("memlock", "may lock 64 KiB", "--ulimit memlock=-1", preexec_fn=small)
        self.warns("memlock", "4096 KiB", "LimitMEMLOCK=infinity", preexec_fn=self.limited(resource.RLIMIT_MEMLOCK, 4 << 20))

    def test_too_few_descriptors(self):
        few = self.limited(resource.RLIMIT_NOFILE, 24)
        self.fails("descriptors", "24 open", "ulimit -n 256", preexec_fn=few)
        self.warns("descriptors", "100 open", "ulimit -n 256", preexec_fn=self.limited(resource.RLIMIT_NOFILE, 100))
        self.fails("descriptors", "100 open", "LimitNOFILE=", "--server",
                   preexec_fn=self.limited(resource.RLIMIT_NOFILE, 100))

    def test_huge_pages_that_are_all_taken(self):
        self.plant("proc/meminfo", "HugePages_Total:      64\nHugePages_Free:        0\n")
        self.warns("hugepages", "64 reserved, 0 free", "vm.nr_hugepages")

    def test_container_without_the_files_of_the_devices(self):
        self.plant_device()
        (self.machine / "dev/infiniband/rdma_cm").unlink()
        self.fails("modules", "/dev/infiniband/rdma_cm is not there", "--device /dev/infiniband")
        self.plant("proc/modules", "ib_core 1 1 ib_uverbs, Live 0x0\n")
        self.fails("modules", "/dev/infiniband/rdma_cm is not there", "modprobe rdma_ucm")
        (self.machine / "dev/infiniband/uverbs0").unlink()
        self.fails("modules", "/dev/infiniband/uverbs0 is not there", "modprobe ib_uverbs")

    def test_kernel_that_cannot_mount_is_a_warning_alone(self):
        self.plant("proc/modules", "ib_core 1 0 - Live 0x0\n")
        self.warns("modules", "has not loaded the module rpcrdma", "only a mount by the kernel needs it")
        self.plant(f"lib/modules/{os.uname().release}/modules.builtin", "kernel/net/sunrpc/xprtrdma/rpcrdma.ko\n")
        self.assertEqual(self.line(self.doctor(), "modules")[0], "ok")

    def test_two_stacks_of_drivers_clash(self):
        self.plant("proc/modules", "mlx_compat 65536 2 mlx5_core,mlx5_ib, Live 0x0\nmlx5_core 1 0 - Live 0x0\n"
                                   "ib_core 1 0 - Live 0x0\nrpcrdma 1 0 - Live 0x0\n")
        self.fails("drivers", "mlx_compat of MLNX_OFED is loaded, and ib_core, rpcrdma of the kernel's own beside it",
                   "openibd restart")

    def test_modules_of_different_versions_clash(self):
        self.plant("sys/module/mlx5_core/version", "24.10-0.7.0\n")
        self.plant("sys/module/mlx5_ib/version", "5.8-1.1.2\n")
        self.fails("drivers", "5.8-1.1.2", "keep one of the two")

    def test_other_stack_without_its_rpcrdma_is_a_warning(self):
        self.plant("proc/modules", "mlx_compat 65536 1 ib_core, Live 0x0\nib_core 1 0 - Live 0x0\n")
        self.warns("drivers", "without its rpcrdma", "--with-nfsrdma")
        self.plant(f"lib/modules/{os.uname().release}/updates/dkms/rpcrdma.ko.xz", "")
        self.assertEqual(self.line(self.doctor(), "drivers")[:2], ("ok", "all of MLNX_OFED"))

    def test_output_that_nobody_takes_ends_the_walk(self):
        for words in ((), ("--json",), ("--server",)):
            with self.subTest(words), open("/dev/full", "w", encoding="utf-8") as full:
                result = subprocess.run([COMMAND, "doctor", *words], stdout=full, stderr=subprocess.PIPE, text=True, check=False,
                                        timeout=BOUND_S, env=os.environ | {"RPCRDMA_DOCTOR_ROOT": str(self.machine)})
                self.assertEqual((result.returncode, result.stderr),
                                 (1, "rpcrdma: standard output: No space left on device\n"))

    def test_options_of_connections_take_a_url(self):
        for words in (("--sec", "krb5"), ("--mount-port", "5"), ("--program", "5"), ("--version", "5"), ("--inline", "4096"),
                      ("--ird", "0"), ("--crc", "off")):
            refused = self.doctor(*words)
            self.assertEqual((refused.returncode, refused.stdout), (2, ""))
            self.assertIn(f"{words[0]} is for connections, and there is no URL", refused.stderr)
        for words, text in ((("--config", "x"), "--config is for servers (--server)"),
                            (("--server", "rdma://127.0.0.1"), "takes no URL"),
                            (("nfs+rdma://127.0.0.1,127.0.0.2/d",), "it names 2 servers"),
                            (("rdma://127.0.0.1/d",), "nfs+rdma://127.0.0.1/d"),
                            (("nfs+rdma://127.0.0.1/d", "--program", "5"), "--program is for rdma:// and tcp:// URLs"),
                            (("rdma://127.0.0.1", "--mount-port", "5"), "--mount-port is for NFS URLs"),
                            (("nfs+tcp://127.0.0.1/d", "--ord", "5"), "--ord is for RDMA, and this is plain TCP"),
                            (("http://127.0.0.1",), "expected nfs+rdma://")):
            refused = self.doctor(*words)
            self.assertEqual((refused.returncode, refused.stdout), (2, ""), words)
            self.assertIn(text, refused.stderr)


class ServerSteps(DoctorFixture):
    def setUp(self):
        super().setUp()
        self.nfs_servers = []
        (self.served / "file").write_text("abc")

    def tearDown(self):
        for server in self.nfs_servers:
            server.kill()
            server.communicate(timeout=BOUND_S)
        super().tearDown()

    def export(self, options="no_root_squash", *arguments):
        """A server of the directory; its URLs by their schemes."""
        self.nfs_servers.append(subprocess.Popen(
            [COMMAND, "serve", "--nfs", f"{self.served}:{options}", "--export", "/data", "--nfs-tcp-port", "0", "--port", "0",
             "--provider", "siwarp", "--handle-key", self.root / "key", *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        line = self.nfs_servers[-1].stdout.readline()
        self.assertTrue(line.startswith("ready"), line)
        return {url.split(":")[0]: url for url in line.split() if url.startswith("nfs+")}

    def test_export_that_can_be_read_ends_with_the_lines_that_mount_it(self):
        urls = self.export()
        port, plain = (urls[each].split("/")[2].split(":")[1] for each in ("nfs+rdma", "nfs+tcp"))
        result = self.is_fine("read", "3 bytes of file", urls["nfs+rdma"], "--mount-port", plain)
        self.assertEqual(re.findall(r"^\w+ +(\w+) ", result.stdout.split("\n\n")[0], re.M)[-9:], list(STEPS[10:19]))
        self.assertIn("RPC-over-RDMA version 1, ", self.line(result, "setup")[1])
        options = f"vers=3,rdma,port={port},mountport={plain},mountproto=tcp,nolock"
        self.assertIn(f"\nmount:   mount -t nfs -o {options} 127.0.0.1:/data /mnt\n", result.stdout)
        self.assertIn(f"\nfstab:   127.0.0.1:/data /mnt nfs {options},_netdev 0 0\n", result.stdout)
        self.assertIn("\nbut:     the kernel mounts over RDMA by an RDMA device", result.stdout)
        tcp = self.is_fine("read", "3 bytes of file", urls["nfs+tcp"])
        self.assertIn(f"mount -t nfs -o vers=3,proto=tcp,port={plain},mountport={plain},mountproto=tcp,nolock ", tcp.stdout)
        self.assertNotIn("\nbut: ", tcp.stdout)
        # Without --mount-port, MOUNT is looked for where it usually is.
        told = json.loads(self.doctor(urls["nfs+rdma"], "--json").stdout)
        self.assertNotEqual("mountport=2049" in told["mount"], any("MOUNT" in each for each in told["mount_obstacles"]))

    def test_json_is_one_object_with_each_step(self):
        url = self.export()["nfs+rdma"]
        good = json.loads(self.doctor(url, "--json").stdout)
        self.assertEqual([each["name"] for each in good["steps"]], list(STEPS[:19]))
        self.assertEqual([each["number"] for each in good["steps"]], list(range(1, 20)))
        self.assertEqual((good["url"], good["failed"], good["status"]), (url, None, 0))
        self.assertTrue(good["mount"].startswith("mount -t nfs -o vers=3,rdma,"))
        bad = self.doctor(url + "x", "--json")
        said = json.loads(bad.stdout)
        self.assertEqual((bad.returncode, said["status"], said["failed"]), (27, 27, "mount"))
        self.assertEqual((said["steps"][-1]["name"], said["steps"][-1]["state"]), ("mount", "FAILED"))
        self.assertTrue(said["steps"][-1]["remedy"])
        self.assertEqual(said["mount"], "")

    # --- Names, routes and ports ---

    def test_name_without_an_address(self):
        self.fails("name", "no.such.host.invalid has no address", "getent hosts", "nfs+rdma://no.such.host.invalid/data",
                   "--timeout", "20")

    def test_family_that_this_machine_does_not_have(self):
        self.plant("proc/net/if_inet6", "")
        self.fails("name", "::1 has IPv6 addresses alone (::1), and this machine has no IPv6", "an IPv4 address",
                   "nfs+rdma://[::1]:20049/data")

    def test_no_route(self):
        result = self.in_namespace("--net", f"{COMMAND} doctor rdma://192.0.2.1")
        self.assertEqual(result.returncode, 22, result.stdout + result.stderr)
        self.assertIn("no route leads to 192.0.2.1", self.line(result, "route")[1])
        self.assertIn("ip route get", self.line(result, "route")[2])

    def test_name_server_that_says_nothing_is_not_waited_for(self):
        (self.root / "resolv.conf").write_text("nameserver 127.0.0.1\noptions timeout:30 attempts:5\n")
        (self.root / "silent.py").write_text("import socket, subprocess, sys\n"
                                             "server = socket.socket(type=socket.SOCK_DGRAM)\n"
                                             "server.bind(('127.0.0.1', 53))\n"
                                             "sys.exit(subprocess.run(sys.argv[1:]).returncode)\n")
        result = self.in_namespace("--net --mount", "ip link set lo up || exit 77\n"
                                   f"mount --bind {self.root}/resolv.conf /etc/resolv.conf || exit 77\n"
                                   f"python3 {self.root}/silent.py {COMMAND} doctor rdma://storage.test --timeout 0.2")
        self.assertEqual(result.returncode, 21, result.stdout + result.stderr)
        self.assertIn("storage.test has no address: Temporary failure", self.line(result, "name")[1])

    def test_route_by_an_interface_without_its_own_device(self):
        url = self.export()["nfs+rdma"]
        self.plant_device(netdev="eth5")
        self.warns("route", "by lo", "rdma link add rxe0 type rxe netdev lo", url)
        self.fails("route", "no RDMA device's", "rdma link add rxe0 type rxe netdev lo", url, "--provider", "verbs")
        folder = self.plant_device("rxe1")
        self.assertIn("RDMA device rxe1 (RoCE)", self.line(self.doctor(url), "route")[1])
        self.plant(f"{folder}/ports/1/state", "1: DOWN\n")
        self.fails("route", "the interface of rxe1, whose link is down", "ip link set lo up", url)

    def test_software_beside_a_device_on_the_route_is_a_warning(self):
        url = self.export()["nfs+rdma"]
        self.plant_device()
        self.warns("connect", "by siwarp, software, though the RDMA device rxe0 leads there", "rpcrdma info", url)
        self.is_fine("connect", "by siwarp", url, "--provider", "siwarp")

    def closed_port(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            return taken.getsockname()[1]

    def test_port_that_is_closed(self):
        port = self.closed_port()
        self.fails("port", f"port {port} by TCP: 127.0.0.1 does not: Connection refused", "start the server",
                   f"nfs+rdma://127.0.0.1:{port}/data")
        self.fails("port", "Connection refused", "start the server", f"nfs+tcp://127.0.0.1:{port}/data")

    def test_address_of_the_name_that_does_not_answer_is_a_warning(self):
        port = self.export()["nfs+rdma"].split("/")[2].split(":")[1]
        (self.root / "hosts").write_text("::1 both.test\n127.0.0.1 both.test\n")
        result = self.in_namespace("--mount", f"mount --bind {self.root}/hosts /etc/hosts || exit 77\n"
                                              f"{COMMAND} doctor nfs+rdma://both.test:{port}/data")
        if "::1" not in self.line(result, "port")[1]:
            self.skipTest("there is no IPv6 here")
        state, text, remedy = self.line(result, "port")
        self.assertEqual((state, result.returncode), ("warning", 0), result.stdout)
        self.assertIn("127.0.0.1 takes TCP connections", text)
        self.assertIn("::1 does not: Connection refused", text)
        self.assertIn("let the server listen there", remedy)

    def test_refusal_by_tcp_says_nothing_about_roce(self):
        self.plant_device()
        port = self.closed_port()
        result = self.doctor(f"nfs+rdma://127.0.0.1:{port}/data")
        self.assertEqual(result.returncode, 24, result.stdout)
        self.assertEqual(self.line(result, "port")[0], "ok")
        self.assertIn("RoCE is UDP port 4791", self.line(result, "port")[1])
        self.assertIn("no server listens at port", self.line(result, "connect")[2])

    # --- Connections ---

    def test_port_of_an_iwarp_server_gets_no_connection_without_mpa(self):
        """Linux' siw loses its listener to such a one."""
        begun = []
        with socket.create_server(("127.0.0.1", 0)) as closing:
            def close_each():
                while True:
                    try:
                        with closing.accept()[0] as one:
                            begun.append(one.recv(16, socket.MSG_WAITALL))
                    except OSError:
                        return
            thread = threading.Thread(target=close_each)
            thread.start()
            try:
                self.doctor(f"rdma://127.0.0.1:{closing.getsockname()[1]}")
            finally:
                closing.shutdown(socket.SHUT_RDWR)
                thread.join()
        self.assertEqual(set(begun), {b"MPA ID Req Frame"})

    def test_service_without_rdma_at_the_port(self):
        with socket.create_server(("127.0.0.1", 0)) as silent:
            self.fails("connect", "timed out", "does not speak RDMA", f"rdma://127.0.0.1:{silent.getsockname()[1]}",
                       "--timeout", "1")
        with socket.create_server(("127.0.0.1", 0)) as closing:
            def close_each():
                while True:
                    try:
                        closing.accept()[0].close()
                    except OSError:
                        return
            thread = threading.Thread(target=close_each)
            thread.start()
            try:
                self.fails("connect", "closed the connection", "does not speak RDMA",
                           f"rdma://127.0.0.1:{closing.getsockname()[1]}")
            finally:
                closing.shutdown(socket.SHUT_RDWR)
                thread.join()

    def test_set_up_that_is_refused(self):
        server = self.serve("--connections", "1", "--provider", "siwarp")
        holder = subprocess.Popen([COMMAND, "put", server.url, "-", "held"], stdin=subprocess.PIPE,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(holder.communicate)
        self.addCleanup(holder.kill)
        for line in server.process.stderr:
            if " connected (" in line:
                break
        self.fails("setup", "rejected the connection", "--connections", server.url)

    def test_version_that_the_server_does_not_have(self):
        server = self.serve("--rpcrdma-version", "2", "--provider", "siwarp")
        self.fails("setup", "version not supported", "--rpcrdma-version auto", server.url)
        self.is_fine("setup", "RPC-over-RDMA version 2", server.url, "--rpcrdma-version", "auto")

    def test_terms_that_make_it_slow(self):
        server = self.serve("--provider", "siwarp")
        self.warns("setup", "no RDMA Reads (IRD 0)", "--ird", server.url, "--ird", "0")

    def test_program_that_is_not_served(self):
        server = self.serve("--provider", "siwarp")
        self.fails("program", "program 100003 (NFS) version 3", f"it serves blobs: their URL is {server.url}",
                   f"nfs+{server.url}/data")
        nfs = self.export()["nfs+rdma"]
        self.fails("program", "(blobs)", f"it serves NFS: the URL is {nfs.removesuffix('/data')}",
                   nfs.removesuffix("/data").removeprefix("nfs+"))
        self.fails("program", "the server has versions 3 to 3", "one of the versions that the server has",
                   nfs.removesuffix("/data").removeprefix("nfs+"), "--program", "100003", "--version", "4")
        self.is_fine("program", "program 100003 (NFS) version 3 answers", nfs.removesuffix("/data").removeprefix("nfs+"),
                     "--program", "100003", "--version", "3")

    def running(self, listener, serve):
        """Serves on a thread until the test ends, and returns the listener's port."""
        thread = threading.Thread(target=serve)
        thread.start()

        def stop():
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
            listener.close()
        self.addCleanup(stop)
        return listener.getsockname()[1]

    def answering(self, answer):
        """The port of a server of RPC over TCP with one answer to each call: the function makes what follows the XID."""
        listener = socket.create_server(("127.0.0.1", 0))

        def serve():
            while True:
                try:
                    peer = listener.accept()[0]
                except OSError:
                    return
                with peer:
                    while call := peer.recv(4096):
                        reply = answer(call)
                        if reply:
                            peer.sendall((0x80000000 + 4 + len(reply)).to_bytes(4, "big") + call[4:8] + reply)
        return self.running(listener, serve)

    def test_server_of_version_four_alone_is_mounted_by_the_kernel(self):
        words = (1, 0, 0, 0, 2, 4, 4)  # REPLY, accepted, AUTH_NONE of no bytes, PROG_MISMATCH, 4 to 4
        port = self.answering(lambda _: b"".join(word.to_bytes(4, "big") for word in words))
        self.fails("program", "the server has versions 4 to 4", f"mount -t nfs -o vers=4.2,proto=tcp,port={port} "
                   "127.0.0.1:/data /mnt", f"nfs+tcp://127.0.0.1:{port}/data")

    def test_server_that_answers_no_call_is_not_waited_for(self):
        port = self.answering(lambda _: b"")
        self.fails("program", "timed out", "answers no call", f"nfs+tcp://127.0.0.1:{port}/data", "--timeout", "2")

    # --- Exports ---

    def test_export_that_is_not_there(self):
        for url in self.export().values():
            self.fails("mount", "it has /data", "name one of the server's exports", url + "x")

    def test_export_for_other_addresses(self):
        url = self.export("no_root_squash,client=192.0.2.0/24")["nfs+rdma"]
        self.fails("mount", "its list has 192.0.2.0/24", "add 127.0.0.1 to the clients of the export", url)

    def test_export_that_wants_a_privileged_port(self):
        url = self.export("no_root_squash,secure")["nfs+rdma"]
        self.fails("mount", "a port below 1024", "insecure", url)

    def test_place_of_mount_that_does_not_answer(self):
        url = self.export()["nfs+rdma"]
        port = self.closed_port()
        self.fails("mount", f"(127.0.0.1:{port}) failed: connection refused", "--mount-port", url, "--mount-port", port)

    def test_file_that_may_not_be_read(self):
        if os.geteuid() != 0:
            self.skipTest("only root's server can be kept from a file by its rules")
        (self.served / "file").chmod(0)
        url = self.export("root_squash")["nfs+rdma"]
        self.fails("read", "permission denied", "no_root_squash", url)
        (self.served / "other").write_text("12345")
        self.is_fine("read", "5 bytes of other", url)

    def test_path_below_the_export(self):
        (self.served / "empty").mkdir()
        url = self.export()["nfs+rdma"]
        self.fails("read", "no such file", "behind its name", url + "/nothing")
        self.is_fine("read", "0 names in /data/empty, and no file to read", url + "/empty")
        single = self.is_fine("read", "3 bytes of /data/file", url + "/file")
        self.assertIn(" 127.0.0.1:/data /mnt", single.stdout, "a directory is mounted")

    # --- Counters ---

    def relay(self, to, on_first):
        """A port of this machine that leads to another one; the function is called once, as it is used first."""
        listener = socket.create_server(("127.0.0.1", 0))

        def copy(source, sink):
            try:
                while data := source.recv(1 << 16):
                    sink.sendall(data)
                sink.shutdown(socket.SHUT_WR)
            except OSError:
                pass

        def accept():
            threads, sockets = [], []
            is_first = True
            while True:
                try:
                    near = listener.accept()[0]
                except OSError:
                    break
                if is_first:
                    on_first()
                is_first = False
                far = socket.create_connection(("127.0.0.1", to), BOUND_S)
                sockets += [near, far]
                threads += [threading.Thread(target=copy, args=pair) for pair in ((near, far), (far, near))]
                for each in threads[-2:]:
                    each.start()
            for each in threads:
                each.join()
            for each in sockets:
                each.close()
        return self.running(listener, accept)

    def test_counters_of_loss_that_rise(self):
        url = self.export()["nfs+rdma"]
        port = int(url.split("/")[2].split(":")[1])
        counters = f"{self.plant_device()}/ports/1/hw_counters"
        self.is_fine("counters", "no loss now; before: rxe0/1 out_of_sequence 7", url)
        marked = self.relay(port, lambda: self.plant(f"{counters}/np_cnp_sent", "5\n"))
        self.warns("counters", "rxe0/1 np_cnp_sent +2", "ECN", f"nfs+rdma://127.0.0.1:{marked}/data")
        lossy = self.relay(port, lambda: self.plant(f"{counters}/out_of_sequence", "12\n"))
        self.fails("counters", "rxe0/1 out_of_sequence +5", "priority flow control",
                   f"nfs+rdma://127.0.0.1:{lossy}/data")
        lossier = self.relay(port, lambda: self.plant(f"{counters}/out_of_sequence", "14\n"))
        self.fails("mount", "packets were lost meanwhile: rxe0/1 out_of_sequence +2", "name one of the server's exports",
                   f"nfs+rdma://127.0.0.1:{lossier}/nothing")


class ExportingSideSteps(DoctorFixture):
    def need_address(self, host):
        """Skips a subtest at an address of a family that this machine has not."""
        try:
            with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as attempt:
                attempt.bind((host, 0))
        except OSError as error:
            self.skipTest(f"nothing can listen at {host} here: {error}")

    def settings(self, file_name="serve.toml", **values):
        file = self.root / file_name
        file.write_text("".join(f"{name.replace('_', '-')} = {json.dumps(value)}\n" for name, value in values.items()))
        return file

    def test_settings_that_can_be_served(self):
        (self.served / "file").write_text("abc")
        file = self.settings(nfs=[f"{self.served}:ro"], port=0, nfs_tcp_port=0, provider="siwarp")
        result = self.is_fine("settings", "can be served", "--server", "--config", file)
        self.assertEqual(self.line(result, "ports")[:2], ("ok", "a free one for rdma, a free one for tcp"))
        self.assertIn("TCP 20049", self.line(result, "firewall")[1])
        self.assertEqual(re.findall(r"^\w+ +(\w+) ", result.stdout.split("\n\n")[0], re.M),
                         list(STEPS[:10]) + list(STEPS[19:]))
        self.plant("etc/rpcrdma/serve.toml", file.read_text())
        self.is_fine("settings", "/etc/rpcrdma/serve.toml can be served", "--server")

    def test_settings_that_cannot_be_served(self):
        file = self.settings(nfs=[str(self.root / "nothing")], port=0)
        self.fails("settings", "No such file or directory", "--check", "--server", "--config", file)

    def test_port_of_another_program(self):
        with socket.create_server(("", 0)) as taken:
            port = taken.getsockname()[1]
            file = self.settings(nfs=[f"{self.served}:ro"], port=port, nfs_tcp_port=0)
            self.fails("ports", f"port {port} of 127.0.0.1 cannot be listened on: Address already in use", "ss -ltnp",
                       "--server", "--config", file)
            file = self.settings(nfs=[f"{self.served}:ro"], port=0, nfs_tcp_port=port)
            self.fails("ports", f"port {port} of 127.0.0.1 cannot be listened on", "--nfs-tcp-port", "--server", "--config",
                       file)

    def test_listener_at_another_address_takes_no_port(self):
        for listen in ("127.0.0.2", "::1"):
            with self.subTest(listen), socket.create_server(("127.0.0.3", 0)) as other:
                self.need_address(listen)
                port = other.getsockname()[1]
                file = self.settings(nfs=[f"{self.served}:ro"], listen=listen, port=port, nfs_tcp_port=0)
                self.is_fine("ports", f"{port} is free, a free one for tcp", "--server", "--config", file)
                file = self.settings(nfs=[f"{self.served}:ro"], listen=listen, port=0, nfs_tcp_port=port)
                self.is_fine("ports", f"a free one for rdma, {port} is free", "--server", "--config", file)
                with socket.create_server((listen, port), family=socket.AF_INET6 if ":" in listen else socket.AF_INET):
                    self.fails("ports", f"port {port} of {listen} cannot be listened on: Address already in use",
                               "--nfs-tcp-port", "--server", "--config", file)

    def test_host_at_which_no_port_can_be_listened_on(self):
        no_name = "x" * 64  # longer than a label may be: no name server is asked
        reasons = {"192.0.2.77": "Cannot assign requested address", no_name: "Name or service not known"}
        for listen, reason in reasons.items():
            for port, seen in ((20049, f"port 20049 of {listen} cannot be listened on: {reason}"),
                               (0, f"no port of {listen} can be listened on: {reason}")):
                with self.subTest(listen, port=port):
                    file = self.settings(nfs=[f"{self.served}:ro"], listen=listen, port=port, nfs_tcp_port=0)
                    self.fails("ports", seen, "--listen", "--server", "--config", file)

    def test_zone_of_an_address_is_read_as_serve_reads_it(self):
        self.need_address("::1")
        file = self.settings(nfs=[f"{self.served}:ro"], listen="[::1%251]", port=0, nfs_tcp_port=0)
        self.is_fine("ports", "a free one for rdma, a free one for tcp", "--server", "--config", file)

    def test_each_address_of_a_name_is_tried(self):
        both = ("127.0.0.2", "127.0.0.3")
        (self.root / "hosts").write_text("".join(f"{address} two.test\n" for address in both))
        for mine, taken in (both, both[::-1]):
            with self.subTest(mine), socket.create_server((taken, 0)) as other:
                port = other.getsockname()[1]
                file = self.settings(nfs=[f"{self.served}:ro"], listen="two.test", port=port, nfs_tcp_port=0)
                script = (f"mount --bind {self.root}/hosts /etc/hosts || exit 77\n"
                          f"{COMMAND} doctor --timeout 40 --server --config {file}")
                result = self.in_namespace("--mount", script)
                self.assertEqual(self.line(result, "ports")[:2], ("ok", f"{port} is free, a free one for tcp"))
                with self.serving(listen=mine, port=port, nfs_tcp_port=0):
                    result = self.in_namespace("--mount", script)
                    self.assertEqual(self.line(result, "ports")[:2],
                                     ("ok", f"{port} answers RPC already, a free one for tcp"))
                with socket.create_server((mine, port)):
                    result = self.in_namespace("--mount", script)
                    self.assertEqual(self.line(result, "ports")[:2],
                                     ("FAILED", f"port {port} of two.test cannot be listened on: Address already in use"))
                # A server listens by TCP where it listens by RDMA alone: at the one that is free.
                with socket.create_server((mine, 0)) as tcp:
                    tcp_port = tcp.getsockname()[1]
                    self.settings(nfs=[f"{self.served}:ro"], listen="two.test", port=port, nfs_tcp_port=tcp_port)
                    result = self.in_namespace("--mount", script)
                    self.assertEqual(self.line(result, "ports")[:2],
                                     ("FAILED", f"port {tcp_port} of {mine} cannot be listened on: Address already in use"))

    def test_port_that_the_kernels_server_has_for_rdma(self):
        self.plant("proc/fs/nfsd/portlist", "rdma 20049\ntcp 2049\n")
        self.assertIn("nfsd serves RDMA at port 20049", self.line(self.doctor("--server"), "ports")[1])
        file = self.settings(nfs=[f"{self.served}:ro"], port=20049, nfs_tcp_port=0)
        self.fails("ports", "nfsd listens for RDMA at port 20049", "systemctl stop nfs-server", "--server", "--config", file)

    def test_port_of_the_server_itself_is_all_right(self):
        server = self.serve("--provider", "siwarp")
        file = self.settings(blob=str(self.served), port=server.port, nfs=[f"{self.served}:ro"], nfs_tcp_port=0)
        result = self.doctor("--server", "--config", file)
        self.assertEqual(result.returncode, 0, result.stdout)
        self.assertIn(f"{server.port} answers RPC already", self.line(result, "ports")[1])

    @contextlib.contextmanager
    def serving(self, **values):
        """Serves by these settings. Gives the ports of the server, by scheme."""
        values = {"nfs": [f"{self.served}:ro"], "provider": "siwarp", "handle-key": str(self.root / "key")} | values
        with (tempfile.TemporaryFile("w+") as errors,
              subprocess.Popen([COMMAND, "serve", "--config", self.settings("served.toml", **values)], text=True,
                               stdout=subprocess.PIPE, stderr=errors) as server):
            try:
                line = server.stdout.readline()
                errors.seek(0)
                self.assertTrue(line.startswith("ready"), line + errors.read())
                yield {scheme: int(port) for scheme, port in re.findall(r" (\w+(?:\+\w+)?)://\S+?:(\d+)(?=[ /\n])", line)}
            finally:
                server.kill()

    def test_ports_of_the_server_itself_are_all_right_at_any_address(self):
        for listen in ("127.0.0.2", "0.0.0.0", "::1", "::"):
            with self.subTest(listen):
                self.need_address("::1" if ":" in listen else listen)  # by which a server at :: is asked
                with self.serving(listen=listen, port=0, nfs_tcp_port=0) as ports:
                    file = self.settings(nfs=[f"{self.served}:ro"], listen=listen, provider="siwarp",
                                         port=ports["nfs+rdma"], nfs_tcp_port=ports["nfs+tcp"])
                    self.is_fine("ports", f"{ports['nfs+rdma']} answers RPC already, {ports['nfs+tcp']} answers RPC already",
                                 "--server", "--config", file)

    def test_no_rpcbind_is_a_warning(self):
        file = self.settings(nfs=[f"{self.served}:ro"], port=0, nfs_tcp_port=0)
        self.warns("rpcbind", "no rpcbind runs here", "serve with --rpcbind", "--server", "--config", file)


if __name__ == "__main__":
    unittest.main()
