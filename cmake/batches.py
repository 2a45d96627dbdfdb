#!/usr/bin/env python3
"""Puts the files of a target into batches that the compiler reads as one file each, where no name of one occurs in another.

usage: batches.py plan FOLDER SIZE FILE...   writes FOLDER/batch_1.cc and so on, each of files with at most SIZE bytes in
                                             all; prints their paths, separated by semicolons
       batches.py check FOLDER               fails if the files have changed so that a batch of the plan is no longer good

Most of a file's compile time goes into its headers and the templates that they bring, and the files of a target have
nearly the same ones (docs/adr/0033-several-files-as-one.md has the figures).

A name that a file declares for itself, in an anonymous namespace say, stays visible to the end of a batch. So a file
joins a batch only if none of these names occurs in it at all, as whatever; a using-declaration or an alias that both
have in the same words is the exception. Names need no rule: files with the same ones are in different batches. All
headers are included in front of the first file. A file is the last of its batch if it has something that reaches further
than its name (a using-directive; an operator, a macro or a specialisation of its own), and is alone if it includes
something under a condition or behind a macro. A plan that is still good stays as it is, so that little is compiled again.
"""
import itertools
import pathlib
import re
import sys

# Literals and comments, which are left out; directives with what continues them; names of operators; words; numbers; signs.
TOKEN = re.compile(
    r'(?P<none>//[^\n]*|/\*.*?\*/|(?:u8|[uUL])?R"(?P<mark>[^()\\ ]*)\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"|'
    r"(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+')"
    r"|(?P<directive>^[ \t]*#(?:\\\n|[^\n])*)|(?P<operator>\boperator\s*(?:\(\s*\)|\[\s*\]|[-+*/%^&|~!=<>,]+))|(?P<word>[A-Za-z_]\w*)|(?P<number>\d[\w.']*)|(?P<sign>::|->|<<|\S)",
    re.S | re.M)
# Where a statement at the level of a namespace begins with one of these, or stands in an anonymous namespace, its names are
# the file's own.
OWN = {"static", "constexpr", "constinit", "const", "inline", "using", "typedef", "namespace", "template", "concept",
       "struct", "class", "enum", "union"}
AFTER_NAME = {"(", "{", "=", ";", "[", ":", ",", ")"}
KEYWORDS = OWN | set("""alignas alignof auto bool char const_cast co_await co_return co_yield decltype default delete double else
    explicit export extern false final float for friend if int long mutable new noexcept nullptr operator override private protected
    public reinterpret_cast requires return short signed sizeof static_assert static_cast switch this thread_local true typename
    unsigned virtual void volatile while""".split())


def is_name(token):
    return token not in KEYWORDS and re.match(r"[A-Za-z_]", token)


