#!/usr/bin/env python3
"""The pictures of docs/benchmarks.md, and plots.py with a program that prints figures instead of measuring."""
import collections
import pathlib
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

HERE = pathlib.Path(__file__).resolve().parent
DOCS = HERE.parent / "docs"
sys.dont_write_bytecode = True
sys.path.insert(0, str(HERE))
import plots  # noqa: E402
import svg_plot  # noqa: E402

# A stand-in for `rpcrdma bench`: 7 million calls/s at most, and latencies that grow.
FAKE = """#!{python}
import argparse, json
parser = argparse.ArgumentParser()
parser.add_argument("command", choices=["bench"])
parser.add_argument("--json", action="store_true")
for name in ("cases", "seconds", "rounds", "crc", "cpu", "provider", "connections"):
    parser.add_argument("--" + name)
options = parser.parse_args()
if int(options.connections or 0) > 5000:
    raise SystemExit("rpcrdma: bench: too few descriptors")
found = []
for case in options.cases.split(","):
    kind, *size, depth = case.split("_")
    raw = "_".join(["raw", *(size or ["null"]), depth])
    for name, rate in ((case, {rate}), (raw, 7e6)):
        found.append(dict(case=name, ops_per_s=rate, p50_us=8e6 / rate, p99_us=9e6 / rate, cpu_ns_per_call=1e9 / rate,
                          server_cpu_ns_per_call=4e8 / rate))
print(json.dumps(found))
"""

Box = collections.namedtuple("Box", "left top right bottom text")


class Picture:
    def __init__(self, path):
        root = xml.etree.ElementTree.parse(path).getroot()
        self.width, self.height = (float(each) for each in root.get("viewBox").split()[2:])
        self.texts, self.panels, self.legend, self.curves = [], [], {}, []
        for each in root.iter():
            kind = each.tag.split("}")[-1]
            if kind == "text":
                self.texts.append(self.box_of(each))
                if each.get("data-contender"):
                    self.legend[each.get("data-contender")] = each.get("data-colour")
            elif each.get("class") == "panel":
                left, top, width, height = (float(each.get(name)) for name in ("x", "y", "width", "height"))
                self.panels.append(Box(left, top, left + width, top + height, "panel"))
            elif each.get("class") == "curve":
                points = [tuple(map(float, point.split(","))) for point in each.get("points").split()]
                self.curves.append((each.get("data-contender"), each.get("stroke"), points))

    @staticmethod
    def box_of(element):
        size = float(element.get("font-size"))
        width = svg_plot.text_width(element.text, size)
        shift = {"start": 0, "middle": width / 2, "end": width}[element.get("text-anchor")]
        left, base = float(element.get("x")) - shift, float(element.get("y"))
        return Box(left, base - size, left + width, base + size / 4, element.text)


def overlaps(one, other):
    return one.left < other.right and other.left < one.right and one.top < other.bottom and other.top < one.bottom


class Pictures(unittest.TestCase):
    def check(self, folder):
        pictures = {path.name: Picture(path) for path in sorted(folder.glob("benchmarks-*.svg"))}
        self.assertEqual(len(pictures), 3)
        colours = {}
        for name, picture in pictures.items():
            with self.subTest(name):
                self.check_places(picture)
                self.assertEqual({contender for contender, *_ in picture.curves}, set(picture.legend))
                for contender, colour, points in picture.curves:
                    self.assertEqual(colour, picture.legend[contender], contender)
                    self.assertEqual(colours.setdefault(contender, colour), colour, f"{contender} in all pictures")
                    for x, y in points:
                        self.assertTrue(any(panel.left - 1 <= x <= panel.right + 1 and panel.top - 1 <= y <= panel.bottom + 1
                                            for panel in picture.panels), (contender, x, y))
        self.assertEqual(len(set(colours.values())), len(colours), "no two contenders share a colour")
        return pictures

    def check_places(self, picture):
        self.assertEqual(len(picture.panels), 3)
        for number, text in enumerate(picture.texts):
            self.assertTrue(0 <= text.left and text.right <= picture.width and text.bottom <= picture.height, text)
            for other in picture.texts[number + 1:] + picture.panels:
                self.assertFalse(overlaps(text, other), (text, other))


