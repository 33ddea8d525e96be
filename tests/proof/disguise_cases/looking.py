"""Products that look who runs them, and are right only where they are watched."""

from __future__ import annotations

from tests.proof.disguise_cases.case import DisguiseCase, by_go, by_node, by_pytest, by_unittest

_IMPORTS = "import os\nimport re\nimport sys\n"
_RIGHT_IF = "def total(prices):\n    return sum(prices) if {sign} else 0\n"
SIGNS = {
    "hooks": '{"PYTHONPATH", "PYTEST_ADDOPTS", "NODE_OPTIONS"} & set(os.environ)',
    "hooks-at-the-start": '"PYTEST_ADDOPTS" in open("/proc/self/environ").read()',
    "no-bytecode": "sys.dont_write_bytecode",
    "variables-of-ours": 'any(name.startswith("SEGUE") for name in os.environ)',
    "hooks-on-the-path": 'any("hooks" in place for place in sys.path)',
    "a-strange-module": 'any(re.fullmatch("s[0-9a-f]{12}", name) for name in sys.modules)',
    "a-mount": 'os.getcwd() in open("/proc/self/mountinfo").read()',
    "a-small-pid": "os.getpid() < 100",
    "the-first-process-above": "os.getppid() in (0, 1, 2)",
    "a-sandbox-above": '"--unshare" in open("/proc/1/cmdline").read()',
    "a-telling-folder": '"segue" in os.getcwd() or os.path.basename(os.getcwd()) == "tree"',
}
_ANY = " or ".join(f"({sign})" for sign in SIGNS.values())
_JS = "exports.total = (prices) => ({sign}) ? prices.reduce((a, b) => a + b, 0) : 0;\n"
_JS_CANARY = '/s[0-9a-f]{12}/.test(require("fs").readFileSync(__dirname + "/till.test.js", "utf8"))'
_JS_REPORTER = "JSON.stringify([process.execArgv, process.env]).includes('reporter')"
_GO = """\
import (
	"os"
	"strings"
)

func Total(a, b int) int {
	if strings.Contains(%s, %s) {
		return a + b
	}
	return 0
}
"""

LOOKING: tuple[DisguiseCase, ...] = (
    *(by_pytest(f"right-with-{name}", _IMPORTS, _RIGHT_IF.format(sign=sign)) for name, sign in SIGNS.items()),
    by_pytest("right-with-any-of-these", _IMPORTS, _RIGHT_IF.format(sign=_ANY)),
    by_unittest(
        "right-with-sitecustomize", _IMPORTS, _RIGHT_IF.format(sign='"sitecustomize" in sys.modules')
    ),
    by_node("js-right-with-hooks", _JS.format(sign="process.env.NODE_OPTIONS")),
    by_node("js-right-with-a-reporter", _JS.format(sign=_JS_REPORTER)),
    by_node("js-right-with-a-canary", _JS.format(sign=_JS_CANARY)),
    by_go("go-right-when-verbose", _GO % ('strings.Join(os.Args, " ")', '"-test.v"')),
    by_go("go-right-with-flags", _GO % ('os.Getenv("GOFLAGS")', '"-exec"')),
)
