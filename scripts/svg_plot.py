"""Draws panels of curves over logarithmic axes as SVG.

It needs no program, and the place of each text is known: scripts/plots_test.py checks that none lies over another
one, nor over a curve.
"""
import html
import math

WIDTH, HEIGHT = 1200, 440
LEGEND_Y = 24
TITLE_Y, TOP, BOTTOM = 62, 80, 380
LEFT, GAP, RIGHT = 96, 92, 40  # of the first panel, between panels, behind the last one
FONT_SIZE, TITLE_SIZE = 13, 15
TEXT, FRAME, GRID = "#222222", "#888888", "#e2e2e2"
MARKERS = ("circle", "square", "triangle", "diamond")


def text_width(text, size):
    """Estimates the width of a text, rather too wide: 0.62 em for each character, as wide fonts have."""
    return 0.62 * size * len(text)


def count_text(value):
    if value >= 1_000_000:
        return f"{value / 1_000_000:g} million"
    return f"{value:,.0f}"


def time_text(nanoseconds):
    for unit, scale in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if nanoseconds >= scale * 0.999:
            return f"{nanoseconds / scale:g} {unit}"
    return f"{nanoseconds:g} ns"


def bytes_text(value):
    for unit, scale in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if value >= scale:
            return f"{value / scale:g} {unit}"
    return f"{value:g} B"


class Axis:
    """A logarithmic axis with as many marks as one can read; `marks` gives them where they are not 1, 2 and 5."""

    def __init__(self, values, form, marks=None):
        self.form = form
        lowest, highest = min(values), max(values)
        if marks:
            self.low, self.high, self.marks = lowest, highest, marks
            if lowest == highest:
                self.low, self.high = lowest / 2, highest * 2
            return
        steps = [base * 10 ** power for power in range(-1, 13) for base in (1, 2, 5)]
        self.low = max(step for step in steps if step <= lowest)
        self.high = min(step for step in steps if step > highest)
        inside = [step for step in steps if self.low <= step <= self.high]
        decades = [step for step in inside if f"{step:e}".startswith("1.")]
        self.marks = inside if len(inside) <= 7 else decades

    def part(self, value):
        """Returns where a value lies, 0 at the beginning of the axis and 1 at its end."""
        return math.log(value / self.low) / math.log(self.high / self.low)


class Drawing:
    def __init__(self):
        self.lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
                      f'font-family="DejaVu Sans, Verdana, sans-serif" fill="{TEXT}">',
                      f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>']

    def text(self, x, y, text, anchor="middle", size=FONT_SIZE, **others):
        more = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in others.items())
        self.lines.append(f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}"{more}>'
                          f'{html.escape(text)}</text>')

    def line(self, x1, y1, x2, y2, colour, width=1.0):
        self.lines.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" '
                          f'stroke-width="{width}"/>')

    def marker(self, kind, x, y, colour):
        shapes = {"square": ((-4, -4), (4, -4), (4, 4), (-4, 4)), "triangle": ((0, -5), (5, 4), (-5, 4)),
                  "diamond": ((0, -6), (6, 0), (0, 6), (-6, 0))}
        if kind == "circle":
            self.lines.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>')
            return
        points = " ".join(f"{x + dx:.1f},{y + dy:.1f}" for dx, dy in shapes[kind])
        self.lines.append(f'<polygon points="{points}" fill="{colour}"/>')

    def curve(self, contender, points, colour, marker):
        joined = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self.lines.append(f'<polyline class="curve" data-contender="{contender}" points="{joined}" fill="none" '
                          f'stroke="{colour}" stroke-width="2"/>')
        for x, y in points:
            self.marker(marker, x, y, colour)

    def legend(self, entries):
        """Draws (name, contender, colour, marker) in one line above the panels, in the middle."""
        line, space = 34, 36
        widths = [line + 8 + text_width(name, FONT_SIZE) for name, *_ in entries]
        x = (WIDTH - sum(widths) - space * (len(entries) - 1)) / 2
        for (name, contender, colour, marker), width in zip(entries, widths):
            self.line(x, LEGEND_Y - 4, x + line, LEGEND_Y - 4, colour, 2)
            self.marker(marker, x + line / 2, LEGEND_Y - 4, colour)
            self.text(x + line + 8, LEGEND_Y, name, "start", data_contender=contender, data_colour=colour)
            x += width + space

    def write(self, path):
        path.write_text("\n".join(self.lines + ["</svg>", ""]))


def draw(path, panels, x_label, x_axis, colours):
    """Writes one picture. `panels`: (title, form of the y axis, {name: [(x, y)]}); `colours`: {contender: colour}.

    A contender is the first part of a name that `colours` knows: "read" of "read 4 KiB".
    """
    drawing = Drawing()

    def contender(name):
        return next(each for each in colours if name.startswith(each))

    def style(name):
        return colours[contender(name)], MARKERS[list(colours).index(contender(name)) % len(MARKERS)]

    names = sorted({name for _, _, curves in panels for name in curves}, key=lambda name: list(colours).index(contender(name)))
    drawing.legend([(name, contender(name), *style(name)) for name in names])
    width = (WIDTH - LEFT - RIGHT - GAP * (len(panels) - 1)) / len(panels)
    for number, (title, form, curves) in enumerate(panels):
        left = LEFT + number * (width + GAP)
        y_axis = Axis([y for points in curves.values() for _, y in points], form)

        def place(x, y, left=left, y_axis=y_axis):
            return left + x_axis.part(x) * width, BOTTOM - y_axis.part(y) * (BOTTOM - TOP)

        drawing.text(left + width / 2, TITLE_Y, title, size=TITLE_SIZE, font_weight="bold")
        for mark in y_axis.marks:
            _, y = place(x_axis.low, mark)
            drawing.line(left, y, left + width, y, GRID)
            drawing.text(left - 8, y + 4.5, form(mark), "end")
        for mark in x_axis.marks:
            x, _ = place(mark, y_axis.low)
            drawing.line(x, TOP, x, BOTTOM, GRID)
            drawing.text(x, BOTTOM + 22, x_axis.form(mark))
        drawing.lines.append(f'<rect class="panel" x="{left:.1f}" y="{TOP}" width="{width:.1f}" '
                             f'height="{BOTTOM - TOP}" fill="none" stroke="{FRAME}"/>')
        for name, points in curves.items():
            drawing.curve(contender(name), [place(*point) for point in points], *style(name))
        drawing.text(left + width / 2, BOTTOM + 48, x_label)
    drawing.write(path)
