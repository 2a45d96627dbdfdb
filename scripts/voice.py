"""Refuses comments, messages and names of tests that have no subject or no verb of their own, for scripts/tidy.py.

A sentence begins with its subject, or with the verb of the function that it describes ("Returns …"). A noun clause or a
fragment ("What a peer sent", "Of the first connection", "Whether it is open") leaves the reader to guess, and "is told"
hides who notifies, reports or announces. The rules know words, not grammar, so that they refuse some good sentences:
voice_allowed.txt lists those.
"""
import pathlib
import re

HERE = pathlib.Path(__file__).resolve().parent
FOLDERS = ("adapters", "src", "include", "apps", "gen", "tools", "examples", "bench", "tests")
ALLOWED = HERE / "voice_allowed.txt"

COMMENT_BEGINS = re.compile(r"(What|Whose|Whom|Who|Whether|Of)\b")
MESSAGE_BEGINS = re.compile(r"([Ww]hat|[Ww]hose|[Ww]ho|[Ww]hether) [a-z]")
NAME_BEGINS = re.compile(r"(What|Whose|Who|Whether|Which|That|Those|Of)(?=[A-Z])")
TOLD = re.compile(r"\b(is|are|was|were|be|been|being)(?: |\s+// )told\b")  # a comment may break the line between them
NAME_TOLD = re.compile(r"(Is|Are|Was|Were)Told")
TEST = re.compile(r"^TEST(?:_F|_P)?\(\w+,\s*(\w+)\)", re.MULTILINE)
STRING = re.compile(r'"((?:\\.|[^"\\\n])*)"')
STRINGS = re.compile(f"{STRING.pattern}(?:\\s*{STRING.pattern})*")
SENTENCE = re.compile(r"(?<=[.:;?!]) +")


def comments(text):
    """(number of the first line, lines) of each block of // lines, cut at its empty lines; examples of code are left out."""
    block, first = [], 0
    for number, line in enumerate(text.splitlines() + [""], 1):
        match = re.match(r"\s*//(?: (\S.*))?$", line)
        if match and match[1]:
            first = first if block else number
            block.append(match[1])
        elif block:
            yield first, block
            block = []


def sentences(first, lines):
    """(number of its first line, text) of each sentence of a comment."""
    joined, starts = "", []
    for line in lines:
        starts.append(len(joined))
        joined += line + " "
    at = 0
    for part in SENTENCE.split(joined.rstrip()):
        at = joined.index(part, at)
        yield first + sum(start <= at for start in starts) - 1, part
        at += len(part)


def literals(text):
    """(number of the line, text) of each message: adjacent literals are one."""
    code = re.sub(r"^\s*(//|#).*$", "", text, flags=re.MULTILINE)
    for match in STRINGS.finditer(code):
        yield code.count("\n", 0, match.start()) + 1, "".join(STRING.findall(match[0]))


def is_of_tests(path):
    return path.endswith("_test.cc") or "_for_test." in path


def findings(path, text):
    """(line, the words, why) for each line of a file of C++ that the rules refuse."""
    if not path.startswith(tuple(folder + "/" for folder in FOLDERS)):
        return
    for first, lines in comments(text):
        for line, sentence in sentences(first, lines):
            if (match := COMMENT_BEGINS.match(sentence)) and not sentence.endswith("?"):
                yield line, sentence, f"begin the sentence with its subject or its verb, not with '{match[1]}'"
    for line, message in literals(text):
        if not is_of_tests(path) and (match := MESSAGE_BEGINS.match(message)):
            yield line, message, f"begin the message with its subject, not with '{match[1]}'"
    for match in TEST.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        if begins := NAME_BEGINS.match(match[1]):
            yield line, match[1], f"name the test by a sentence about its subject, not by '{begins[1]}…'"
        elif told := NAME_TOLD.search(match[1]):
            yield line, match[1], f"say notify, report or announce, not '{told[0]}'"
    for match in TOLD.finditer(text):
        words = text[text.rfind("\n", 0, match.start()) + 1:].split("\n", 1)[0].strip()
        yield (text.count("\n", 0, match.start()) + 1, words,
               f"say notify, report, announce or deliver, not '{match[1]} told'")


def allowed(text):
    """(path, beginning of the words) of each entry; a line is PATH: WORDS."""
    return [tuple(part.strip() for part in line.split(":", 1)) for line in text.splitlines()
            if line.strip() and not line.startswith("#")]


class Voice:
    """Leaves out what the list allows, and finds the entries of the list that allow nothing."""

    def __init__(self, entries=None):
        self.entries = allowed(ALLOWED.read_text()) if entries is None else entries
        self.used = set()

    def check(self, path, text):
        for line, words, why in findings(path, text):
            entry = next((each for each in self.entries if each[0] == path and words.startswith(each[1])), None)
            if entry is None:
                yield line, why
            else:
                self.used.add(entry)

    def unused(self):
        return [entry for entry in self.entries if entry not in self.used]
