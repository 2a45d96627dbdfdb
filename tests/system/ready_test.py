#!/usr/bin/env python3
"""The page /ready of `rpcrdma serve --ready-port`."""
import http.client
import signal
import socket
import subprocess
import unittest
import urllib.parse

from command_fixture import BOUND_S, COMMAND, CommandFixture, run, wait_until


class ReadyTest(CommandFixture):
    def serve_with_page(self, *arguments):
        try:
            server = self.serve("--ready-port", "0", "--provider", "siwarp", *arguments)
        except AssertionError as error:
            if "built without HTTP" not in str(error):
                raise
            self.skipTest("this rpcrdma was built without libmicrohttpd")
        return server, next(url for url in server.urls if url.startswith("http:"))

    @staticmethod
    def ask(url, method="GET", path=None):
        parsed = urllib.parse.urlsplit(url)
        connection = http.client.HTTPConnection(parsed.hostname, parsed.port, timeout=BOUND_S)
        try:
            connection.request(method, path or parsed.path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode(), answer.headers
        finally:
            connection.close()

    def test_says_that_work_is_taken(self):
        server, url = self.serve_with_page("--nfs", f"{self.root}:ro", "--export", "/data", "--nfs-tcp-port", "0",
                                           "--handle-key", self.root / "key")
        status, text, headers = self.ask(url)
        self.assertEqual((status, text), (200, "ready\n"))
        self.assertEqual(headers["Cache-Control"], "no-store")
        self.assertEqual(self.ask(url, "HEAD")[:2], (200, ""))
        self.assertEqual(server.stop()[0], 0)
        with self.assertRaises(ConnectionRefusedError):
            self.ask(url)

    def test_serves_nothing_else(self):
        _, url = self.serve_with_page()
        for path in ("/", "/ready/", "/../ready", "/ready2", "/" + "x" * 4000):
            self.assertEqual(self.ask(url, path=path)[0], 404, path)
        for method in ("POST", "PUT", "DELETE", "BREW"):
            status, _, headers = self.ask(url, method)
            self.assertEqual((status, headers["Allow"]), (405, "GET, HEAD"), method)
        self.assertEqual(self.ask(url)[0], 200)

    def test_bears_what_is_no_http_and_whoever_says_nothing(self):
        server, url = self.serve_with_page()
        address = ("127.0.0.1", urllib.parse.urlsplit(url).port)
        with socket.create_connection(address, BOUND_S) as odd:
            try:
                odd.sendall(b"\0\xff" * 9000)
                while odd.recv(4096):
                    pass
            except ConnectionError:
                pass
        # More than it takes at a time; some are refused, none stops the server.
        silent = [socket.create_connection(address, BOUND_S) for _ in range(40)]
        self.put(server, self.file("file", 1000))
        for each in silent:
            each.close()

        def is_answered():
            try:
                return self.ask(url)[0] == 200
            except ConnectionError:  # those who say nothing are still there
                return False
        wait_until(is_answered)

    def test_says_why_nobody_can_listen(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            self.serve_with_page()
            done = run("serve", "--blob", self.served, "--port", "0", "--ready-port", port, "--provider", "siwarp")
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"cannot listen for HTTP on 127.0.0.1 port {port}: Address already in use; another program listens "
                      "there: end that program", done.stderr)
        self.assertEqual(done.stdout, "")

    def test_says_so_while_it_is_drained(self):
        server, url = self.serve_with_page("--drain", "3600")
        # While its command is stopped, a put stays under way: more than what sockets hold.
        big = self.root / "big"
        with open(big, "wb") as file:
            file.truncate(4 << 30)
        putter = subprocess.Popen([COMMAND, "put", "--no-reconnect", server.url, big, "--depth", "64"],
                                  stderr=subprocess.DEVNULL)
        self.addCleanup(putter.kill)
        wait_until(self.uploading)
        putter.send_signal(signal.SIGSTOP)
        self.assertEqual(self.ask(url)[0], 200)
        server.process.terminate()
        wait_until(lambda: self.ask(url)[0] == 503)
        self.assertEqual(self.ask(url)[1], "not ready: it is shutting down\n")
        putter.kill()
        putter.wait(timeout=BOUND_S)
        self.assertEqual(server.process.wait(timeout=BOUND_S), 0)


if __name__ == "__main__":
    unittest.main()