class File:
    """Has the words of a file, those that it declares for itself, and whether others may follow it or go before it."""

    def __init__(self, path):
        self.path = str(path)
        text = pathlib.Path(path).read_text()
        self.size = len(text)
        self.words, self.includes = set(), []  # words without those behind :: and . and ->, which are looked up elsewhere
        self.own = {}  # name: the using-declaration or alias that declares it; None if it is something else
        self.is_last = self.is_alone = False
        self.conditions = 0  # #if that are open
        self.macros = set()
        tokens = []
        for match in TOKEN.finditer(text):
            if match["directive"]:
                self._directive(match["directive"])
            elif match["word"] or match["sign"] or match["number"]:
                if match["word"] and tokens[-1:] not in (["::"], ["."], ["->"]):
                    self.words.add(match["word"])
                tokens.append(match["word"] or match["sign"] or "0")
            elif match["operator"]:
                tokens.append("operator")
        self.is_last = self.is_last or bool(self.macros)  # which also replace what stands behind a point
        self._declarations(tokens)

    def _directive(self, text):
        words = re.findall(r"\w+", text)
        self.words.update(words)
        if words[:1] == ["include"]:
            # A header may look at macros; and one under a condition cannot go in front of the others.
            self.is_alone = self.is_alone or bool(self.own) or self.conditions > 0
            self.includes.append(" ".join(text.split()))
        elif words[:1] == ["define"]:
            self.own[words[1]] = None
            self.macros.add(words[1])
        elif words[:1] == ["undef"]:
            self.is_last = self.is_last or words[1] not in self.macros
            self.own.pop(words[1], None)
            self.macros.discard(words[1])
        elif words[:1] == ["pragma"]:
            self.is_last = True
        elif words[0].startswith("if"):
            self.conditions += 1
        elif words[0] == "endif":
            self.conditions -= 1

    def _declarations(self, tokens):
        scopes = []  # of each brace that is open: "anonymous", "namespace", or "other"
        statement = []  # the tokens of the statement so far, outside of inner braces and parentheses
        parentheses = 0
        in_enumeration = False
        for token in self._without_attributes(tokens):
            at_level = not parentheses and "other" not in scopes
            if in_enumeration and is_name(token):
                self.own[token] = None  # an enumerator, or what it equals
            if at_level:
                statement.append(token)
            if token == "(":
                parentheses += 1
            elif token == ")":
                parentheses -= 1
                if not parentheses and "other" not in scopes:
                    statement.append(token)
            elif token == "{":
                while statement[:2] == ["{", "}"]:
                    del statement[:2]  # the body of a constructor whose last initialiser has braces
                in_enumeration = at_level and statement[0] == "enum" and statement[1] not in ("class", "struct") or in_enumeration
                scopes.append(self._scope_of(statement) if at_level else "other")
                if scopes[-1] != "other":
                    statement = []
            elif token == "}":
                in_enumeration = False
                if not scopes:  # some are under conditions
                    self.is_alone = True
                    continue
                ended = scopes.pop()
                if ended != "other":
                    statement = []
                elif not parentheses and "other" not in scopes:
                    statement.append(token)
                    if self._ends_with_its_body(statement):
                        self._note(statement, "anonymous" in scopes)
                        statement = []
            elif token == ";" and at_level:
                self._note(statement, "anonymous" in scopes)
                statement = []

    @staticmethod
    def _without_attributes(tokens):
        depth = 0
        for token, after in zip(tokens, tokens[1:] + [""]):
            if depth == 0 and token == after == "[":
                depth = 2
            elif depth and token == "]":
                depth -= 1
            elif not depth:
                yield token

    @staticmethod
    def _scope_of(statement):
        words = [token for token in statement[:-1] if token not in ("inline", "extern")]
        if words[:1] != ["namespace"]:
            return "namespace" if statement[:-1] == ["extern"] else "other"
        return "namespace" if len(words) > 1 else "anonymous"

    @staticmethod
    def _ends_with_its_body(statement):
        """Returns whether the statement is a function; a type or a variable goes on to its semicolon."""
        return ")" in statement and "=" not in statement and statement[0] not in ("struct", "class", "enum", "union")

    def _note(self, statement, is_anonymous):
        while statement[:2] == ["{", "}"]:
            statement = statement[2:]
        if not statement:
            return
        start = statement[0]
        if statement[:2] in (["using", "namespace"], ["using", "enum"]) or statement[:3] == ["template", "<", ">"]:
            self.is_last = True
        if not (is_anonymous or start in OWN):
            return
        if "operator" in statement:
            self.is_last = True
        text = " ".join(statement) if start in ("using", "namespace") else None  # may be said twice
        before, angles = "", 0  # template arguments declare nothing
        is_type = in_bases = False  # whose names are declared elsewhere
        for index, token in enumerate(statement[:-1]):
            after = statement[index + 1]
            angles += (token == "<") - (token == ">")
            in_bases = token != "{" and (in_bases or (is_type and token == ":"))
            if in_bases:
                before = token
                continue
            if angles <= 0 and token in ("struct", "class", "enum", "union", "concept"):
                after_class = statement[index + 2] if after in ("struct", "class") else after
                if is_name(after_class):  # which may be followed by final, : or < as well
                    self.own[after_class] = None
                is_type = is_type or start not in ("using", "typedef") and "(" not in statement[:index]
            # A name behind :: belongs to another scope, except in a using-declaration, which declares it here.
            if index == 0 and token.isupper() and after == "(":
                before = token
                continue  # a macro such as TEST(), whose names are made of its arguments
            if (is_name(token) and after in AFTER_NAME and angles <= 0
                    and (before not in ("::", "->", ".") or start == "using")):
                self.own[token] = text
            before = token


