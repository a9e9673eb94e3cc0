"""What has been typed and the names that exist go in, completions come out; nothing is sent to the server."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

COMMANDS = ("\\?", "\\d", "\\q", "\\timing")
KEYWORD_TEXT = """
    AI_CLASSIFY AI_FILTER AI_SCORE AI_SENTIMENT AND AS ASC BETWEEN BY CASE CAST COUNT CREATE CROSS
    DELETE DESC DESCRIBE DISTINCT ELSE END EXCEPT EXISTS EXPLAIN FALSE FROM FULL GROUP HAVING IN INNER
    INSERT INTERSECT INTO IS JOIN LEFT LIKE LIMIT NOT NULL OFFSET ON OR ORDER OUTER PROMPT RIGHT SELECT
    SET SHOW TABLE THEN TRUE UNION UPDATE USING VALUES WHEN WHERE WITH"""
KEYWORDS = tuple(KEYWORD_TEXT.split())
WORD = re.compile(r"[\w\\?]+$")
OPEN_STRING = re.compile(r"^(?:[^']|'[^']*')*+'[^']*$")


class NameCompleter(Completer):
    """Completes SQL keywords, names of tables and columns, and the shell's own commands."""

    def __init__(self, names: Callable[[], Sequence[str]]) -> None:
        self.names = names

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Yield the words that continue the one under the cursor; nothing inside a string."""
        typed = document.text_before_cursor
        word = WORD.search(typed)
        if word is None or OPEN_STRING.match(typed):
            return
        for text in candidates(word[0], self.names()):
            yield Completion(text, start_position=-len(word[0]))


def candidates(word: str, names: Sequence[str]) -> list[str]:
    """Return what `word` may become: names first, then keywords in the letter case that was typed."""
    if word.startswith("\\"):
        return [command for command in COMMANDS if command.startswith(word)]
    start = word.lower()
    keywords = [keyword.lower() if word.islower() else keyword for keyword in KEYWORDS]
    return [text for text in (*names, *keywords) if text.lower().startswith(start) and text != word]
