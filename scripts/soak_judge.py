"""Samples of a process that has to stay as it is: taken, kept, judged and drawn."""
import csv
import os
import pathlib
import statistics

import svg_plot

# Names the figures of a sample, and by how much each may grow: a part of what it was, and so much besides.
KIB = "KiB"
SERIES = {"resident": (0.05, 8192, KIB), "descriptors": (0, 6, ""), "threads": (0, 1, ""), "contexts": (0, 8, ""),
          "handles": (0, 6, ""), "memory_lent": (0, 4096, KIB)}
# A build with a sanitizer has tables that grow: its resident memory alone has more room.
SANITIZED = {"resident": (0.25, 65536, KIB)}
WARM_UP = 0.25  # of a run, before which nothing is judged
SAMPLES_MIN = 12  # of what is judged


def status_of(pid):
    """Returns what /proc says of a process; raises ProcessLookupError if it has gone."""
    try:
        lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
        descriptors = len(os.listdir(f"/proc/{pid}/fd"))
    except (FileNotFoundError, ProcessLookupError) as error:
        raise ProcessLookupError(pid) from error
    fields = dict(line.split(":", 1) for line in lines if ":" in line)
    if "VmRSS" not in fields:  # a zombie
        raise ProcessLookupError(pid)
    return {"resident": int(fields["VmRSS"].split()[0]), "descriptors": descriptors, "threads": int(fields["Threads"])}


def level(values):
    """Returns where a series rests between its peaks: its lower quartile."""
    return statistics.quantiles(values, n=4, method="inclusive")[0]


def growth(samples, name):
    """Returns (the level in the first half of what is judged, that in the second half), or None for want of samples."""
    values = [sample[name] for sample in samples if name in sample]
    judged = values[int(len(values) * WARM_UP):]
    if len(judged) < SAMPLES_MIN:
        return None
    half = len(judged) // 2
    return level(judged[:half]), level(judged[half:])


def judge(samples, is_sanitized=False):
    """Returns (lines of what was seen, findings) for the samples of one process in one run, in order of time."""
    lines, findings = [], []
    for name, allowance in SERIES.items():
        part, besides, unit = SANITIZED.get(name, allowance) if is_sanitized else allowance
        if not any(name in sample for sample in samples):
            continue
        levels = growth(samples, name)
        if levels is None:
            findings.append(f"{name}: {len(samples)} samples are too few to judge; let it run for longer")
            continue
        first, second = levels
        peak = max(sample[name] for sample in samples if name in sample)
        line = f"{name}: {first:,.0f}, then {second:,.0f} {unit}".rstrip() + f" (at most {peak:,})"
        lines.append(line)
        if second > first * (1 + part) + besides:
            findings.append(f"{name} grows: {line}")
    return lines, findings


class Book:
    """The samples of all runs in one folder, in a file of comma-separated values."""
    COLUMNS = ("run", "process", "seconds", *SERIES)

    def __init__(self, path):
        self.path = path
        self.rows = []
        if path.is_file():
            text = path.read_text()
            if text and not text.endswith("\n"):
                path.write_text(text[:text.rfind("\n") + 1])  # a full disk has cut the last row
            with open(path, newline="") as file:
                self.rows = [self._parsed(row) for row in csv.DictReader(file)]
        self.run = 1 + max((row["run"] for row in self.rows), default=0)

    @staticmethod
    def _parsed(row):
        numbers = {name: float(row[name]) for name in ("seconds", *SERIES) if row.get(name)}
        return {"run": int(row["run"]), "process": row["process"], **numbers}

    def add(self, process, seconds, values):
        row = {"run": self.run, "process": process, "seconds": round(seconds, 1), **values}
        self.rows.append(row)
        is_new = not self.path.is_file() or self.path.stat().st_size == 0
        with open(self.path, "a", newline="") as file:
            writer = csv.DictWriter(file, self.COLUMNS)
            if is_new:
                writer.writeheader()
            writer.writerow(row)

    def samples(self, process, run=None):
        return [row for row in self.rows if row["process"] == process and row["run"] == (run or self.run)]

    def processes(self):
        return list(dict.fromkeys(row["process"] for row in self.rows))


COLOURS = {"server": "#1b6ca8", "adapter": "#c2571a", "mount": "#3a7d44"}


def draw(book, path):
    """Draws resident memory and descriptors of each process over the time of all runs, one run behind the other."""
    ends = {run: max(row["seconds"] for row in book.rows if row["run"] == run) for run in {row["run"] for row in book.rows}}
    starts = {run: sum(end for other, end in ends.items() if other < run) for run in ends}
    panels = []
    for title, name in (("resident memory, MiB", "resident"), ("open descriptors", "descriptors"), ("threads", "threads")):
        curves = {}
        for process in book.processes():
            rows = [row for row in book.rows if row["process"] == process and name in row]
            if not rows:
                continue
            scale = 1024 if name == "resident" else 1
            step = max(1, len(rows) // 60)  # as many marks as one can tell apart
            curves[process] = [((starts[row["run"]] + row["seconds"]) / 60, max(row[name] / scale, 1)) for row in rows[::step]]
        panels.append((title, curves))
    drawing = svg_plot.Drawing()
    processes = book.processes()
    drawing.legend([(process, process, COLOURS.get(process, "#666666"), svg_plot.MARKERS[number % 4])
                    for number, process in enumerate(processes)])
    width = (svg_plot.WIDTH - svg_plot.LEFT - svg_plot.RIGHT - svg_plot.GAP * (len(panels) - 1)) / len(panels)
    minutes = max(sum(ends.values()) / 60, 1)
    for number, (title, curves) in enumerate(panels):
        left = svg_plot.LEFT + number * (width + svg_plot.GAP)
        panel(drawing, title, curves, processes, (left, width), minutes, [start / 60 for start in starts.values() if start])
    drawing.write(path)


def panel(drawing, title, curves, processes, place, minutes, borders):
    left, width = place
    top, bottom = svg_plot.TOP, svg_plot.BOTTOM
    highest = max((y for points in curves.values() for _, y in points), default=1) * 1.1
    drawing.text(left + width / 2, svg_plot.TITLE_Y, title, size=svg_plot.TITLE_SIZE)
    for part in (0, 0.25, 0.5, 0.75, 1):
        y = bottom - part * (bottom - top)
        drawing.line(left, y, left + width, y, svg_plot.GRID)
        drawing.text(left - 8, y + 4, f"{highest * part:,.0f}", "end")
        drawing.text(left + part * width, bottom + 20, f"{minutes * part:,.0f}")
    drawing.text(left + width / 2, bottom + 42, "minutes, all runs in a row")
    for border in borders:
        drawing.line(left + border / minutes * width, top, left + border / minutes * width, bottom, svg_plot.FRAME)
    for process, points in curves.items():
        drawing.curve(process, [(left + x / minutes * width, bottom - y / highest * (bottom - top)) for x, y in points],
                      COLOURS.get(process, "#666666"), svg_plot.MARKERS[processes.index(process) % 4])
