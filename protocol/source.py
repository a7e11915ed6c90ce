"""Builds the source of one generated function, and the values that it refers to.

The text of a finished function is put into `linecache`, so that tracebacks show its lines.
"""

import linecache
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from struct import Struct as _Packer
from typing import Any


class Source:
    """The text of a function `name(parameters)`; `title` is its file name in tracebacks."""

    def __init__(self, title: str, name: str, parameters: str) -> None:
        self.globals: dict[str, Any] = {}
        self._filename = f"<{title}>"
        self._name = name
        self._lines = [f"def {name}({parameters}):"]
        self._depth = 1
        self._count = 0

    def line(self, text: str) -> None:
        """Append a statement."""
        self._lines.append("    " * self._depth + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Append a compound statement; lines added inside the `with` are its body."""
        self.line(head)
        self._depth += 1
        yield
        self._depth -= 1

    def fresh(self, hint: str) -> str:
        """Return an unused name for a local variable."""
        self._count += 1
        return f"{hint}{self._count}"

    def bind(self, hint: str, value: object) -> str:
        """Return a name by which the text can refer to `value`."""
        name = hint
        while self.globals.setdefault(name, value) is not value:
            name = self.fresh(hint)
        return name

    def packer(self, method: str, formats: str) -> str:
        """Return a name for the `pack` or `unpack_from` of a big-endian struct without padding."""
        name = f"{method}_{formats.replace('?', 'Z')}"
        if name not in self.globals:
            self.globals[name] = getattr(_Packer(f">{formats}"), method)
        return name

    def constant(self, value: object) -> str:
        """Return an expression for a default: a literal for simple values, otherwise a bound name."""
        if value is None or isinstance(value, (bool, int, float, str)) or value in (b"", []):
            return repr(value)
        hint = "ZERO_UUID" if isinstance(value, bytes) else f"DEFAULT_{type(value).__name__}"
        return self.bind(hint, value)

    def text(self) -> str:
        """Return the function's source."""
        return "\n".join(self._lines) + "\n"

    def function(self) -> Callable[..., Any]:
        """Compile and return the function."""
        text = self.text()
        linecache.cache[self._filename] = (len(text), None, text.splitlines(keepends=True), self._filename)
        exec(compile(text, self._filename, "exec"), self.globals)  # noqa: S102 (the text is generated here)
        function: Callable[..., Any] = self.globals[self._name]
        return function