class Committed(Pictures):
    def test_texts_lie_apart_and_beside_the_curves_and_colours_are_the_contenders(self):
        pictures = self.check(DOCS)
        self.assertEqual(set().union(*(picture.legend for picture in pictures.values())), set(plots.COLOURS))

    def test_axes_have_words_and_units(self):
        for path in DOCS.glob("benchmarks-*.svg"):
            texts = {text.text for text in Picture(path).texts}
            self.assertLessEqual({"Calls per second", "Median latency of a call", "CPU time of a call"}, texts)
            for text in texts:
                self.assertNotRegex(text, r"p50|\bus\b|10\^|e\+|x10", path.name)

    def test_pictures_show_the_tables(self):
        with tempfile.TemporaryDirectory() as folder:
            copy = pathlib.Path(folder)
            (copy / "benchmarks.md").write_text((DOCS / "benchmarks.md").read_text())
            subprocess.run([sys.executable, HERE / "plots.py", "--redraw", "--out", copy], check=True, timeout=60)
            for path in DOCS.glob("benchmarks-*.svg"):
                self.assertEqual(path.read_text(), (copy / path.name).read_text(), f"{path.name}: run plots.py --redraw")


class Measured(Pictures):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def plots(self, *arguments, rate=1e5):
        command = self.folder / "rpcrdma"
        command.write_text(FAKE.format(python=sys.executable, rate=rate))
        command.chmod(0o755)
        subprocess.run([sys.executable, HERE / "plots.py", command, "--out", self.folder, *arguments], check=True,
                       stderr=subprocess.DEVNULL, timeout=120)
        return plots.sections_of(self.folder / "benchmarks.md")

    def test_each_point_is_in_the_table_and_what_could_not_be_measured_is_named(self):
        sections = self.plots()
        self.assertEqual(list(sections), ["", "Depth", "Payload", "Connections", "Not measured"])
        for title, points, names in (("Depth", plots.DEPTHS, ("NULL", "bare TCP", "read 4 KiB", "write 4 KiB")),
                                     ("Payload", plots.SIZES, ("read", "write", "bare TCP")),
                                     ("Connections", plots.CONNECTIONS[:-1], ("NULL", "bare TCP"))):
            rows = {x: row for x, row in plots.rows_of(sections[title]) if row}
            self.assertEqual(list(rows), [str(point) for point in points])
            self.assertEqual(set(rows[str(points[0])]), set(names))
            self.assertEqual(rows[str(points[0])]["bare TCP"],
                             {"ops_per_s": 7e6, "p50_us": 1.1, "p99_us": 1.3, "cpu_ns_per_call": 143,
                              "server_cpu_ns_per_call": 57})
        self.assertIn("--connections 9999 --seconds 12.5: rpcrdma: bench: too few descriptors", sections["Not measured"])
        self.check(self.folder)

    def test_texts_lie_apart_however_far_the_figures_are_apart(self):
        self.plots(rate=1.5)
        self.check(self.folder)

    def test_sweep_that_is_measured_again_leaves_the_others(self):
        before = self.plots("--points", "2")
        picture = (self.folder / "benchmarks-depth.svg").read_text()
        after = self.plots("--points", "3", "--only", "connections", rate=2e5)
        self.assertEqual({title for title in after if after[title] != before.get(title)}, {"Connections"})
        self.assertEqual([x for x, _ in plots.rows_of(after["Connections"])], ["1", "10", "100"])
        self.assertEqual((self.folder / "benchmarks-depth.svg").read_text(), picture)

    def test_redrawing_needs_the_tables(self):
        result = subprocess.run([sys.executable, HERE / "plots.py", "--redraw", "--out", self.folder],
                                capture_output=True, text=True, check=False, timeout=60)
        self.assertEqual(result.returncode, 2)
        self.assertRegex(result.stderr, r"plots: cannot read .*benchmarks.md: No such file or directory\n$")

    def test_program_that_fails_is_named(self):
        result = subprocess.run([sys.executable, HERE / "plots.py", self.folder / "none", "--out", self.folder],
                                capture_output=True, text=True, check=False, timeout=60)
        self.assertEqual(result.returncode, 2)
        self.assertRegex(result.stderr, r"plots: cannot run .*none: No such file or directory\n$")


if __name__ == "__main__":
    unittest.main()
