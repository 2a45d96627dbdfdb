"""Writes a fault into the code beside what it replaces, behind a switch, for scripts/mutants.py.

A build for each fault takes minutes where the fault is in a header, and there are hundreds of them. So all of them are
written into one build, `if (planted(17)) { new } else { old }` or `(planted(17) ? new : old)`, and a test runs with the
number of its fault in RPCRDMA_PLANTED. This reads our own style and is no parser: it offers several forms, and the
compiler refuses those that are none. A form must do the same as the old lines while its switch is off.
"""
import re
import typing

INCLUDED = "tests/mutants/planted.h"
VARIABLE = "RPCRDMA_PLANTED"
TOKEN = re.compile(r'''(?P<space>\s+|//[^\n]*|/\*.*?\*/)|(?P<code>R"(?P<raw>\w*)\(.*?\)(?P=raw)"|(?:u8|[uUL])?"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)+'|'''
                   r'''[A-Za-z_]\w*|\d(?:[\w.]|'(?=\w))*|<=>|<<=|>>=|\.\.\.|->\*|::|->|\+\+|--|&&|\|\||[-+*/%&|^!=<>]=|<<|>>|.)''', re.S)
CLOSING = {"(": ")", "[": "]", "{": "}"}
# An operand of a conditional expression ends at these, if they are not in brackets.
BOUNDARIES = {",", ";", "=", "+=", "-=", "*=", "/=", "|=", "&=", "^=", "?", ":", "return", "co_return", "throw", "{", "}"}
NOT_A_STATEMENT = {"else", "case", "default", "using", "static_assert", "public", "private", "protected", "template", "struct",
                   "class", "enum", "friend", "virtual", "typedef", "namespace"}
NOT_AN_OPERAND = {"if", "for", "while", "do", "switch", "return", "co_return", "break", "continue", "const", "auto"}
# The compiler computes these, or they are in no function.
NOT_SWITCHED = {"constexpr", "constinit", "static", "inline", "extern", "explicit"}
LABEL = re.compile(r"\b(?:case\b|default\s*:)")
ATTRIBUTE = re.compile(r"\[\[.*?\]\]\s*")
# It begins with a type, or with a word that only declarations have, and a name that is not called follows.
DECLARATION = re.compile(r"(?!(?:return|co_return|co_await|co_yield|throw|delete|goto|else|case|new)\b)"
                         r"(?:(?:const|auto|unsigned|thread_local)\b|"
                         r"[\w:]+(?:<[^;=()]*>)?(?:::\w+)*[&*]* [&*]*\w+ ?(?:=[^=]|[{;(\[]))")


class Token(typing.NamedTuple):
    text: str
    first: int  # place in the source
    last: int   # place behind it


def tokens(text):
    """Returns the tokens of some lines, without white space and comments."""
    return [Token(match["code"], match.start(), match.end()) for match in TOKEN.finditer(text) if match["code"]]


def is_balanced(some):
    """Returns whether each bracket is closed among these tokens by its own kind."""
    open_ones = []
    for token in some:
        if token.text in CLOSING:
            open_ones.append(CLOSING[token.text])
        elif token.text in CLOSING.values() and (not open_ones or open_ones.pop() != token.text):
            return False
    return not open_ones


def spelled(text):
    """Returns the lines as one, without their comments."""
    return "".join(match["code"] or " " for match in TOKEN.finditer(text)).strip()


def declares(text):
    """Returns whether one of these statements is a declaration, whose name or whose lock would end with a block."""
    plain, depth, started = ATTRIBUTE.sub("", spelled(text)), 0, 0
    for token in tokens(plain):
        depth += (token.text in CLOSING) - (token.text in CLOSING.values())
        if depth == 0 and token.text in (";", "}"):
            if DECLARATION.match(plain[started:token.last].strip()):
                return True
            started = token.last
    return False


def forms(old, new, number):
    """Yields texts that may stand in the place of the lines `old`. Each does what these do, and what `new` does while the
    switch of this number is on. The first that compiles is good."""
    before, after = tokens(old), tokens(new)
    planted = f"::rpcrdma_planted({number})"
    if not before and after:  # a comment gets a statement
        if not declares(new):
            yield f"if ({planted}) {{ {spelled(new)} }}\n{old}"
        return
    if not before or [token.text for token in before] == [token.text for token in after]:
        return
    if before[0].text in NOT_SWITCHED:
        yield from bodies(old, new, before, after, planted)
        return
    yield from statements(old, new, before, after, planted)
    yield from expressions(old, new, before, after, number)
    yield from bodies(old, new, before, after, planted)
    yield from alternatives(old, new, planted)


def statements(old, new, before, after, planted):
    """Yields the form for whole statements."""
    whole = [some for some in (before, after) if not some or (is_balanced(some) and some[-1].text in (";", "}"))]
    begins = {some[0].text for some in (before, after) if some}
    texts = spelled(old), spelled(new)
    if len(whole) == 2 and not begins & NOT_A_STATEMENT and not any(map(declares, texts)) and not any(map(LABEL.search, texts)):
        yield f"if ({planted}) {{ {texts[1]} }} else {{\n{old}\n}}"


def ends_in_common(before, after):
    """Returns how many tokens both have in front, and how many of the others behind."""
    most = min(len(before), len(after))
    front = next((place for place in range(most) if before[place].text != after[place].text), most)
    behind = next((place for place in range(most - front) if before[-1 - place].text != after[-1 - place].text), most - front)
    return front, behind


def balanced_around(some, first, last):
    """Returns the smallest part that holds some tokens and closes the brackets that it opens; None if there is none."""
    while not is_balanced(some[first:last]):
        left, right = unclosed(some[first:last])
        first, last = first - (1 if left else 0), last + (1 if right else 0)
        if first < 0 or last > len(some):
            return None
    return first, last


