"""Finds where the functions, classes and constants of a C++ file begin and end, for scripts/planted.py.

It reads our own style, formatted by clang-format; it is no parser of C++. A member has the name of its class in front,
wherever it is defined: `Client::call`. Namespaces belong to a name only where the source writes them.
"""
import bisect
import re
import typing

import member_functions

NOT_A_NAME = {"decltype", "alignas", "explicit", "noexcept", "requires", "static_assert", "__attribute__", "sizeof"}
NAME = re.compile(r"((?:~?\w+\s*::\s*)*(?:operator\s*(?:\(\)|[^\s\w(]+|[\w:&*\s]+)|~?\w+))\s*\(")
TOKEN = re.compile(r"[{}();]|(?<!:):(?!:)")


class Scope(typing.NamedTuple):
    name: str
    first: int  # line, counted from 0
    last: int   # the line in which it ends


def plain(header):
    """Returns the header of a definition without attributes and template arguments, on one line."""
    text = re.sub(r"\[\[.*?\]\]", "", header, flags=re.DOTALL)
    text = re.sub(r"\boperator\s*<=>", "operator~", text)
    text = re.sub(r"\boperator\s*(<<|>>|<=|>=|<|>)", "operator~", text)
    return " ".join(member_functions.without_templates(text).split())


def class_name(text):
    """Returns the name of the class, struct, union or enum that this header opens; None if it opens none."""
    match = re.match(r"(?:template |typedef )*(?:enum class|enum struct|enum|class|struct|union)\b([^(=]*)$", text)
    if not match:
        return None
    words = re.findall(r"[\w:]+", re.split(r"(?<!:):(?!:)", match[1])[0])
    words = [word for word in words if word not in ("final", "alignas")]
    return words[-1] if words else ""


def function_name(text):
    """Returns the name of the function whose header this is; None if it is the head of an initialiser."""
    for match in NAME.finditer(text):
        if "=" in text[:match.start(1)].replace("operator", ""):
            return None
        name = re.sub(r"\s*::\s*", "::", match[1]).strip()
        if name not in NOT_A_NAME:
            return name
    return None


def is_initialiser_of_a_member(text):
    """Returns true for the brace behind `a_` in `Thing() : a_{1} {`."""
    parameters = re.search(r"\)[\w\s]*(?<!:):(?!:)", text)
    return bool(parameters) and re.search(r"[\w>]$", text) is not None


def variable_name(text):
    """Returns the name that a declaration such as `constexpr int kSizeMax = 5` defines; None for other statements."""
    if re.match(r"(using|typedef|friend|static_assert|namespace|template|class|struct|enum|union|extern)\b", text):
        return None
    before = re.split(r"[={]", text)[0].strip()
    match = re.search(r"(\w+)\s*(\[[^\]]*\])*$", before)
    return match[1] if match and " " in before else None


def scopes(text):
    """Returns the Scope of each function, class and constant of the text, outer ones first."""
    code = member_functions.bare(text)
    starts = [0] + [match.end() for match in re.finditer("\n", code)]
    found = []
    outer = []  # (kind, name, place in `found`, start of the statement) of each open brace
    start = parentheses = 0

    def line_at(at):
        return bisect.bisect_right(starts, at) - 1

    def begin():
        return line_at(start + len(code[start:]) - len(code[start:].lstrip()))

    for token in TOKEN.finditer(code):
        sign, at = token.group(), token.start()
        kind, prefix = (outer[-1][0], outer[-1][1]) if outer else ("namespace", "")
        if sign == "(":
            parentheses += 1
        elif sign == ")":
            parentheses -= 1
        elif sign == "{":
            opened = ("other", prefix, None, start, parentheses)
            header = plain(code[start:at])
            if kind in ("namespace", "class") and parentheses == 0 and header:
                if re.match(r"(inline )?namespace\b[\w: ]*$", header) or re.match(r'extern\s*$', header):
                    opened = ("namespace", "", None, start, 0)
                elif (name := class_name(header)) is not None:
                    opened = ("class", f"{prefix}::{name}" if prefix else name, len(found), start, 0)
                elif not is_initialiser_of_a_member(header) and (name := function_name(header)):
                    opened = ("function", f"{prefix}::{name}" if prefix else name, len(found), start, 0)
                if opened[2] is not None:
                    found.append(Scope(opened[1], begin(), -1))
            outer.append(opened)
            if opened[0] != "other":
                start = at + 1
            parentheses = 0
        elif sign == "}":
            if not outer:
                break
            ended, _, place, before, parentheses = outer.pop()
            if place is not None:
                found[place] = found[place]._replace(last=line_at(at))
            start = before if ended == "other" else at + 1
        elif parentheses == 0 and kind in ("namespace", "class"):
            if sign == ";":
                name = variable_name(plain(code[start:at])) if kind == "namespace" else None
                if name:
                    found.append(Scope(name, begin(), line_at(at)))
                start = at + 1
            elif kind == "class" and re.fullmatch(r"\s*(public|private|protected)\s*", code[start:at]):
                start = at + 1
    return [scope for scope in found if scope.last >= 0]
