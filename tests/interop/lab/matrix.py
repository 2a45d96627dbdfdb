"""Results, the tables that are made of them, and the place in docs/interop.md where they go."""
import dataclasses
import pathlib

PASS, FAIL, ABSENT, NOT_RUN = "pass", "FAIL", "absent", "not run"


@dataclasses.dataclass
class Result:
    scenario: object
    device: str
    verdict: str
    note: str = ""
    log: pathlib.Path | None = None
    seconds: float = 0


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(str(cell).replace("|", "/") for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def matrix(scenarios, devices, results):
    """One row a scenario, one column a device."""
    by_key = {(result.scenario.name, result.device): result for result in results}

    def cell(scenario, device):
        if device not in scenario.devices:
            return "-"
        result = by_key.get((scenario.name, device))
        if result is None:
            return NOT_RUN
        if result.verdict == PASS:
            return PASS + (f": {result.note}" if result.note else "")
        return f"**{result.verdict}**" if result.verdict == FAIL else f"{result.verdict}: {result.note}"

    rows = [(scenario.name, scenario.peers, scenario.what, *(cell(scenario, device) for device in devices))
            for scenario in scenarios]
    return table(("scenario", "client → server", "what", *devices), rows)


def failures(results, tree=None):
    """One line each; with the path of the log below that tree, where there is one."""
    lines = []
    for result in results:
        if result.verdict == FAIL:
            log = pathlib.Path(result.log) if result.log and tree else None
            where = log.relative_to(tree) if log and log.is_relative_to(tree) else log
            lines.append(f"FAIL {result.scenario.name}/{result.device}: {result.note}" +
                         (f"; log: {where}" if where else ""))
    return lines


def summary(results):
    counts = {verdict: sum(result.verdict == verdict for result in results) for verdict in (PASS, FAIL, ABSENT)}
    return f"{counts[PASS]} passed, {counts[FAIL]} failed, {counts[ABSENT]} absent"


def exit_status(results):
    """A run in which nothing passed has shown nothing."""
    verdicts = {result.verdict for result in results}
    return 0 if PASS in verdicts and FAIL not in verdicts else 1


def markers(series):
    """Where the matrix with a kernel of this series stands in the document."""
    return f"<!-- make lab {series}: begin -->", f"<!-- make lab {series}: end -->"


def write_into(document, series, text):
    """Puts the text between the markers, in place of what stands there."""
    begin, end = markers(series)
    before, found, rest = document.read_text().partition(begin)
    _, end_found, after = rest.partition(end)
    if not found or not end_found:
        raise ValueError(f"{document.name} has no {begin} ... {end}")
    document.write_text(f"{before}{begin}\n{text.strip()}\n{end}{after}")
