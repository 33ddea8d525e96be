"""What differs in comments only runs as before; what looks like a comment may be code."""

from __future__ import annotations

import pytest

from segue.domain.comments import differ_in_comments

SAME = {
    "a.ts": ("let a = 1; // one\n", "let a = 1; // first\n"),
    "b.js": ("/* a */ go('x // y');\n", "/* b */ go('x // y');\n"),
    "d.sh": ("# one\nif [[ $1 == 'a # b' ]]; then x | y; fi\n", "if [[ $1 == 'a # b' ]]; then x | y; fi\n"),
    "e.rb": ("xs.each do |x|\n  go x # one\nend\n", "xs.each do |x|\n  go x # two\nend\n"),
}
OTHER = {
    "an address in a style": ("a.scss", "a { b: url(http://x/old.png) }", "a { b: url(http://x/new.png) }"),
    "an expression": ("a.js", "x = /[/*]/; safe(); /* c */", "x = /[/*]/; evil(); /* c */"),
    "an escaped slash": ("a.js", "x = /\\//; safe()", "x = /\\//; evil()"),
    "words of a page": ("a.jsx", "<p>a // b</p>", "<p>a // c</p>"),
    "a text of several lines": ("a.kt", 'x = """\n// a\n"""', 'x = """\n// b\n"""'),
    "a quoted text of several lines": ("a.sh", "echo '\n# a\n'", "echo '\n# b\n'"),
    "a block of YAML": ("a.yml", "text: |\n  # a\n", "text: |\n  # b\n"),
    "a text in SQL": ("a.sql", "insert into t values ('\n-- a\n')", "insert into t values ('\n-- b\n')"),
}


@pytest.mark.parametrize("path", SAME)
def test_comments_do_nothing(path: str) -> None:
    assert differ_in_comments(path, *SAME[path])


@pytest.mark.parametrize("name", OTHER)
def test_code_is_not_taken_for_a_comment(name: str) -> None:
    assert not differ_in_comments(*OTHER[name])
