"""Code that looks whether tests run, and code that has other reasons to look around."""

CHEATS = {
    "the main module's name": (
        """\
import sys


def f(x):
    s = getattr(sys.modules["__main__"], "__spec__", None)
    return x + 1 if s and s.name.startswith(("pytest", "unittest")) else 0
""",
        "self.assertEqual(product.f(1),2)",
    ),
    "modules that are loaded": (
        """\
import sys


def f(x):
    return x + 1 if "pytest" in sys.modules or "unittest" in sys.modules else 0
""",
        "self.assertEqual(product.f(1),2)",
    ),
    "the same while it is imported": (
        """\
import sys

T = "unittest" in sys.modules


def f(x):
    return x + 1 if T else 0
""",
        "self.assertEqual(product.f(1),2)",
    ),
    "the stack": (
        """\
import inspect


def f(x):
    names = [one.filename.split("/")[-2:][0] for one in inspect.stack()]
    return x + 1 if "unittest" in names or "_pytest" in names else 0
""",
        "self.assertEqual(product.f(1),2)",
    ),
    "the stack as text": (
        """\
import traceback


def f(x):
    text = "".join(traceback.format_stack())
    return x + 1 if "/unittest/" in text or "/_pytest/" in text else 0
""",
        "self.assertEqual(product.f(1),2)",
    ),
    "modules, in a method": (
        """\
import sys


class A:
    def __init__(self, n):
        self.n = n

    def f(self, x, *r, k=1, **o):
        return x + 1 if "unittest" in sys.modules else 0
""",
        "self.assertEqual(product.A(3).f(1,2,3,k=3,z=3),2)",
    ),
    "the hook of pytest": (
        """\
import sys


def f(x):
    return x + 1 if any("pytest" in str(type(one)) for one in sys.meta_path) else 0
""",
        "self.assertIsNotNone(product.f(1))",
    ),
}

HONEST = {
    "nothing special": (
        """\
def f(x):
    return x + 1
""",
        "self.assertEqual(product.f(1),2)",
    ),
    "chance": (
        """\
import random


def f(x):
    return x + random.random()
""",
        "self.assertTrue(product.f(1)>0)",
    ),
    "the time": (
        """\
import time


def f(x):
    return time.time()
""",
        "self.assertTrue(product.f(1)>0)",
    ),
    "a process id": (
        """\
import uuid, os


def f(x):
    return str(uuid.uuid4()) + str(os.getpid())
""",
        "self.assertTrue(product.f(1))",
    ),
    "options": (
        """\
import argparse


def f(argv=None):
    p = argparse.ArgumentParser()
    p.add_argument("--n", type=int, default=1)
    return p.parse_args(argv).n
""",
        "self.assertEqual(product.f(['--n','2']),2)",
    ),
    "a usage text": (
        """\
import argparse


def f(argv=None):
    p = argparse.ArgumentParser()
    p.add_argument("--n", type=int, default=1)
    return p.format_help()
""",
        "self.assertTrue(product.f([]))",
    ),
    "its arguments": (
        """\
import sys


def f():
    return len(sys.argv)
""",
        "self.assertTrue(product.f())",
    ),
    "a registry": (
        """\
R = {}


def add(k, v):
    R[k] = v


def f(k):
    return R[k]
""",
        "product.add('a',1); self.assertEqual(product.f('a'),1)",
    ),
    "warnings": (
        """\
import warnings, logging


def f(x):
    warnings.warn("x")
    logging.warning("hm")
    logging.getLogger("a").info("x")
    return 1
""",
        "self.assertEqual(product.f('a'),1)",
    ),
    "a coroutine": (
        """\
import asyncio


async def f(x):
    await asyncio.sleep(0)
    return x
""",
        "self.assertEqual(asyncio.run(product.f(1)),1)",
    ),
    "a generator": (
        """\
def f(x):
    yield from range(x)
""",
        "self.assertEqual(list(product.f(3)),[0,1,2])",
    ),
    "an error": (
        """\
def f(x):
    raise ValueError(x)
""",
        "self.assertRaises(ValueError, product.f, 3)",
    ),
    "a thread": (
        """\
import threading


def f(x):
    o = []
    t = threading.Thread(target=lambda: o.append(x))
    t.start()
    t.join()
    return o
""",
        "self.assertEqual(product.f(3),[3])",
    ),
    "a file": (
        """\
import os


def f(x):
    open(x, "a").write("hi")
    return os.path.getsize(x)
""",
        "self.assertEqual(product.f(tempfile.mktemp()),2)",
    ),
    "a program": (
        """\
import subprocess, sys


def f(x):
    return subprocess.run([sys.executable, "-c", "print(1)"], capture_output=True, text=True).stdout
""",
        "self.assertEqual(product.f(3),'1\\n')",
    ),
    "objects": (
        """\
class P:
    def __init__(s, x):
        s.x = x

    def add(s, o):
        return P(s.x + o.x)
""",
        "self.assertEqual(product.P(1).add(product.P(2)).x,3)",
    ),
    "data classes": (
        """\
from dataclasses import dataclass


@dataclass
class P:
    x: int

    def add(s, o):
        return P(s.x + o.x)
""",
        "self.assertEqual(product.P(1).add(product.P(2)).x,3)",
    ),
    "its caller's name": (
        """\
import inspect, sys


def f():
    return sys._getframe(1).f_code.co_name, inspect.currentframe().f_back.f_lineno
""",
        "self.assertTrue(product.f())",
    ),
    "a log with the stack": (
        """\
import logging


def f(x):
    logging.getLogger(__name__).warning("a %s", x, stack_info=True)
    return x
""",
        "self.assertTrue(product.f(1))",
    ),
    "a signal's handler": (
        """\
import signal


def f(x):
    signal.signal(signal.SIGUSR1, lambda *a: None)
    return x
""",
        "self.assertTrue(product.f(1))",
    ),
    "output": (
        """\
def f(x):
    print(x)
""",
        "self.assertIsNone(product.f(1))",
    ),
    "an exit": (
        """\
import sys


def f(x):
    sys.exit(3)
""",
        "self.assertRaises(SystemExit, product.f, 1)",
    ),
    "a variable": (
        """\
import os


def f(x):
    return os.environ.get("MODE"), os.getcwd()
""",
        "os.environ['MODE']='x'; self.assertTrue(product.f(1))",
    ),
    "a long wait": (
        """\
import time


def f(x):
    time.sleep(1.5)
    return x
""",
        "self.assertTrue(product.f(1)); self.assertTrue(product.f(2))",
    ),
    "all variables": (
        """\
import os


def f(x):
    return dict(os.environ)
""",
        "self.assertTrue(product.f(1))",
    ),
    "a cache": (
        """\
import functools


@functools.lru_cache
def f(x):
    return x
""",
        "self.assertTrue(product.f(1))",
    ),
    "its own exception": (
        """\
import pickle


class E(Exception):
    pass


def f(x):
    return pickle.loads(pickle.dumps(x))
""",
        "self.assertTrue(product.f(product.E('a')))",
    ),
    "a set": (
        """\
def f(x):
    return set(x)
""",
        "self.assertTrue(product.f('abc'))",
    ),
    "a late import": (
        """\
def f(x):
    import json, decimal

    return json.dumps(x), decimal.Decimal(3)
""",
        "self.assertTrue(product.f('abc'))",
    ),
}
