#!/usr/bin/env python3
"""Tests what scripts/soak.py makes of its samples. `make check` runs it."""
import os
import pathlib
import random
import re
import sys
import tempfile
import threading
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(HERE))
import soak  # noqa: E402, F401
import soak_judge  # noqa: E402
import soak_loads  # noqa: E402

HOUR = 720  # samples


def samples(count, resident=lambda number: 60_000, **others):
    return [{"resident": resident(number), **{name: value(number) for name, value in others.items()}} for number in range(count)]


class Judged(unittest.TestCase):
    def findings(self, taken, **keywords):
        return soak_judge.judge(taken, **keywords)[1]

    def test_memory_that_is_lent_and_comes_back_is_no_growth(self):
        peaks = random.Random(1)
        self.assertEqual(self.findings(samples(HOUR, lambda number: 60_000 + peaks.choice((0, 0, 200_000)))), [])

    def test_leak_of_ten_bytes_a_call_at_a_thousand_calls_a_second_is_found_within_an_hour(self):
        leaking = samples(HOUR, lambda number: 60_000 + number * 5 * 10 * 1000 // 1024)
        self.assertRegex(self.findings(leaking)[0], "^resident grows: ")

    def test_leak_is_found_below_the_peaks_of_others(self):
        peaks = random.Random(1)
        leaking = samples(HOUR, lambda number: 60_000 + number * 50 + peaks.choice((0, 0, 200_000)))
        self.assertEqual(len(self.findings(leaking)), 1)

    def test_warm_up_is_no_growth(self):
        self.assertEqual(self.findings(samples(HOUR, lambda number: min(number, HOUR // 5) * 1000)), [])

    def test_descriptor_in_each_minute_is_found(self):
        self.assertRegex(self.findings(samples(HOUR, descriptors=lambda number: 40 + number // 12))[0], "^descriptors grows: ")

    def test_two_more_threads_are_found(self):
        self.assertEqual(len(self.findings(samples(HOUR, threads=lambda number: 9 if number < HOUR * 0.7 else 11))), 1)

    def test_build_with_a_sanitizer_has_more_room_for_memory_and_none_for_descriptors(self):
        growing = samples(HOUR, lambda number: 400_000 + number * 100, descriptors=lambda number: 40 + number // 12)
        self.assertRegex(" ".join(self.findings(growing, is_sanitized=True)), "^descriptors grows")

    def test_run_that_was_too_short_is_not_called_good(self):
        self.assertRegex(self.findings(samples(12))[0], "too few to judge")


class Kept(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="rpcrdma-soak-test.")
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.path = self.root / "samples.csv"

    def test_run_goes_on_behind_the_ones_before_it(self):
        first = soak_judge.Book(self.path)
        first.add("server", 5.04, {"resident": 100, "descriptors": 7, "threads": 2})
        second = soak_judge.Book(self.path)
        second.add("server", 10, {"resident": 200, "descriptors": 8, "threads": 2, "contexts": 1})
        self.assertEqual((first.run, second.run), (1, 2))
        again = soak_judge.Book(self.path)
        self.assertEqual(again.run, 3)
        self.assertEqual([row["resident"] for row in again.samples("server", 1)], [100])
        self.assertEqual(again.samples("server", 2)[0]["contexts"], 1)
        self.assertNotIn("contexts", again.samples("server", 1)[0])

    def test_half_a_line_of_a_full_disk_is_left_out(self):
        soak_judge.Book(self.path).add("server", 5, {"resident": 100, "descriptors": 7, "threads": 2})
        with open(self.path, "a") as file:
            file.write("1,server")
        again = soak_judge.Book(self.path)
        self.assertEqual(len(again.rows), 1)
        again.add("server", 10, {"resident": 100, "descriptors": 7, "threads": 2})
        self.assertEqual(len(soak_judge.Book(self.path).rows), 2)

    def test_picture_has_a_curve_of_each_process_within_its_frame(self):
        book = soak_judge.Book(self.path)
        for run in (1, 2):
            book.run = run
            for process in ("server", "mount"):
                for number in range(100):
                    book.add(process, 5 * number, {"resident": 50_000 + number, "descriptors": 20, "threads": 3})
        soak_judge.draw(book, self.root / "soak.svg")
        picture = (self.root / "soak.svg").read_text()
        self.assertEqual(len(re.findall('class="curve"', picture)), 6)
        for x, y in re.findall(r'(\d+\.\d),(\d+\.\d)', " ".join(re.findall('class="curve".*? points="([^"]*)"', picture))):
            self.assertTrue(80 <= float(y) <= 380 and 0 <= float(x) <= 1200, (x, y))


class Watched(unittest.TestCase):
    def test_status_has_the_descriptors_of_this_process(self):
        before = soak_judge.status_of(os.getpid())["descriptors"]
        with open(os.devnull):
            self.assertEqual(soak_judge.status_of(os.getpid())["descriptors"], before + 1)

    def test_process_that_has_ended_is_none(self):
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
        with self.assertRaises(ProcessLookupError):
            soak_judge.status_of(child)  # a zombie still
        os.waitpid(child, 0)
        with self.assertRaises(ProcessLookupError):
            soak_judge.status_of(child)


class Turns(unittest.TestCase):
    def test_turn_that_finds_other_bytes_is_noted_and_the_next_one_begins(self):
        class Differs(soak_loads.Load):
            name, pause_s = "differs", 0.001

            def turn(self):
                if self.turns == 3:
                    end.set()
                one, other = self.file("one"), self.folder / "other"
                other.write_bytes(one.read_bytes() + b"x")
                self.expect_same(one, other)

        class Place:
            root = None
        with tempfile.TemporaryDirectory(prefix="rpcrdma-soak-test.") as folder:
            Place.root = pathlib.Path(folder)
            end = threading.Event()
            load = Differs(Place, 1)
            wait, end.wait = end.wait, lambda seconds: wait(0)
            load.run(end)
        self.assertEqual(load.turns, 4)
        self.assertRegex(load.findings[0], r"^differs, turn 0: .*/other differs from .*/one$")


if __name__ == "__main__":
    unittest.main()
