"""Counts the member functions of C++ classes, for scripts/tidy.py.

It reads our own style, formatted by clang-format; it is no parser of C++. It counts what a reader of the class has to
know: overrides and accessors, too. Left out are constructors, destructors, operators, deleted and defaulted functions,
and friends.
"""
import re


def bare(text):
    """The code without comments, strings and the lines of the preprocessor; positions of lines stay."""
    def blank(match):
        return re.sub(r"[^\n]", " ", match.group())
    text = re.sub(r'//[^\n]*|/\*.*?\*/|"(\\.|[^"\\\n])*"|\'(\\.|[^\'\\\n])+\'', blank, text, flags=re.DOTALL)
    return re.sub(r"^[ \t]*#[^\n]*", blank, text, flags=re.MULTILINE)


def closing(text, opening):
    """Where the brace at `opening` is closed."""
    depth = 0
    for at in range(opening, len(text)):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        if depth == 0:
            return at
    return len(text)


def statements(body):
    """The declaration of each member, without the body that stands in braces behind it."""
    start = at = 0
    while at < len(body):
        if body[at] == ";":
            yield body[start:at]
            start = at + 1
        elif body[at] == "{":
            yield body[start:at]
            at = closing(body, at)
            start = at + 1
        elif body[at] == ":" and re.search(r"\b(public|private|protected)\s*$", body[start:at]):
            start = at + 1
        at += 1


def without_templates(text):
    text = re.sub(r"\bdecltype\([^()]*\)", "", text)
    while True:
        shorter = re.sub(r"<[^<>]*>", "", text)
        if shorter == text:
            return text
        text = shorter


def is_counted(name, declaration):
    text = " ".join(without_templates(re.sub(r"\[\[.*?\]\]", "", declaration)).split())
    text = re.sub(r"^(template )+", "", text)
    if "(" not in text or re.match(r"(using|friend|typedef|static_assert|enum|struct|class|union)\b", text):
        return False
    before = text.partition("(")[0].strip()
    if "=" in before or "operator" in before or before.split()[-1].lstrip("~") == name:
        return False
    return not re.search(r"= ?(delete|default)", text)


def classes(text):
    """(name, line, number of member functions) of each class and struct that is defined in the text."""
    code = bare(text)
    for match in re.finditer(r"\b(?:class|struct)\s+(?:\[\[.*?\]\]\s*)?(\w+)[^;{}()=]*\{", code):
        if re.search(r"\benum\s+$", code[:match.start()]):
            continue
        body = code[match.end():closing(code, match.end() - 1)]
        name = match.group(1)
        count = sum(is_counted(name, declaration) for declaration in statements(body))
        yield name, code[:match.start()].count("\n") + 1, count
