"""The words by which kinds of tasks are distinguished, as patterns."""

from __future__ import annotations

import re


def words(phrases: str, before: str = r"\b", after: str = r"\b") -> re.Pattern[str]:
    """Return the pattern of phrases that are separated by ` | `: whole words, in any case."""
    every = [phrase.strip() for phrase in phrases.split(" | ")]
    text = "|".join(phrase.replace(" ", r"\s+") for phrase in every)
    return re.compile(f"{before}(?:{text}){after}", re.IGNORECASE | re.DOTALL)


# What the author says.
KIND_LINE = re.compile(r"^[\s>*_+`-]*kind[\s*_`]*[:=][\s*_`]*([\w/ -]{1,40}?)[\s*_`.]*$", re.IGNORECASE)
KIND_LABEL = re.compile(r"[(\[]\s*kind\s*[:=]\s*([\w/ -]{1,40}?)\s*[)\]]", re.IGNORECASE)
CODE_FENCE = re.compile(r"\s*(?:```|~~~)")

# Files.
SOURCE_FILE = re.compile(
    r"(?<![\w.-])(?:[\w@.()\[\]-]+/)*[\w@()\[\]-][\w@.()\[\]-]*\.(?:py|pyi|ts|tsx|js|jsx|mjs|cjs|go|rs|java"
    r"|kts?|swift|cs|fs|cpp|cc|c|h|hpp|rb|php|vue|svelte|astro|dart|scala|clj|exs?|erl|lua|sql|prisma|html"
    r"|s?css|sass|less|sh|ps1|zig|tf|el|r|jl|proto|graphql)\b"
    r"|\b(?:src|lib|app|pkg|internal|cmd|server|client)/[\w./-]+"
)
FRAMEWORK = words(
    "node | next | nuxt | vue | react | express | three | chart | d3 | nest | discord | socket",
    after=r"\.(?:js|io)\b",
)
"""Names that only look like a file."""
TEST_FILE = re.compile(
    r"(?:^|[\s(`/])(?:tests?|__tests__|specs?|e2e|cypress)/|test_|_test\.|\.tests?\.|\.spec\.|Tests?\.\w+\b",
    re.IGNORECASE,
)
DOCS_FILE = re.compile(
    r"(?<![\w/.-])(?:(?:[\w.-]+/)*(?:README|CHANGELOG|CONTRIBUTING|LICENSE|SECURITY|AGENTS"
    r"|CLAUDE)(?:\.\w+)?\b"
    r"|[\w./-]+\.(?:md|mdx|rst|adoc|toml|ini|cfg)\b|(?:[\w.-]+/)*docs/[\w./-]*"
    r"|[\w.-]+\.config\.(?:js|ts|mjs|cjs|json)|(?:tsconfig[\w.]*|package)\.json"
    r"|(?:docker-)?compose[\w.-]*\.ya?ml|Dockerfile|Makefile|CODEOWNERS|\.vscode/[\w./-]+"
    r"|\.(?:env|git|editor|prettier|eslint|npm|nvm|docker|pre-commit|stylelint|markdownlint|ruff|flake8"
    r"|pylint)"
    r"[\w./-]*)(?![\w/])",
    re.IGNORECASE,
)
"""Documents, and settings of tools."""
REFERS_TO = words(
    "described | defined | specified | documented | listed | outlined | shown | stated | given | found"
    " | per | see"
    " | from | following | follows | matching | based on | according to | using | with | against | by",
    after=r"\s+(?:(?:in|the|to|on)\s+)*$",
)
"""What precedes a file that a task does not change."""

# A person.
_BY_HAND = (
    r"manual(?:ly)?\s+(?:\w+[\s/-]+){0,2}?(?:qa|tests?|testing|verification|validation|checks?|checklist"
    r"|review"
    r"|inspection|walk-?through|smoke|e2e|end-to-end|acceptance|audit)\b"
)
HUMAN_LABEL = re.compile(r"\[(?:human|manual)\]", re.IGNORECASE)
HUMAN = (
    re.compile(rf"(?:\w+\s+)?{_BY_HAND}|manually\s", re.IGNORECASE),
    words(
        "ask | interview | consult | check with | talk to | call | email | meet with | coordinate with",
        after=r"\s+(?:(?:the|an?|our)\s+)?(?:[\w-]+\s+)?(?:customers?|clients?|users?|stakeholders?|team"
        r"|product owner|designers?|legal|management|owner|reviewers?|experts?)\b",
    ),
    words(
        "get | obtain | request | seek | await | wait for | collect | secure | receive",
        after=r"\b.{0,60}?(?<!/)\b(?:approvals?(?!\s+(?:status|state|flow|workflow|requests?)\b)|sign-?off"
        r"|(?:permission|feedback|confirmation|answers?|decision|input)\s+from)\b",
    ),
    words(
        "conduct | perform | hold | do | run | schedule",
        after=r"\s+(?:\w+\s+)?(?:user acceptance test\w*|uat|usability test\w*|user interviews?|user research"
        r"|demo (?:for|with)|meeting)\b",
    ),
)
"""How tasks for a person begin."""
TRIES_OUT = words(
    "run | execute | verify | validate | check | confirm | test | perform | conduct | complete | do"
)
DONE_BY_HAND = re.compile(
    rf"(?<!without )(?<!no )(?:{_BY_HAND}|\bby hand\b"
    r"|\bmanually\b(?! (?:created|added|entered|triggered|run|set)))",
    re.IGNORECASE,
)

