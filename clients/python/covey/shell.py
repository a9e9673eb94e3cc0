"""Keystrokes go in, statements are sent where a semicolon ends them, results are printed on the terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import PygmentsLexer
from pygments.lexers.sql import SqlLexer

from covey.completion import NameCompleter
from covey.connection import Connection, Error
from covey.errors import one_line
from covey.output import make_console, print_table
from covey.results import arriving, print_result
from covey.statements import all_statements, is_blank, split_statements

HELP = """\
SQL ends with a semicolon and may span lines. A question to the model is a condition like any other:
  SELECT * FROM tickets WHERE AI_FILTER(PROMPT('Is the customer angry? {0}', body));
\\d         list the tables and views       \\d NAME  list a table's columns
\\timing    figures under results: on, off  \\q       leave (or Ctrl-D)
\\?         this help                       Ctrl-C   stop the running statement"""

TABLES = """\
SELECT table_name AS name, CASE table_type WHEN 'VIEW' THEN 'view' ELSE 'table' END AS kind
FROM information_schema.tables ORDER BY table_name"""

COLUMNS = 'SELECT column_name AS "column", column_type AS type FROM (DESCRIBE {})'

NAMES = """\
SELECT table_name FROM information_schema.columns
UNION SELECT column_name FROM information_schema.columns"""


class Shell:
    """The prompt on one connection; `handle` takes what one press of Enter sent."""

    def __init__(self, connection: Connection, uri: str) -> None:
        self.connection = connection
        self.uri = uri
        self.timing = True
        self.names: list[str] = []

    def run(self) -> int:
        """Read and run until \\q or the end of input; input that is no terminal is a script."""
        if not sys.stdin.isatty():
            return self.run_script(sys.stdin)
        print(f"Connected to {self.uri}. \\? for help, \\q to leave.")
        self.read_names()
        session = make_session(lambda: self.names, open_history())
        while True:
            try:
                text = session.prompt("covey> ")
            except KeyboardInterrupt:
                continue
            except EOFError:
                return 0
            if not self.handle(text):
                return 0

    def run_script(self, lines: Iterable[str]) -> int:
        """Run every statement and command of a text; the first that fails ends it, and so does \\q.

        A command is a line of its own that begins with a backslash, outside of any statement.
        """
        text = ""
        for line in lines:
            if not (line.lstrip().startswith("\\") and is_blank(split_statements(text)[1])):
                text += line
            elif not self.run_all(text):
                return 1
            elif not self.handle(line):
                return 0
            else:
                text = ""
        return 0 if self.run_all(text) else 1

    def run_all(self, text: str) -> bool:
        """Run the statements of a text until one fails; whether none did."""
        return all(self.attempt(self.send, statement) for statement in all_statements(text))

    def handle(self, text: str) -> bool:
        """Run a command or the statements of a text; False once the shell is to be left."""
        command, _, argument = text.strip().rstrip(";").strip().partition(" ")
        match command:
            case "\\q" | "exit" | "quit" if not argument:
                return False
            case "\\?" | "help":
                print(HELP)
            case "\\timing":
                self.timing = not self.timing
                print(f"Figures are {'on' if self.timing else 'off'}.")
            case "\\d" | "\\dt":
                self.attempt(self.describe, argument.strip())
            case _ if command.startswith("\\"):
                print(f"no command {command}; \\? lists them")
            case _:
                self.run_all(text)
        return True

    def attempt(self, action: Callable[[str], None], argument: str) -> bool:
        """Do something with the server; say what went wrong in one line and go on."""
        try:
            action(argument)
        except KeyboardInterrupt:
            print("stopped")
            return False
        except (Error, OSError) as error:
            print(f"error: {one_line(error)}", file=sys.stderr)
            return False
        return True

    def send(self, statement: str) -> None:
        """Run one statement and print its result; new tables become known to the completion."""
        print_result(self.connection, statement, timing=self.timing)
        if statement.split(maxsplit=1)[0].upper() in ("CREATE", "ALTER", "DROP"):
            self.read_names()

    def describe(self, name: str) -> None:
        """Print the tables, or one table's columns."""
        with self.connection.own_cursor() as cursor:
            cursor.execute(COLUMNS.format(identifier(name)) if name else TABLES)
            print_table(arriving(cursor), make_console())

    def read_names(self) -> None:
        """Learn the names of tables and columns; without them the shell works all the same."""
        with self.connection.own_cursor() as cursor:
            cursor.execute(NAMES)
            self.names = sorted(str(row[0]) for row in cursor.fetchall())


def identifier(name: str) -> str:
    """Return a table's name as SQL has it: one that is quoted or has a schema is taken as it is."""
    return name if '"' in name or "." in name else f'"{name}"'


def make_session(names: Callable[[], Sequence[str]], history: History) -> PromptSession[str]:
    """Return the line editor: history, completion, highlighting, and Enter that waits for a semicolon."""
    return PromptSession(
        history=history,
        completer=NameCompleter(names),
        complete_while_typing=False,
        lexer=PygmentsLexer(SqlLexer),
        multiline=True,
        key_bindings=enter_sends(),
        prompt_continuation="   ... ",
    )


def enter_sends() -> KeyBindings:
    """Bind Enter to send a text that is complete; elsewhere Enter begins a new line."""
    bindings = KeyBindings()

    @bindings.add("enter", filter=Condition(lambda: is_complete(get_app().current_buffer.text)))
    def send(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    return bindings


def is_complete(text: str) -> bool:
    """Say whether Enter sends a text: a command, nothing at all, or SQL that ends with a semicolon."""
    first = text.strip()
    if not first or first.startswith("\\") or first.lower() in ("exit", "quit", "help"):
        return True
    finished, rest = split_statements(text)
    return bool(finished) and is_blank(rest)


def open_history() -> History:
    """Return the history kept in the user's state folder; one in memory where that cannot be written."""
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "covey"
    try:
        state.mkdir(parents=True, exist_ok=True)
        history = state / "history"
        history.touch(mode=0o600)
    except OSError:
        return InMemoryHistory()
    return FileHistory(str(history))
