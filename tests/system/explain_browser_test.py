#!/usr/bin/env python3
"""The page that `rpcrdma explain ladder --html` writes, in a browser: Debian's chromium, which is driven through the pipe of its
DevTools protocol, so that clicks are clicks. Skips where there is no chromium."""
import json
import os
import pathlib
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

import command_fixture

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "captures"))
import plant  # noqa: E402
import scenes  # noqa: E402

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
SKIPPED = 77


class Browser:
    """One tab. Commands go in through descriptor 3, and answers and events come out of 4, each ended by a zero byte."""

    def __init__(self, folder):
        to_read, self.commands = os.pipe()
        self.answers, to_write = os.pipe()
        self.process = subprocess.Popen(
            ["bash", "-c", f'exec 20<&{to_read} 21>&{to_write} && exec "$0" "$@" 3<&20 4>&21', CHROMIUM, "--headless",
             "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-pipe",
             f"--user-data-dir={folder}", "--window-size=1200,900", "about:blank"],
            pass_fds=(to_read, to_write), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True)
        os.close(to_read)
        os.close(to_write)
        self.rest, self.number, self.session, self.events = b"", 0, None, []
        targets = self.call("Target.getTargets")["targetInfos"]
        target = next(each["targetId"] for each in targets if each["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(domain + ".enable")

    def close(self):
        os.close(self.commands)
        os.close(self.answers)
        # The browser's other processes outlive the first one, and write into the profile until they end themselves.
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(timeout=command_fixture.BOUND_S)

    def message(self):
        while b"\0" not in self.rest:
            ready, _, _ = select.select([self.answers], [], [], command_fixture.BOUND_S)
            piece = os.read(self.answers, 1 << 20) if ready else b""
            if not piece:
                raise AssertionError("the browser says nothing any more")
            self.rest += piece
        first, self.rest = self.rest.split(b"\0", 1)
        return json.loads(first)

    def call(self, method, **parameters):
        self.number += 1
        command = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            command["sessionId"] = self.session
        os.write(self.commands, json.dumps(command).encode() + b"\0")
        while True:
            message = self.message()
            if message.get("id") == self.number:
                if "error" in message:
                    raise AssertionError(f"{method}: {message['error']}")
                return message["result"]
            self.events.append(message)

    def load(self, url):
        self.events.clear()
        self.call("Page.navigate", url=url)
        while not any(each.get("method") == "Page.loadEventFired" for each in self.events):
            self.events.append(self.message())

    def open(self, path, fragment=""):
        self.load("about:blank")  # or a fragment of the same page would load nothing
        self.load(f"file://{path}{fragment}")

    def value(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in result:
            raise AssertionError(result["exceptionDetails"])
        return result["result"].get("value")

    def click(self, selector):
        box = self.value(f"(() => {{ const e = document.querySelector({json.dumps(selector)}); e.scrollIntoView({{block: 'center'}}); "
                         "const r = e.getBoundingClientRect(); return {x: r.x + 20, y: r.y + r.height / 2} })()")
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, **box)

    def typed(self, text):
        self.call("Input.insertText", text=text)

    def pressed(self, key):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key)

    def complaints(self):
        said = [each for each in self.events if each.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded")]
        wanted = [each["params"]["request"]["url"] for each in self.events if each.get("method") == "Network.requestWillBeSent"]
        return said, [url for url in wanted if not url.startswith("file://")]


LADDER = "[...document.querySelectorAll('tr.ladder svg text')].map(each => each.textContent)"


def remove(folder):
    """Removes the folder again while a process of the browser that was killed may still be about to create a file in it."""
    def is_gone():
        shutil.rmtree(folder, ignore_errors=True)
        return not folder.exists()
    command_fixture.wait_until(is_gone)


@unittest.skipUnless(CHROMIUM, "chromium is not installed")
class ExplainBrowser(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.path = pathlib.Path(tempfile.mkdtemp())
        cls.addClassCleanup(remove, cls.path)
        scenes.write_all(cls.path)
        cls.browser = Browser(cls.path / "profile")
        cls.addClassCleanup(cls.browser.close)

    def page(self, capture, *options, fragment=""):
        page = self.path / "page.html"
        result = command_fixture.run("explain", "ladder", *options, "--html", page, self.path / capture)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.browser.open(page, fragment)
        return self.browser

    def tearDown(self):
        self.assertEqual(self.browser.complaints(), ([], []), "the page has errors, or wants the network")

    def test_a_click_opens_a_ladder_and_another_closes_it(self):
        browser = self.page("nfs3-siw-crc.pcap", "--procedure", "READ")
        self.assertEqual(browser.value("document.querySelectorAll('tr.call').length"), 4)
        self.assertEqual(browser.value(LADDER), [])
        browser.click("tr.call")
        texts = browser.value(LADDER)
        self.assertIn("RDMA Write x48, 65,536 B", texts)
        self.assertIn("packets 61-217", texts)
        self.assertIn("The Call is short: 160 bytes against a threshold of 4,096.",
                      browser.value("[...document.querySelectorAll('.note')].map(each => each.textContent)"))
        browser.click("tr.call")
        self.assertEqual(browser.value(LADDER), [])

    def test_keys_do_as_clicks_do(self):
        browser = self.page("nfs3-siw-crc.pcap", "--procedure", "READ")
        browser.value("document.querySelector('tr.call').focus()")
        browser.pressed("Enter")
        self.assertIn("RDMA Write x48, 65,536 B", browser.value(LADDER))

    def test_fragment_of_the_address_opens_a_call(self):
        browser = self.page("nfs3-siw-crc.pcap", fragment="#call=3ca1c5d1")
        self.assertIn("Read Response x46, 65,536 B", browser.value(LADDER))
        self.assertTrue(browser.value("(r => r.top >= 0 && r.bottom <= innerHeight)"
                                      "(document.querySelector('tr.ladder').previousSibling.getBoundingClientRect())"))

    def test_words_filter_the_calls(self):
        browser = self.page("nfs3-siw-crc.pcap")
        self.assertEqual(browser.value("document.querySelectorAll('tr.call').length"), 125)
        browser.click("#filter")
        browser.typed("mkdir")
        self.assertEqual(browser.value("document.querySelectorAll('tr.call').length"), 1)

    def test_broken_rule_leads_to_its_call(self):
        browser = self.page("refused.pcap")
        self.assertEqual(browser.value("document.querySelectorAll('#rules tr.bad').length"), 1)
        browser.click("#rules tr.found")
        self.assertIn("RDMA_ERROR ERR_CHUNK, grants 64", browser.value(LADDER))

    def test_nothing_is_cut_or_wider_than_the_window(self):
        idl = pathlib.Path(__file__).resolve().parents[2] / "idl" / "nfs3.x"
        browser = self.page("nfs3-siw-crc.pcap", "--x", idl, fragment="#call=61a1c5d1")
        self.assertLessEqual(browser.value("document.documentElement.scrollWidth"), 1200)
        outside = browser.value("[...document.querySelectorAll('tr.ladder svg text')].filter(each => { const b = each.getBBox(); "
                                "return b.x < 0 || b.x + b.width > 900 }).map(each => each.textContent)")
        self.assertEqual(outside, [])

    def test_thousands_of_calls_are_counted_and_found(self):
        c = plant.Connection.made()
        for xid in range(1, 2301):
            c.send(0, plant.header_v1(xid) + plant.rpc_call(xid))
            c.send(1, plant.header_v1(xid) + plant.rpc_reply(xid))
        c.write(self.path / "many.pcap")
        browser = self.page("many.pcap")
        self.assertEqual(browser.value("document.querySelectorAll('tr.call').length"), 2000)
        self.assertRegex(browser.value("document.getElementById('more').textContent"), "^300 more")
        last = browser.value("calls[2299].x")
        browser.value(f"location.hash = '#call={last}@1'")
        self.assertEqual(browser.value("document.querySelectorAll('tr.ladder').length"), 1)


if __name__ == "__main__":
    if not CHROMIUM:
        print("explain_browser_test: chromium is not installed")
        sys.exit(SKIPPED)
    unittest.main()