# A test that fails now.
_WRITE = r"(?:write|add|create|implement|develop|author|define|extend)\b"
_FAILS = r"\b(?:expect(?:ed)?(?:\s+to)?|must|should|will)\s+(?:all\s+)?fail\b"
FAILING_TEST = re.compile(
    rf"{_WRITE}\s+(?:(?:an?|the|some|new|more|initial|first|unit|integration|contract|e2e)\s+)*failing\b"
    rf"|(?:[\w/-]+\s+){{0,4}}(?:tests?|specs?)\b.*{_FAILS}|(?:tdd|red)\s*[:—–-]\s*\S",
    re.IGNORECASE | re.DOTALL,
)
RED_LABEL = re.compile(r"\[(?:red|test-first|tdd)\]", re.IGNORECASE)
TESTS_MUST_FAIL = re.compile(rf"\btests?\b[^.\n]{{0,40}}{_FAILS}", re.IGNORECASE)
WRITES_TEST = re.compile(
    rf"(?=.*(?:\b(?:tests?|specs?|testing)\b|{TEST_FILE.pattern}))"
    rf"(?:{_WRITE}|(?:[\w/-]+\s+){{0,4}}(?:tests?|specs?)\b)",
    re.IGNORECASE,
)
SUPPORTS_TESTS = re.compile(
    r"(?!.*\btests? (?:for|of|that)\b)"
    r"(?:create|add|set\s?up|configure|install|prepare|implement|build|write|provide|generate)\b.*"
    r"\b(?:fixtures?|helpers?|harness|framework|infrastructure|factory|factories|mocks?|stubs?|conftest"
    r"|builders?"
    r"|test (?:data|utilities|utils|database|environment|runner|config\w*|setup))\b",
    re.IGNORECASE,
)
TESTS_FIRST = re.compile(
    r"\btests?\b.*\b(?:first|fail\w*|tdd|red|before)\b|\btdd\b.*\btests?\b|\btest-first\b",
    re.IGNORECASE | re.DOTALL,
)
"""What headings and notes say above tests that come before the implementation."""

