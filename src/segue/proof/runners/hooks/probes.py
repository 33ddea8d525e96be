"""Questions with known answers, asked in the process of the tests after they ran: can assertions still fail?

It is copied out of the package and runs in the project's own Python, which need not know Segue.
"""

import ast
import contextlib
import os
import random
import sys

_MOST_VALUES = 60
_MOST_CLASSES = 2000
_MOST_WRAPPED = 20


def constants(path):
    """The plain values that a test file compares with."""
    try:
        with open(path, encoding="utf-8") as file:
            tree = ast.parse(file.read())
    except (OSError, SyntaxError, ValueError):
        return []
    found = {}
    for node in ast.walk(tree):
        value = getattr(node, "value", None) if isinstance(node, ast.Constant) else None
        if isinstance(value, (int, float, str)):
            found.setdefault((type(value).__name__, value), value)
    return list(found.values())[:_MOST_VALUES]


def blind_unittest(files):
    """Return whether an assertion of unittest lets something wrong pass, with the values of the tests."""
    import unittest

    case = unittest.TestCase()
    tries = [
        ("assertTrue", (False,)),
        ("assertTrue", (0,)),
        ("assertFalse", (1,)),
        ("assertIn", (1, [])),
        ("assertIs", (1, None)),
        ("assertIsNone", (1,)),
        ("assertEqual", (1, 2)),
        ("assertRaises", (KeyError, int)),
        ("fail", ("x",)),
    ]
    for path in files:
        for value in constants(path):
            wrong = [other for other in (0, None, "", -7.5) if other != value]
            tries += [("assertEqual", pair) for other in wrong for pair in ((other, value), (value, other))]
            tries += [("assertEqual", ([other], [value])) for other in wrong[:1]]
            if not isinstance(value, str):
                far = value * 2 + 9
                tries += [("assertAlmostEqual", (value, far))] if far != value else []
            elif value:
                tries += [("assertIn", (value, "")), ("assertMultiLineEqual", (value, value + "x"))]
    return any(_passes(getattr(case, method), words) for method, words in tries)


def _passes(method, words):
    try:
        method(*words)
    except Exception:
        return False
    return True


def _wrapped_codes(function):
    """The code of a function and of those below it: a decorator may give its own the same name and line."""
    found, pending = [], [function]
    while pending and len(found) < _MOST_WRAPPED:
        one = pending.pop()
        code = getattr(one, "__code__", None)
        if code is None or code in found:
            continue
        found.append(code)
        pending += [
            getattr(one, "__wrapped__", None),
            getattr(getattr(one, "hypothesis", None), "inner_test", None),
        ]
        for cell in getattr(one, "__closure__", None) or ():
            with contextlib.suppress(ValueError):  # it may be empty
                pending.append(cell.cell_contents)
    return found


def _asserts(code):
    import dis

    marks = ("LOAD_ASSERTION_ERROR", "LOAD_COMMON_CONSTANT")
    return "AssertionError" in code.co_names or any(one.opname in marks for one in dis.get_instructions(code))


def without_assertions(function):
    """Return whether a test function has assertions in its file, and none in the code that ran."""
    code = getattr(function, "__code__", None)
    if code is None:
        return False
    if any(_asserts(one) for one in _wrapped_codes(function) if one.co_filename == code.co_filename):
        return False
    try:
        with open(code.co_filename, encoding="utf-8") as file:
            tree = ast.parse(file.read())
    except (OSError, SyntaxError, ValueError):
        return False
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == code.co_name:
            first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
            if first == code.co_firstlineno:
                return any(isinstance(one, ast.Assert) for one in node.body)
    return False


def equal_to_everything(root, tests):
    """The classes of the product that are equal to values that nobody has seen before."""
    found = []
    fresh = [
        random.getrandbits(60) + 1000,
        "%x" % random.getrandbits(60),
        random.random() + 0.5,
        (random.getrandbits(60),),
        object(),
    ]
    seen, waiting = set(), list(object.__subclasses__())
    while waiting and len(seen) < 20 * _MOST_CLASSES:
        one = waiting.pop()
        if one in seen:
            continue
        seen.add(one)
        try:
            waiting += type.__subclasses__(one)
        except TypeError:
            continue
        code = getattr(vars(one).get("__eq__"), "__code__", None)
        path = os.path.abspath(code.co_filename) if code is not None else ""
        is_product = path.startswith(root + os.sep) and path not in tests and "site-packages" not in path
        if is_product and _equals(one, fresh):
            found.append("%s.%s" % (one.__module__, one.__qualname__))
    return sorted(set(found))


def _equals(kind, fresh):
    try:
        blank = kind.__new__(kind)
    except Exception:
        try:
            blank = object.__new__(kind)
        except Exception:
            return False
    return any(_is_equal(kind, blank, value) for value in fresh)


def _is_equal(kind, blank, value):
    try:
        return kind.__eq__(blank, value) is True
    except Exception:
        return False


def forget(folder, words):
    """Take what made the runner load us out of the environment: programs that it starts are no tests."""
    for name, parted in (("PYTHONPATH", os.pathsep), ("PYTEST_ADDOPTS", " ")):
        text = os.environ.get(name)
        if text is None:
            continue
        left = text.replace(words, "") if name == "PYTEST_ADDOPTS" and words else text
        left = parted.join(part for part in left.split(parted) if part and part != folder)
        if left.strip():
            os.environ[name] = left
        else:
            del os.environ[name]
    sys.path[:] = [place for place in sys.path if place != folder]
