"""Read from a task's own words whether they ask for a change of tests.

A sentence asks for it when its verb governs the test, its file or the tests in general, or when it names what
is removed, or the new behaviour of what the test is about. What it names is compared with what was changed.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator

from msgspec import Struct

_SENTENCE = re.compile(r"(?<=[.!?;])\s+|\n+")
_WORD = re.compile(r"[\w$][\w$./'-]*[\w$]|[\w$]")
_QUOTED = 140


def _forms(verbs: str) -> dict[str, str]:
    """Return the forms in which a verb governs what follows it."""
    found: dict[str, str] = {}
    for verb in verbs.split():
        stem = verb.removesuffix("e")
        double = verb + verb[-1] if verb in ("drop", "skip", "port", "get", "let", "run") else verb
        for form in (verb, f"{verb}s", f"{stem}ing", f"{double}ing", f"{verb}es", f"{verb[:-1]}ies"):
            found[form] = verb
    return found


def _participles(verbs: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for verb in verbs.split():
        stem = verb.removesuffix("e")
        for form in (f"{stem}ed", f"{verb}{verb[-1]}ed", f"{verb[:-1]}ied"):
            found[form] = verb
    return {**found, "rewritten": "rewrite", "redone": "redo", "gone": "go"}


REMOVE = "delete remove drop retire prune discard eliminate purge"
ALTER = (
    "change update adapt adjust correct rewrite amend revise align regenerate refresh modify edit replace "
    "migrate convert port rework record rerecord"
)
REWRITE = "rewrite rework replace redo"
SKIP = "skip disable xfail quarantine ignore deactivate mute"
_OTHER = (
    "add write create extend implement make run pass keep fix cover see satisfy rename move follow read use "
    "leave touch return print let say introduce support accept build provide check verify test ensure raise "
    "refactor simplify handle parse split get show store call"
)
_VERBS = _forms(f"{REMOVE} {ALTER} {SKIP} {_OTHER}")
_DONE = _participles(f"{REMOVE} {ALTER} {SKIP} touch keep")
_TESTS = re.compile(
    r"(?i)(?:unit-?|regression-?)?(?:tests?|testcases?|specs?|suites?|snapshots?|golden|goldens|fixtures?"
    r"|expectations?|assertions?|cassettes?|baselines?)"
)
_CLAUSE = (
    "as like that so until because since if when while which whose per according than match matches matching"
)
_APART = frozenset((*_CLAUSE.split(), "against"))
"""Words with which another clause begins."""
_TELLS = re.compile(
    r"(?:say|show|expect|want|demand|describe|ask|specif(?:y|ie)|require|define|state|tell|explain|wait|fail)s?"
)
"""What comes after a test that is the authority, not what is to be changed: `the tests say what it does`."""
_NOT = frozenset(("not", "never", "without", "no", "don't", "doesn't", "mustn't", "cannot", "nor"))
_ONLY_RUNS = re.compile(r"(?i)\bonly\b[^.;]*\bruns?\b|\bruns?\b[^.;]*\bonly\b|\bruns?\b[^.;]*\bunless\b")
_STAY = re.compile(
    r"(?i)\b(?:keep|leave|leaving|keeping)\b[^.;]*\btests?\b[^.;]*"
    r"|\btests?\b[^.;]*\b(?:stay|remain|untouched|unchanged|unmodified|as they are)\b"
)
_SHIFT = re.compile(
    r"(?i)\b(?:instead|today|currently|so far|at present|no longer|rather than|from now on|now|any ?more"
    r"|in place of|becomes?|chang(?:e|es|ing)|switch(?:es)?|let|mak(?:e|es)|turns?|rounds?|rounded"
    r"|differently)\b"
)
_SAME = re.compile(
    r"(?i)\b(?:faster|speed|performance|refactor\w*|clean|simplif\w+|also|as well|additional\w*|optional\w*"
    r"|without changing|same (?:result|behaviou?r|value|output)s?)\b|\b(?:accept|support|take|add)\w*\b[^.;]*"
    r"\b(?:arguments?|parameters?|options?|flags?|keywords?|methods?|functions?)\b"
)
_NEEDLESS = re.compile(
    r"(?i)\b(?:deprecated|obsolete|unused|dead|legacy|superfluous|redundant|nobody"
    r"|(?:no longer|not|never) (?:used|needed|called|wanted))\b"
)
_RID = re.compile(
    r"(?i)\b(?:rid of|(?:can|must|should|may) go|goes? away|throw\w* (?:\w+ )?(?:out|away))\b"
    rf"|\b(?:{'|'.join(REMOVE.split())})\b"
)
_MEANS_IT = re.compile(r"(?i)\b(?:it|them|this|that|these|both)\b")
_CLEAN = re.compile(r"(?i)\b(?:clean|tidy)\b")
_STATED = (
    r"\W*(?:the |function |method )*{name}\b(?:\([^)]*\))?\W*"
    r"(?:should|must|ought to|shall|needs? to|ha(?:s|ve) to) "
)
_CASES = re.compile(r"(?i)\b(?:if|when|unless|for|on|with|not|never|only)\b")
"""What limits a sentence to some cases, or to what must not be."""
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_SMALL = frozenset(
    (
        "the",
        "and",
        "for",
        "with",
        "from",
        "into",
        "get",
        "set",
        "has",
        "new",
        "test",
        "tests",
        "make",
        "compute",
    )
)
"""Parts of names that say little about what they stand for."""
_TRIVIAL = frozenset(("0", "1", "True", "False", "None", "", "true", "false", "null"))


class Words(Struct, frozen=True):
    """What a task says."""

    text: str

    @property
    def sentences(self) -> list[str]:
        """Its sentences and lines."""
        return [one.strip() for one in _SENTENCE.split(self.text) if one.strip()]

    def names(self, name: str) -> bool:
        """Return whether the task names something."""
        return any(_names(one, name) for one in self.sentences)

    def speaks_of(self, name: str) -> bool:
        """Return whether a sentence names something, or uses the words that its name consists of."""
        parts = [part.lower() for part in _PARTS.findall(name)]
        telling = [part.removesuffix("s") for part in parts if len(part) > 2 and part not in _SMALL]
        return any(
            _names(one, name)
            or (telling and all(_names(one, part) or _names(one, f"{part}s") for part in telling))
            for one in self.sentences
        )

    def find_request(self, verbs: str, own: Collection[str], *, general: bool) -> str:
        """Return the sentence that asks to do this with a test; empty: none does.

        `own` are the test's names; `general`: the words "its tests" mean this one too.
        """
        forbidden = False
        for sentence in self.sentences:
            named = any(_names(sentence, one) for one in own)
            if not named and _STAY.search(sentence):
                forbidden = True
            for verb, _, is_denied in _governed(sentence, own):
                if is_denied and verb in f"{ALTER} {REMOVE} {SKIP} touch".split():
                    forbidden = True
        for sentence in self.sentences:
            for verb, is_own, is_denied in _governed(sentence, own):
                if verb in verbs.split() and not is_denied and (is_own or (general and not forbidden)):
                    return sentence
        return ""

    def find_limit(self, name: str) -> str:
        """Return the sentence that asks to run a test in some places only; empty: none does."""
        return next((one for one in self.sentences if _names(one, name) and _ONLY_RUNS.search(one)), "")

    @property
    def forbids(self) -> bool:
        """Whether tests must stay as they are."""
        denied = [one for sentence in self.sentences for one in _governed(sentence, ()) if one[2]]
        changing = f"{ALTER} {REMOVE} {SKIP} touch".split()
        return any(verb in changing for verb, _, _ in denied) or any(map(_STAY.search, self.sentences))

    def find_removal(self, subjects: Iterable[str]) -> str:
        """Return the sentence that asks to remove one of these, or says that nobody needs it."""
        wanted = list(subjects)
        for sentence, after in zip(self.sentences, [*self.sentences, ""][1:], strict=True):
            ends = _RID.search(sentence) or (_RID.search(after) and _MEANS_IT.search(after))
            cleans = _NEEDLESS.search(sentence) and (ends or _CLEAN.search(f"{sentence} {after}"))
            if cleans and _any(sentence, wanted):
                return sentence
            for verb, is_own, is_denied in _governed(sentence, wanted, tests=False):
                if verb in REMOVE.split() and is_own and not is_denied:
                    return sentence
        return ""

    def find_shift(self, subjects: Iterable[str]) -> str:
        """Return the sentence that asks for another behaviour of one of these."""
        wanted = list(subjects)
        for sentence in self.sentences:
            is_shift = _SHIFT.search(sentence) or _states(sentence, wanted)
            if is_shift and asks_for_another(sentence) and _any(sentence, wanted):
                return sentence
        return ""

    def find_product_values(self, values: Iterable[str], subjects: Iterable[str]) -> str:
        """Return the sentence that asks for a value which the product has now, if the task is about these."""
        if not any(self.speaks_of(one) for one in subjects):
            return ""
        telling = [form for value in values if value not in _TRIVIAL for form in _forms_of_value(value)]
        asking = [one for one in self.sentences if asks_for_another(one)]
        return next((one for one in asking for value in telling if _says(one, value)), "")

    def find_values(self, old: Collection[str], values: Collection[str], subjects: Collection[str]) -> str:
        """Return the sentence that names the new values of what the test is about, or old and new ones."""
        telling = [*old, *values] if old and values and not _TRIVIAL.intersection((*old, *values)) else []
        for sentence in self.sentences:
            if telling and all(_says(sentence, value) for value in telling):
                return sentence
        if not values or not any(self.names(one) for one in subjects):
            return ""
        where = [
            [
                one
                for one in self.sentences
                if _says(one, value) and (value not in _TRIVIAL or _any(one, subjects))
            ]
            for value in values
        ]
        return where[0][0] if all(where) else ""


def asks_for_another(sentence: str) -> bool:
    """Return whether a sentence may ask for another behaviour, not for more of it or for the same."""
    return _SAME.search(sentence) is None


def _states(sentence: str, names: Collection[str]) -> bool:
    """Return whether a sentence says what one of these has to do, whatever it is given."""
    begins = any(re.match(_STATED.format(name=re.escape(one)), sentence, re.I) for one in names)
    return begins and _CASES.search(sentence) is None


def says_value(sentence: str, value: str) -> bool:
    """Return whether a sentence names a value, in one of the forms in which people write it."""
    return any(_says(sentence, form) for form in _forms_of_value(value))


def _forms_of_value(value: str) -> Iterator[str]:
    """Yield how people write a value: 0.2 is 20 % as well."""
    yield value.strip("'\"`")
    try:
        number = float(value)
    except ValueError:
        return
    yield f"{number:g}"
    if 0 < abs(number) < 1:
        yield from (
            f"{round(number * 100, 6):g}{gap}{unit}" for gap in (" ", "") for unit in ("%", "percent")
        )


def _any(sentence: str, names: Collection[str]) -> bool:
    return any(_names(sentence, one) for one in names)


def _says(sentence: str, value: str) -> bool:
    return bool(value) and re.search(rf"(?<![\w.]){re.escape(value)}(?![\w])(?!\.\d)", sentence) is not None


def _names(sentence: str, name: str) -> bool:
    if len(name) < 2:
        return f"`{name}`" in sentence
    return re.search(rf"(?<![\w]){re.escape(name)}(?![\w])", sentence, re.I) is not None


def _governed(sentence: str, own: Collection[str], *, tests: bool = True) -> Iterator[tuple[str, bool, bool]]:
    """Yield the verb that governs each mention of a test, whether it is our own, and whether it is denied."""
    for name in own:
        sentence = sentence.replace(name, name.replace(" ", "_"))  # a test may be called by a sentence
    own = [name.replace(" ", "_") for name in own]
    for part in re.split(r":\s|\s[–—]\s", sentence):
        yield from _governed_within(_WORD.findall(part), own, tests)


def _governed_within(words: list[str], own: Collection[str], tests: bool) -> Iterator[tuple[str, bool, bool]]:
    plain = [word.lower() for word in words]
    for at, word in enumerate(words):
        is_own = any(_is_name(word, name) for name in own)
        if not is_own and not (tests and _TESTS.fullmatch(word)):
            continue
        if at + 1 < len(plain) and _TELLS.fullmatch(plain[at + 1]):
            continue
        if not is_own and (which := _find_named(words[at + 1 : at + 3], own)):
            is_own = any(_is_name(which, name) for name in own)
            if not is_own:
                continue
        for verb, place in (_before(plain, at), _after(plain, at)):
            if verb:
                around = plain[max(0, place - 4) : place]
                yield verb, is_own, bool(_NOT.intersection(around))


def _find_named(following: list[str], own: Collection[str]) -> str:
    """Return the test or file that is meant, if the words after a general one say which."""
    if following and any(_is_name(following[0], name) for name in own):
        return following[0]
    if following and following[0].lower() in ("in", "of", "file", "at", "from", "called", "named"):
        following = following[1:]
    named = re.fullmatch(r"\S*[\w-]/\S+|\S+\.[a-z]\w{0,4}|test_\w+", following[0]) if following else None
    return named[0] if named else ""


def _is_name(word: str, name: str) -> bool:
    clean = word.strip("`'\".()")
    return name.lower() in (clean.lower(), clean.rpartition("/")[2].lower(), clean.rpartition(".")[2].lower())


def _before(words: list[str], at: int) -> tuple[str, int]:
    """Return the nearest verb before a word, in the same clause."""
    for place in range(at - 1, -1, -1):
        if words[place] in _APART and (place == 0 or words[place - 1] not in _VERBS):  # "change that in …"
            return "", 0
        if words[place] in _VERBS:
            return _VERBS[words[place]], place
    return "", 0


def _after(words: list[str], at: int) -> tuple[str, int]:
    """Return the participle that follows a word: the tests must be adapted."""
    for place in range(at + 1, min(at + 7, len(words))):
        if words[place] in _DONE and {"be", "is", "are", "been", "being", "get", "gets"} & set(
            words[at:place]
        ):
            return _DONE[words[place]], place
    return "", 0


def quote(sentence: str) -> str:
    """Return what a task says, as people read it."""
    cut = sentence if len(sentence) <= _QUOTED else f"{sentence[:_QUOTED].rstrip()} …"
    return f"The task says: “{cut}”"