# Nothing needs to change.
RUN = re.compile(
    r"(?:(?:final(?:ly)?|full|complete)[:,]?\s+)?(?:re-?)?(?:run|execute)(?![\w-])\s+(.*)",
    re.IGNORECASE | re.DOTALL,
)
VERIFY = re.compile(
    r"(?:final(?:ly)?[:,]?\s+)?(?:re-?)?(verify|confirm|validate|(?:double-)?check)(?![\w-])[:\s]+(.*)",
    re.IGNORECASE | re.DOTALL,
)
FINAL_RUN = re.compile(
    r"(?:final|full|complete)\s+(?:\w+\s+)?(?:test run|verification|validation|regression (?:test|run"
    r"|check)\w*)\b",
    re.IGNORECASE,
)
LOOK = words("review | audit | inspect | measure | profile | benchmark | analy[sz]e")
NO_CHANGE = words(
    "no (?:code |source |file )*changes? | do(?: not|n't) (?:change|edit|modify) | change nothing"
    " | without (?:changing|modifying) | read-only | report only"
)
SHOWS_RESULT = words(
    r"quick-?start | test suites? | tests? (?:pass|run|still|are green) | regressions? | checklist"
    r" | constitution"
    r" | (?:acceptance|success) (?:criteria|scenarios?) | (?:sc|fr|nfr|ac)-\d+ | definition of done"
    r" | quality gates?"
    r" | t\d{3,}\w* (?:pass\w*|tests?)"
    r" | (?:all|full|every|existing|complete|entire|whole|unit|integration|e2e"
    r"|end-to-end|contract|regression|smoke|acceptance|backend|frontend)\b[^.;]{0,40}\btests?"
)
"""What a task names that is about results."""
MEASURES = words(
    r"lint\w* | type-?check\w* | static analysis | mypy | pyright | tsc | eslint | ruff check | clippy"
    r" | pytest | jest"
    r" | vitest | ctest | coverage | benchmarks? | lighthouse | security scan | validation | verification"
    r" | smoke"
    r" | ci pipeline | full (?:build|gate|ci) | (?:npm|pnpm|yarn|bun|go|cargo|dotnet|make|swift|mix|flutter)"
    r" (?:run )?(?:\w+:)*(?:test|lint|build|check|typecheck|vet|verify|validate|audit)"
)
"""Tools that only look."""
STATES_FACT = words(
    r"works? | pass(?:es)? | appears? | returns? | meets? | match(?:es)? | is | are | does | do not | has"
    r" | have"
    r" | remains? | shows? | displays? | renders? | compiles? | loads? | starts? | runs | succeeds?"
    r" | follows?"
    r" | uses? | executes? | contains? | completes? | can | cannot | stays? | exists? | respects? | persists?"
    r" | deploys? | triggers? | re-?\w+s when | compliance | complies | comply | accuracy | consistency"
    r" | compatibility | equivalence | correctness | coverage | no | all | every | each | without | still"
    r" | unchanged | correct(?:ly)? | successfully | that"
)
"""A sentence such as "the page loads", not a thing to build such as "JWT signature"."""
WORKS_ALREADY = words(
    r"works? correctly | still (?:works?|pass\w*) | unchanged | passes | no regressions? | as expected"
)
QUANTIFIED = words(
    r"all | no | every | each | complete | full | entire | overall | final | end-to-end | against | that all"
    r" | that no | the (?:full|complete|whole)",
    before="",
)
_CHANGES = (
    r"(?:add|create|implement|write|update|refactor|remove|delete|extend|document|record|capture|save"
    r"|generate"
    r"|store|optimi[sz]e|improve|tune|adjust|rename|migrate|apply|auto-?fix|format|install|scaffold"
    r"|initiali[sz]e"
    r"|set up|seed|deploy|publish|push)\b"
)
RUN_CHANGES = re.compile(
    rf"(?:\band|\bthen|\bto|;)\s+(?:then\s+)?{_CHANGES}|--(?:fix|write)\b", re.IGNORECASE
)
VERIFY_CHANGES = re.compile(
    rf"(?:\bthen|;)\s+{_CHANGES}|\band\s+(?:record|document|capture|implement)\b"
    r"|\band\s+update\s+(?:the\s+)?(?:docs|readme|documentation)",
    re.IGNORECASE,
)
MAKES = words(r"creation | implementation | set-?up | scaffold\w* | generation | support", after=r"\W*$")
CHANGING_COMMAND = words(
    r"init | install | add | create\S* | generate | migrate | upgrade | revision | publish | push | deploy"
    r" | apply"
    r" | seed | scaffold | new | commit | destroy | delete | format | fmt | codegen | sync | update | fix"
    r" | --fix"
    r" | --write",
    before=r"(?:^|[\s:])",
    after=r"(?=\s|$)",
)
ONLY_LOOKS = re.compile(r"--(?:check|dry-run|diff|list-different)\b")

# Documentation and configuration.
DOCUMENT = words(
    "document | proofread",
    after=r"\s+(?!(?:model|store|upload|parser|type|viewer|list|editor|table|service|api endpoint)\b)",
)
_DOCS = (
    r"(?:README|CHANGELOG|CONTRIBUTING|LICENSE|docs|documentation|guide|tutorial|runbook|(?:release"
    r"|migration) notes"
    r"|changeset|ADR|quick-?start(?: guide)?)"
)
WRITE_DOCS = re.compile(
    r"(?:update|write|add|create|improve|revise|extend|finali[sz]e|complete|generate|refresh|polish|expand"
    r"|draft"
    rf"|review and update|edit)\s+(?:[\w'/()-]+\s+){{0,4}}?{_DOCS}\b"
    r"(?!\s+(?:generator|parser|viewer|search|component|page|endpoint|route|model|table|service|upload|editor"
    r"|store|type|button|link|validation|comments?|strings?))"
    rf"|{_DOCS}\s+(?:update|polish|review|clean-?up|improvement|pass|for|in|of)s?\b|documentation\s*:",
    re.IGNORECASE,
)
CONFIGURE_TOOL = words(
    r"lint\w* | formatt\w* | code style | eslint | prettier | ruff | black | isort | flake8 | mypy"
    r" | pyright | tsconfig"
    r" | typescript | editorconfig | pre-commit | husky | lint-staged | ci | ci/cd | continuous integration"
    r" | github actions | gitlab ci | dependabot | renovate | coverage | jest | vitest | pytest"
    r" | playwright | tooling"
    r" | biome | stylelint | golangci-lint | clippy | rustfmt | ktlint | swiftlint | git hooks"
    r" | code quality",
    before=r"(?:configure|set\s?up|enable)\s+(?:[\w-]+\s+)?",
)
EDIT = words(
    r"create | add | update | write | edit | configure | set\s?up | document | define | extend | remove"
    r" | clean up"
    r" | adjust | list"
)
