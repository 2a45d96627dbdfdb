#!/usr/bin/env python3
"""voice.py, and the rule of tidy.py that reads with it. Part of `make check`."""
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

HERE = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(HERE))
import tidy  # noqa: E402
import voice  # noqa: E402

PATH = "src/engine/thing.h"


def lines(text, path=PATH):
    return [line for line, _, _ in voice.findings(path, text)]


class Comments(unittest.TestCase):
    def test_that_begin_with_a_relative_are_found(self):
        for word in ("What a peer sent.", "Whose turn it is.", "Who calls.", "Whom it serves.", "Whether it is open.",
                     "Of the first connection."):
            self.assertEqual(lines(f"int size();\n  // {word}\nint count();\n"), [2], word)

    def test_are_read_sentence_by_sentence_over_their_lines(self):
        self.assertEqual(lines("// Returns the size. Of\n// a peer.\n"), [1])
        self.assertEqual(lines("// Returns the size of the\n// peer. What it sent is in it: whose\n// turn it is.\n"), [2])
        self.assertEqual(lines("// Reads a part.\n//\n// Whether it is open: false before.\n"), [3])

    def test_with_a_subject_or_a_verb_are_good(self):
        for text in ("// Returns whether it is open.\n", "// The size of a peer's message.\n", "// Offers a handle.\n",
                     "// Whatever a peer sends, this is empty.\n", "// A line of prose that breaks in front of\n// Whether.\n",
                     "// Who would call this? Nobody.\n", "//   Whether(code) is an example\n", "int a;  // of a peer\n"):
            self.assertEqual(lines(text), [], text)


class Told(unittest.TestCase):
    def test_is_found_in_comments_messages_and_over_the_end_of_a_line(self):
        for text in ("// The owner is told of it.\n", "int a;  // they are told\n", 'fail("it was told to end");\n',
                     "// The peer was\n  // told so.\n", "// A value to be told.\n"):
            self.assertEqual(lines(text), [1], text)

    def test_other_uses_are_good(self):
        self.assertEqual(lines("// The kernel told us. The cause is untold.\n"), [])


class Messages(unittest.TestCase):
    def test_that_begin_with_a_relative_are_found(self):
        self.assertEqual(lines('\nfail(\n    "what has the name here "\n    "is no file");\n'), [3])
        self.assertEqual(lines('fail("Who calls is unknown");\n'), [1])

    def test_the_rest_of_a_longer_one_and_data_of_tests_are_good(self):
        self.assertEqual(lines('fail("a balancer knows "\n     "whether to send clients");\n'), [])
        self.assertEqual(lines('write("what was there");\n', "src/engine/thing_test.cc"), [])


class Names(unittest.TestCase):
    def test_of_tests_that_are_no_sentences_are_found(self):
        for name in ("WhatIsGoneStays", "OfTwoHalves", "ThatIsOpenStays", "WhoCalls", "PeerIsToldOnce", "TheyAreTold"):
            self.assertEqual(lines(f"\nTEST_F(Thing, {name}) {{\n}}\n", "src/engine/thing_test.cc"), [2], name)

    def test_of_good_ones(self):
        for name in ("OfferIsTaken", "ThatchIsDry", "HoldsTheSecondCall", "TellsThePeer"):
            self.assertEqual(lines(f"TEST(Thing, {name}) {{\n}}\n", "src/engine/thing_test.cc"), [], name)


class Scope(unittest.TestCase):
    def test_leaves_out_other_folders(self):
        bad = "// What a peer sent.\n"
        self.assertEqual(lines(bad, "docs/page.h"), [])
        for path in ("include/rpcrdma/server.h", "tests/sim/node.h", "tests/system/rpc_test.cc", "src/rpc/call/carrier_for_test.h"):
            self.assertEqual(lines(bad, path), [1], path)


class Allowed(unittest.TestCase):
    def test_is_one_sentence_of_one_file_and_has_to_be_used(self):
        known = voice.Voice(voice.allowed("# a comment\n\nsrc/engine/thing.h: Of course\nsrc/engine/gone.h: Of old\n"))
        self.assertEqual([line for line, _ in known.check(PATH, "// Of course it is.\n\n// Of a peer.\n")], [3])
        self.assertEqual([line for line, _ in known.check("src/engine/other.h", "// Of course it is.\n")], [1])
        self.assertEqual(known.unused(), [("src/engine/gone.h", "Of old")])


class Rule(unittest.TestCase):
    def test_tidy_reports_the_line_and_an_entry_that_allows_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            thing = root / PATH
            thing.parent.mkdir(parents=True)
            thing.write_text("// Returns it.\nint it();\n// Whether it is.\nbool is();\n")
            allowed = root / "scripts" / "voice_allowed.txt"
            allowed.parent.mkdir()
            allowed.write_text(f"{PATH}: Of nothing\n")
            with mock.patch.object(tidy, "ROOT", root), mock.patch.object(voice, "ALLOWED", allowed), \
                    mock.patch.object(tidy, "findings", []) as found:
                tidy.check_voice([thing])
            self.assertEqual(len(found), 2)
            self.assertTrue(found[0].startswith(f"{PATH}:3: begin the sentence"), found[0])
            self.assertIn("allows nothing any more: src/engine/thing.h: Of nothing", found[1])


if __name__ == "__main__":
    unittest.main()