def unclosed(some):
    """Returns how many brackets some tokens close that others opened, and how many they leave open."""
    left = right = 0
    for token in some:
        if token.text in CLOSING:
            right += 1
        elif token.text in CLOSING.values():
            left, right = (left, right - 1) if right else (left + 1, 0)
    return left, right


def operands(before, after):
    """Yields (first, end of the old one, end of the new one) of the operands that hold the difference, the smallest first."""
    front, behind = ends_in_common(before, after)
    longer = len(after) - len(before)
    first, last = front, len(before) - behind
    while True:
        # Both have the same tokens around the difference, so that one widens the part for the other.
        parts = balanced_around(before, first, last)
        parts = parts and balanced_around(after, parts[0], parts[1] + longer)
        if not parts:
            return
        first, last = grown(before, parts[0], parts[1] - longer)
        if first < last and first < last + longer and is_balanced(before[first:last]) and is_balanced(after[first:last + longer]):
            yield first, last, last + longer
        # The next one is where the bracket around it stands.
        first, last = grown(before, first, last, {";"})
        if first == 0 or last == len(before) or before[last].text != CLOSING.get(before[first - 1].text):
            return
        first, last = first - 1, last + 1


def grown(some, first, last, boundaries=BOUNDARIES):
    """Returns what is around some tokens: up to a boundary, or to a bracket that is not closed, on either side."""
    depth = 0
    while first > 0:
        text = some[first - 1].text
        if depth == 0 and (text in boundaries or text in CLOSING):
            break
        depth += (text in CLOSING.values()) - (text in CLOSING)
        first -= 1
    depth = 0
    while last < len(some):
        text = some[last].text
        if depth == 0 and ((text in boundaries and text != "{") or text in CLOSING.values()):
            break
        depth += (text in CLOSING) - (text in CLOSING.values())
        last += 1
    return first, last


def is_condition(before, first, last):
    """Returns whether these tokens are the whole condition of an if or a while."""
    if last >= len(before) or before[last].text != ")" or first == 0 or before[first - 1].text not in ("(", ";"):
        return False
    opened = next((place for place in range(first - 1, 0, -1)
                   if before[place].text == "(" and is_balanced(before[place + 1:last])), 0)
    return opened > 0 and before[opened - 1].text in ("if", "while")


def is_operand(some):
    """Returns whether these tokens may be an expression, and one alone: of a list only the last would count."""
    depth = 0
    for token in some:
        if depth == 0 and token.text in (",", ";", "="):
            return False
        depth += (token.text in CLOSING) - (token.text in CLOSING.values())
    return some[0].text not in NOT_AN_OPERAND | {"{"}


def expressions(old, new, before, after, number):
    """Yields forms in which one operand is a conditional expression. Where that is not of the old operand's type, the
    compiler refuses it."""
    for first, last, new_last in dict.fromkeys(operands(before, after)):
        if not (is_operand(before[first:last]) and is_operand(after[first:new_last])):
            continue
        was = old[before[first].first:before[last - 1].last]
        becomes = spelled(new[after[first].first:after[new_last - 1].last])
        if is_condition(before, first, last):
            planted = f"::rpcrdma_planted({number})"
            was, becomes = f"static_cast<bool>({ended(was)})", f"static_cast<bool>({becomes})"
        else:
            plain = spelled(was)
            planted = f"::rpcrdma_planted<decltype(({plain})), decltype(true ? ({becomes}) : ({plain}))>({number})"
        in_front, behind = old[:before[first].first], old[before[last - 1].last:]
        yield f"{in_front}({planted} ? ({becomes}) : ({ended(was)})){behind}"


def ended(operand):
    """Returns the operand so that a comment at its end does not hide what follows."""
    return operand + "\n" if "//" in operand else operand


def body_of(some):
    """Returns the place of the bracket that opens the body of a function on one line; None if there is none."""
    depth = 0
    for place in range(len(some) - 1, -1, -1):
        depth += (some[place].text == "}") - (some[place].text == "{")
        if depth == 0:
            return place if some[place].text == "{" else None
    return None


def leaves_out_names(head, other):
    """Returns whether the second head is the first, or that without some names of parameters."""
    rest = [token.text for token in other]
    for place, token in enumerate(head):
        if rest and rest[0] == token.text:
            rest.pop(0)
        elif not (token.text.isidentifier() and place + 1 < len(head) and head[place + 1].text in (",", ")")):
            return False
    return not rest


def bodies(old, new, before, after, planted):
    """Yields the form for a function on one line, whose bodies differ."""
    was, becomes = body_of(before), body_of(after)
    if was is None or becomes is None or not is_balanced(before) or not leaves_out_names(before[:was], after[:becomes]):
        return
    if [token.text for token in before[was:]] == [token.text for token in after[becomes:]]:
        return
    inside = [spelled(text[some[place].last:some[-1].first]) for text, some, place in
              ((old, before, was), (new, after, becomes))]
    yield f"{old[:before[was].last]} if ({planted}) {{ {inside[1]} }} else {{ {inside[0]} }} }}"


def alternatives(old, new, planted):
    """Yields the form for a branch that gets a condition, or loses it."""
    shape = re.compile(r"\} else (?:if \((.*)\) )?\{")
    was, becomes = shape.fullmatch(spelled(old)), shape.fullmatch(spelled(new))
    if was and becomes:
        yield (f"}} else if ({planted} ? static_cast<bool>({becomes[1] or 'true'}) : "
               f"static_cast<bool>({was[1] or 'true'})) {{")