def reason_against(before, behind):
    """Returns why one file cannot follow the other in a batch, None if it can."""
    if before.is_alone or before.is_last or behind.is_alone:
        return f"{(behind if behind.is_alone else before).path} has something that would reach the files behind it"
    common = [name for name, text in before.own.items()
              if name in behind.words and (text is None or behind.own.get(name) != text)]
    return f"{before.path} and {behind.path} both have {', '.join(sorted(common)[:3])}" if common else None


def plan(files, size):
    """Returns lists of files: each file joins the first batch that has room for it, at its end or at its beginning."""
    batches = []
    for file in files:
        for batch in batches:
            if sum(each.size for each in batch) + file.size > size:
                continue
            if not any(reason_against(before, file) for before in batch):
                batch.append(file)
                break
            if not any(reason_against(file, behind) for behind in batch):
                batch.insert(0, file)
                break
        else:
            batches.append([file])
    return batches


def write_if_new(path, text):
    if not path.is_file() or path.read_text() != text:
        path.write_text(text)


def old_plan(folder):
    """Returns the plan that is there, as lists of names."""
    path = folder / "plan"
    return [line.split("\t") for line in path.read_text().splitlines()] if path.is_file() else []


def first_reason_against(batches):
    pairs = (pair for batch in batches for pair in itertools.combinations(batch, 2))
    return next(filter(None, itertools.starmap(reason_against, pairs)), None)


def text_of(batch):
    lines = dict.fromkeys(line for file in batch for line in file.includes) if len(batch) > 1 else {}
    return "\n".join([*lines, *(f'#include "{file.path}"' for file in batch)]) + "\n"


def make_plan(folder, size, names):
    folder.mkdir(parents=True, exist_ok=True)
    files = {name: File(name) for name in names}
    old = old_plan(folder)
    # A plan that is still good stays: another one would have nearly everything compiled again.
    if sorted(itertools.chain(*old)) == sorted(names):
        batches = [[files[name] for name in batch] for batch in old]
    else:
        batches = None
    if batches is None or first_reason_against(batches):
        batches = plan(files.values(), size)
    paths = [folder / f"batch_{number}.cc" for number in range(1, len(batches) + 1)]
    for path, batch in zip(paths, batches):
        write_if_new(path, text_of(batch))
    write_if_new(folder / "plan", "\n".join("\t".join(file.path for file in batch) for batch in batches) + "\n")
    print(";".join(map(str, paths)), end="")


def check(folder):
    batches = [[*map(File, batch)] for batch in old_plan(folder)]
    for number, batch in enumerate(batches, 1):
        write_if_new(folder / f"batch_{number}.cc", text_of(batch))  # a file may include something new
    if reason := first_reason_against(batches):
        (folder / "plan").touch()  # CMake makes a new plan before the next build
        sys.exit(f"batches.py: {reason} now: run the build once more, which puts them into different batches")
    write_if_new(folder / "checked", "The batches of the plan are good.\n")


def main():
    if len(sys.argv) > 3 and sys.argv[1] == "plan":
        return make_plan(pathlib.Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
    if len(sys.argv) == 3 and sys.argv[1] == "check":
        return check(pathlib.Path(sys.argv[2]))
    sys.exit(__doc__)


if __name__ == "__main__":
    main()
