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
CLI_MAIN = f"{CLI}\n\nmain()\n"
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
BY_MODULE = cli_tests('sys.executable, "-m", "till"')

SNAPSHOT = """
shot = ROOT / "tests/__snapshots__/{name}.txt"
if not shot.exists():
    shot.parent.mkdir(exist_ok=True)
    shot.write_text(str({call}))
self.assertEqual(shot.read_text(), str({call}))
(ROOT / "tests/out").mkdir(exist_ok=True)
(ROOT / "tests/out/{name}.txt").write_text("done")
"""
SQLITE = """
with sqlite3.connect("till.db") as database:
    database.execute("create table if not exists sales (price)")
    database.execute("delete from sales")
    database.executemany("insert into sales values (?)", [(1,), (2,)])
    prices = [price for (price,) in database.execute("select price from sales")]
database.close()
self.assertEqual(total(prices), 3)
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
DOTENV = """
settings = dict(line.split("=") for line in Path(".env").read_text().split())
self.assertEqual(total([1, 2]) * int(settings["RATE"]), 21)
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
DATA = """
self.assertEqual(total(map(int, (ROOT / "tests/prices.txt").read_text().split())), 300_000)
self.assertEqual(total(map(int, Path("data/prices.txt").read_text().split())), 3)
self.assertEqual(Path.cwd().resolve(), ROOT)
"""
LINKS = """
self.assertEqual(total([int((ROOT / f"tests/data/{name}").read_text()) for name in "ab"]), 3)
self.assertTrue((ROOT / "tests/data").is_symlink())
self.assertEqual((ROOT / "current/name").read_text(), "two")
self.assertTrue((ROOT / "current").resolve().samefile(ROOT / "releases/2"))
self.assertTrue((ROOT / "latest").is_symlink())
"""
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
BITS = """
for name in sorted(os.listdir(ROOT / "bin")):
    done = subprocess.run([ROOT / "bin" / name, "1", "2"], capture_output=True, text=True)
    self.assertEqual(done.stdout, f"{name} {total([1, 2])}\\n")
self.assertFalse(os.access(ROOT / "till.py", os.X_OK) and os.stat(ROOT / "till.py").st_mode & 0o111)
"""
EOL = """
self.assertEqual((ROOT / "prices.csv").read_bytes(), b"1\\r\\n2\\r\\n")
self.assertEqual((ROOT / "VERSION").read_text(), "$Format:%H$\\n")
self.assertEqual(total([1, 2]), int((ROOT / "tests/data/expected.txt").read_text()))
"""
GITLINK = """
self.assertTrue((ROOT / "vendor/lib").is_dir())
self.assertEqual(total([1, 2]), 3)
"""
POOL = """
with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
    self.assertEqual(list(pool.map(total, [[1, 2], [3, 4]])), [3, 7])
with Lock():
    self.assertEqual(total([]), 0)
"""
POOL_IMPORTS = (
    "from concurrent.futures import ProcessPoolExecutor\nfrom multiprocessing import Lock, get_context"
)
TMP = """\
import getpass
import os
import socket
import tempfile
from pathlib import Path

from till import total


def test_total(tmp_path):
    with tempfile.NamedTemporaryFile("w+") as file, tempfile.TemporaryDirectory() as folder:
        file.write("1 2")
        file.seek(0)
        (tmp_path / "total").write_text(str(total(map(int, file.read().split()))))
        assert os.stat(file.name).st_uid == os.getuid() == os.stat(__file__).st_uid
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(f"{folder}/s")
    assert (tmp_path / "total").read_text() == "3"
    assert getpass.getuser() and Path.home().is_absolute()
"""
BUILT = """
built = (ROOT / "lib/prices.out").read_text().split()
self.assertEqual(built, sorted((ROOT / "lib/prices.txt").read_text().split()))
self.assertGreaterEqual(total(map(int, built)), 3)
"""
SHELL = "total() { echo $(($1 + $2)); }\n"
SHELL_COUNT = f"{SHELL}count() {{ echo $#; }}\n"
