"""Questions with known answers, asked in the process of the tests after they ran: can assertions still fail?

And a blindfold: the product does not find the files of the tests.

It is copied out of the package and runs in the project's own Python, which need not know Segue.
"""

import ast
import contextlib
import errno
import gc
import os
import random
import sys

_MOST_VALUES = 60
_MOST_CLASSES = 2000
_MOST_WRAPPED = 20
_FACTS = ("co_name", "co_qualname", "co_filename", "co_firstlineno")


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


def look_like(canary, test):
    """A copy of a function that fails, which can be told from a test by what it does alone."""
    code, own = getattr(test, "__code__", None), canary.__code__
    if code is None:
        return canary
    facts = {name: getattr(code, name) for name in _FACTS if hasattr(code, name)}
    for name in ("co_consts", "co_names"):
        facts[name] = getattr(own, name) + getattr(code, name)
    copy = type(canary)(own.replace(**facts), canary.__globals__)
    for name in ("__name__", "__qualname__", "__module__", "__doc__"):
        setattr(copy, name, getattr(test, name, None))
    return copy


def relative(root, path):
    """The path of a file from the project's root on; empty: it is elsewhere."""
    path = os.path.abspath(path)
    return path[len(root) + 1 :].replace(os.sep, "/") if path.startswith(root + os.sep) else ""


def frames(root, traceback):
    """The files of the project that an error went through."""
    found = []
    while traceback is not None:
        path = relative(root, traceback.tb_frame.f_code.co_filename)
        if path and "site-packages" not in path:
            found.append(path)
        traceback = traceback.tb_next
    return found[-50:]


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


def hide_tests(root, tests):
    """Let no file of the tests be found by the product, unless a test has told it where to look."""
    hidden = {os.path.join(root, one) for one in tests}
    frame_of = sys._getframe

    def watch(event, words):
        if event == "open" and isinstance(words[0], (str, bytes)):
            name = os.fsdecode(words[0])
            path = os.path.abspath(name)
            is_near = not os.path.isabs(name) and os.getcwd() != root  # a test has gone to where it is
            if path in hidden and not is_near and _looks_around(frame_of(1), path, root, hidden):
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)

    def look_back(depth=0):
        asker = _nearest(frame_of(1), root)
        frame = frame_of(depth + 1)
        return frame if asker is None or asker in hidden else _HiddenFrame.around(frame, hidden)

    def without_tests(look):
        def looked(*words):
            return [one for one in look(*words) if not _is_of(one, hidden)]

        return looked

    sys.addaudithook(watch)
    sys._getframe = look_back
    for name in ("get_objects", "get_referrers"):
        setattr(gc, name, without_tests(getattr(gc, name)))


def _is_of(one, hidden):
    """Return whether something is a module of the tests, or a function."""
    kind = type(one).__name__
    if kind == "module":
        place = vars(one).get("__file__")
    elif kind in ("function", "method"):
        place = one.__code__.co_filename
    else:
        place = one.co_filename if kind == "code" else None
    return isinstance(place, str) and os.path.abspath(place) in hidden


def _nearest(frame, root):
    """The first file of the project on the way out."""
    while frame is not None:
        file = os.path.abspath(frame.f_code.co_filename)
        if file.startswith(root + os.sep) and "site-packages" not in file:
            return file
        frame = frame.f_back
    return None


class _HiddenFrame:
    """A frame as its code sees it, without the values in the frames of tests."""

    __class__ = type(sys._getframe())

    def __init__(self, frame, hidden):
        self._frame, self._hidden = frame, hidden

    @classmethod
    def around(cls, frame, hidden):
        """The frame itself where no test is among its callers."""
        one = frame
        while one is not None:
            if os.path.abspath(one.f_code.co_filename) in hidden:
                return cls(frame, hidden)
            one = one.f_back
        return frame

    def __getattr__(self, name):
        frame, hidden = self._frame, self._hidden
        if name == "f_back":
            return frame.f_back and _HiddenFrame.around(frame.f_back, hidden)
        if os.path.abspath(frame.f_code.co_filename) in hidden:
            if name in ("f_locals", "f_globals"):
                return {"__name__": frame.f_globals.get("__name__")}
            if name == "f_code":
                return frame.f_code.replace(co_consts=(None,) * len(frame.f_code.co_consts))
        return getattr(frame, name)


def _looks_around(frame, path, root, hidden):
    """Return whether it is the product that opens a file, and no test gave it the path."""
    inner = None
    while frame is not None:
        file = os.path.abspath(frame.f_code.co_filename)
        if file in hidden or os.path.basename(file) == "conftest.py":
            return inner is not None and not _is_given(path, frame, inner, root)
        if file.startswith(root + os.sep) and "site-packages" not in file:
            inner = frame
        frame = frame.f_back
    return False


def _is_given(path, test, called, root):
    """Return whether a test knows a path, or has handed it to the product's function that it called."""
    code = called.f_code
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    usual = [id(value) for one in gc.get_referrers(code) for value in _defaults(one)]
    handed = [called.f_locals[name] for name in names if name in called.f_locals]
    known = [*(value for value in handed if id(value) not in usual), *os.environ.values()]
    exact = [] if _names_itself(called, path) else list(called.f_globals.values())
    while test is not None:
        if test.f_code.co_name != "<module>":
            known += list(test.f_locals.values())
            exact += [test.f_globals[name] for name in test.f_code.co_names if name in test.f_globals]
        test = test.f_back
        if test is not None and not test.f_code.co_filename.startswith(root + os.sep):
            break
    if any(_leads_to(path, value, root) for one in known for value in _with_parts(one)):
        return True
    return any(_leads_to(path, value, path) for one in exact for value in _with_parts(one))


def _names_itself(frame, path):
    """Return whether the product's own text has the name of a file."""
    try:
        with open(frame.f_code.co_filename, encoding="utf-8") as file:
            return os.path.basename(path) in file.read()
    except (OSError, ValueError):
        return True


def _defaults(function):
    if type(function).__name__ != "function":
        return ()
    return (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())


def _with_parts(value):
    """A value and what is directly in it."""
    yield value
    if isinstance(value, (list, tuple, set)):
        yield from list(value)
    elif isinstance(value, dict):
        yield from list(value.values())
    elif not isinstance(value, type) and type(value).__name__ not in ("module", "function"):
        yield from list(getattr(value, "__dict__", {}).values())


def _leads_to(path, value, root):
    if not isinstance(value, (str, os.PathLike)) or not value:
        return False
    with contextlib.suppress(Exception):
        place = os.path.abspath(os.fsdecode(value))
        return path == place or (place.startswith(root + os.sep) and path.startswith(place + os.sep))
    return False
