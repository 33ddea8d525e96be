"""What the lines of a Spec Kit file say about user stories, in the languages teams write."""

from __future__ import annotations

import re
from collections.abc import Sequence

from segue.sources.markdown.lines import Line, heading

# In a heading the number is the stable part; the words are whatever language the team writes.
_WORDS = (
    r"user[ -]?stor(?:y|ies)|\bstory|用户故事|用戶故事|使用者故事|ユーザー?ストーリー|사용자 ?스토리"
    r"|유저 ?스토리|historia de usuario|historia del usuario|história d[eo] usuário|récit utilisateur"
    r"|histoire utilisateur|benutzergeschichte|anwendergeschichte|storia utente"
    r"|historyjka użytkownika|kullanıcı hikayesi|câu chuyện người dùng"
    r"|(?:пользовательская )?история(?: пользователя)?|เรื่องราวผู้ใช้|เรื่องราวของผู้ใช้"
)
_STORY_WORD = rf"(?:\bUS-?|(?i:{_WORDS})\s*[#№-]?\s*)"
_STORY_NUMBER = r"[0-9]{1,3}[a-z]?(?![A-Za-z0-9])"
_STORY = re.compile(
    rf"{_STORY_WORD}{_STORY_NUMBER}(?:\s*(?:[&+,/、]|and\b|und\b|et\b|y\b|e\b|и\b)\s*{_STORY_WORD}?{_STORY_NUMBER})*"
)
_NUMBER = re.compile(r"[0-9]{1,3}[a-z]?(?![A-Za-z0-9])")
_STARTS_STORY = re.compile(rf"[\W_]*(?:[0-9]+(?:\.[0-9]+)*[.)]?\s+)?(?={_STORY_WORD}{_STORY_NUMBER})")

_INDEPENDENT = re.compile(
    r"\s*(?:[-*+]\s+)?\*\*\s*(?:independent\s+test\w*|独立测试|独立測試|独立テスト|독립 테스트"
    r"|prueba independiente|teste independente|test indépendant|unabhängiger test|test indipendente"
    r"|независимый тест)[^*]{0,40}\*\*\s*[:：]?\s*(.*)",
    re.IGNORECASE | re.DOTALL,
)
_BOLD = re.compile(r"\s*(?:[-*+]\s+)?\*\*")


def stories_in(text: str, at_start: bool = False) -> tuple[str, ...]:
    """The user stories that a heading or a label names, as `US1`."""
    if at_start:
        start = _STARTS_STORY.match(text)
        found = _STORY.match(text, start.end()) if start else None
    else:
        found = _STORY.search(text)
    numbers = _NUMBER.findall(found[0]) if found else []
    return tuple(dict.fromkeys(f"US{number.lstrip('0') or '0'}" for number in numbers))


def independent_test(lines: Sequence[Line], start: int) -> str:
    """Return the paragraph that begins at a line if it says how a story is tried out on its own."""
    found = None if lines[start].block else _INDEPENDENT.match(lines[start].text)
    if found is None:
        return ""
    text = [found[1].strip()]
    for index in range(start + 1, len(lines)):
        line = lines[index]
        if not line.block and (not line.text.strip() or _BOLD.match(line.text) or heading(line)):
            break
        text.append(line.text.rstrip())
    return "\n".join(text).strip()
