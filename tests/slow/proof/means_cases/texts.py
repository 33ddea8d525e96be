"""The tests in the honest projects: what each asks of the place where it runs."""

from __future__ import annotations

from tests.proof.projects import Files


def write_test(body: str, imports: str = "") -> str:
    """Return a test of the product with these lines."""
    lines = "\n".join(f"        {line}".rstrip() for line in body.strip().splitlines())
    return f"""\
import os
import subprocess
import sys
import unittest
from pathlib import Path
{imports}
from till import total

ROOT = Path(__file__).resolve().parent.parent


class TotalTest(unittest.TestCase):
    def test_total(self):
{lines}
"""


CLI = """\
import sys

import till


def main():
    command, *prices = sys.argv[1:]
    print(getattr(till, command)([int(price) for price in prices]))
"""
MEAN_CLI_TEST = write_test(
    """
    done = subprocess.run([*PROGRAM, "mean", "2", "4"], cwd=ROOT, capture_output=True, text=True)
    self.assertEqual(done.stdout, "3.0\\n", done.stderr)
    """.replace("\n    ", "\n")
)


def cli_tests(program: str) -> tuple[Files, Files]:
    """Return the tests of the base and of the agent that start the project's own program."""
    mean = MEAN_CLI_TEST.replace("*PROGRAM", program)
    return (
        {"tests/test_total.py": mean.replace('"mean"', '"total"').replace('"3.0', '"6')},
        {"tests/test_mean.py": mean},
    )


BY_SCRIPT = cli_tests('Path(sys.executable).with_name("till")')

SNAPSHOT = """
shot = ROOT / "tests/__snapshots__/{name}.txt"
if not shot.exists():
    shot.parent.mkdir(exist_ok=True)
    shot.write_text(str({call}))
self.assertEqual(shot.read_text(), str({call}))
(ROOT / "tests/out").mkdir(exist_ok=True)
(ROOT / "tests/out/{name}.txt").write_text("done")
"""
GIT = """
def git(*words):
    return subprocess.check_output(["git", *words], cwd=ROOT, text=True).strip()
self.assertEqual(git("describe", "--tags", "--abbrev=0"), "v1.0")
self.assertEqual(git("log", "-1", "--format=%an"), "A")
self.assertIn("till.py", git("ls-files").splitlines())
self.assertEqual(Path(git("rev-parse", "--show-toplevel")).resolve(), ROOT)
self.assertEqual(total([1, 2]), 3)
"""
SERVER = """
class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        body = str(total([1, 2])).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *words):
        pass
with HTTPServer(("127.0.0.1", 0), Handler) as server:
    threading.Thread(target=server.serve_forever, daemon=True).start()
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    answer = opener.open(f"http://localhost:{server.server_port}/", timeout=10).read()
    server.shutdown()
self.assertEqual(answer, b"3")
"""
SERVER_IMPORTS = (
    "import threading\nimport urllib.request\nfrom http.server import BaseHTTPRequestHandler, HTTPServer"
)
ODD_NAMES = (
    "two words.txt",
    "naïve ☕.txt",
    "line\nbreak.txt",
    "-dash.txt",
    "\"quote'.txt",
    "back\\slash.txt",
)
ODD = """
files = {path.name: path.read_text() for path in (ROOT / "data").iterdir()}
for name in NAMES:
    self.assertEqual(files[name], "1")
self.assertEqual(total(map(int, files.values())), len(files))
""".replace("NAMES", repr(ODD_NAMES))
EOL = """
self.assertEqual((ROOT / "prices.csv").read_bytes(), b"1\\r\\n2\\r\\n")
self.assertEqual((ROOT / "VERSION").read_text(), "$Format:%H$\\n")
self.assertEqual(total([1, 2]), int((ROOT / "tests/data/expected.txt").read_text()))
"""
