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
        if event == "exec" and getattr(words[0], "co_filename", None) in hidden:
            _keep_to_itself(words[0].co_filename, root, hidden, frame_of)
        if event == "open":
            refuse(words[0], frame_of(1))

    def is_hidden(place, frame):
        if not isinstance(place, (str, bytes, os.PathLike)):
            return False
        name = os.fsdecode(place)
        path = os.path.abspath(name)
        is_near = not os.path.isabs(name) and os.getcwd() != root  # a test has gone to where it is
        return path in hidden and not is_near and _looks_around(frame, path, root, hidden)

    def refuse(place, frame):
        if is_hidden(place, frame):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), os.fsdecode(place))

    sys.addaudithook(watch)
    _hide_names(is_hidden, refuse, frame_of)
    _hide_values(root, hidden, frame_of)


def _hide_values(root, hidden, frame_of):
    """Show the product no values of tests: in frames, and among all objects."""

    def look_back(depth=0):
        asker = _nearest(frame_of(1), root)
        frame = frame_of(depth + 1)
        return frame if asker is None or asker in hidden else _HiddenFrame.around(frame, hidden, root)

    def without_tests(look):
        def looked(*words):
            owned = {id(value) for one in _modules_of(hidden) for value in _own_values(one).values()}
            return [one for one in look(*words) if id(one) not in owned and not _is_of(one, hidden)]

        return looked

    sys._getframe = look_back
    for name in ("get_objects", "get_referrers"):
        setattr(gc, name, without_tests(getattr(gc, name)))


def _hide_names(is_hidden, refuse, frame_of):
    """Name no hidden file, and say nothing about one."""
    facts, listed, scanned = os.stat, os.listdir, os.scandir

    def stat(path, *words, **options):
        refuse(path, frame_of(1))
        return facts(path, *words, **options)

    def listdir(path="."):
        names, frame = listed(path), frame_of(1)
        folder = "" if isinstance(path, int) else os.fsdecode(path)
        return [one for one in names if not is_hidden(os.path.join(folder, os.fsdecode(one)), frame)]

    def scandir(path="."):
        entries, frame = scanned(path), frame_of(1)
        folder = "" if isinstance(path, int) else os.fsdecode(path)
        return _Entries(
            entries, lambda one: not is_hidden(os.path.join(folder, os.fsdecode(one.name)), frame)
        )

    os.stat, os.listdir, os.scandir = stat, listdir, scandir


class _Entries:
    """What is in a folder, as far as it is shown."""

    def __init__(self, entries, is_shown):
        self._entries, self._is_shown = entries, is_shown

    def __iter__(self):
        return self

    def __next__(self):
        return next(one for one in self._entries if self._is_shown(one))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Close what reads it."""
        self._entries.close()


def _is_of(one, hidden):
    """Return whether something is a module of the tests, or a function."""
    kind = type(one).__name__
    if kind == "module":
        place = vars(one).get("__file__")
    elif kind in ("function", "method"):
        place = one.__code__.co_filename
    elif kind == "dict":
        place = one.get("__file__")
    else:
        place = one.co_filename if kind == "code" else None
    return isinstance(place, str) and os.path.abspath(place) in hidden


def _modules_of(files):
    """The modules that are loaded from these files."""
    return [one for one in list(sys.modules.values()) if getattr(one, "__file__", None) in files]


def _own_values(module):
    """Return what a module has in its name space, but for functions, classes and modules."""
    values = object.__getattribute__(module, "__dict__")
    usual = ("type", "function", "module", "builtin_function_or_method")
    return {
        name: value
        for name, value in values.items()
        if not name.startswith("__") and type(value).__name__ not in usual
    }


def _keep_to_itself(file, root, hidden, frame_of):
    """Let the product see no values of a module of the tests, unless a test has told it the name."""

    class Module(type(sys)):
        def __getattribute__(self, name):
            inherited = super().__getattribute__
            if name.startswith("__") and name != "__dict__":
                return inherited(name)
            asker = _nearest(frame_of(1), root)
            if asker is None or asker in hidden or _is_told(frame_of(1), inherited("__name__"), hidden):
                return inherited(name)
            own = _own_values(self)
            if name == "__dict__":
                return {key: value for key, value in inherited(name).items() if key not in own}
            if name in own:
                raise AttributeError("module %r has no attribute %r" % (inherited("__name__"), name))
            return inherited(name)

    Module.__name__ = Module.__qualname__ = "module"
    for module in _modules_of({file}):
        with contextlib.suppress(TypeError):  # it has a class of its own
            module.__class__ = Module


def _is_told(frame, name, hidden):
    """Return whether a test, or the environment, has given the product the name of a module."""
    inner, known = None, list(os.environ.values())
    while frame is not None:
        if os.path.abspath(frame.f_code.co_filename) in hidden:
            known += [*frame.f_code.co_consts, *frame.f_locals.values()]
            known += inner.f_locals.values() if inner is not None else ()
            break
        inner, frame = frame, frame.f_back
    return any(part == name for value in known for part in _with_parts(value) if isinstance(part, str))


def _nearest(frame, root):
    """The first file of the project on the way out."""
    while frame is not None:
        file = os.path.abspath(frame.f_code.co_filename)
        is_frozen = frame.f_code.co_filename.startswith(
            "<frozen"
        )  # runpy starts the runner, and has no place
        if file.startswith(root + os.sep) and "site-packages" not in file and not is_frozen:
            return file
        frame = frame.f_back
    return None


def _called_as(frame, name, other):
    """Return another name than that of a test, unless the test has its name among its values."""
    known = [part for value in frame.f_code.co_consts for part in _with_parts(value)]
    return name if name in known or str(name).startswith("<") else other


def _without_names(frame, root):
    """Return the code of a test without its constants and what tells that it is one."""
    code = frame.f_code
    name = _called_as(frame, code.co_name, "call")
    facts = {"co_name": name, "co_qualname": name, "co_consts": (None,) * len(code.co_consts)}
    facts["co_filename"] = os.path.join(root, "app.py")
    return code.replace(**{name: value for name, value in facts.items() if hasattr(code, name)})


class _HiddenFrame:
    """A frame as its code sees it, without the values and the names in the frames of tests."""

    __class__ = type(sys._getframe())

    def __init__(self, frame, hidden, root):
        self._frame, self._hidden, self._root = frame, hidden, root

    @classmethod
    def around(cls, frame, hidden, root):
        """The frame itself where no test is among its callers."""
        one = frame
        while one is not None:
            if os.path.abspath(one.f_code.co_filename) in hidden:
                return cls(frame, hidden, root)
            one = one.f_back
        return frame

    def __getattr__(self, name):
        frame, hidden = self._frame, self._hidden
        if name == "f_back":
            return frame.f_back and _HiddenFrame.around(frame.f_back, hidden, self._root)
        if os.path.abspath(frame.f_code.co_filename) in hidden:
            if name in ("f_locals", "f_globals"):
                return {"__name__": _called_as(frame, frame.f_globals.get("__name__"), "app")}
            if name == "f_code":
                return _without_names(frame, self._root)
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
