"""What the trainer says while it works: one JSON object per line, in a file of its own."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class Refusal(Exception):
    """Bad input or a failed proof: reported as one line, never as a stack trace."""


class Progress:
    """Writes `progress`, `log`, `result` and `error` lines and adds up the seconds of each phase."""

    def __init__(self, path: Path, seconds: dict[str, float] | None = None) -> None:
        self.seconds = dict(seconds or {})
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("a", encoding="utf-8")
        except OSError as error:
            raise Refusal(f"job field progress: cannot write {path}: {error.strerror}") from error

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        self.progress(name)
        started = time.monotonic()
        yield
        self.seconds[name] = round(self.seconds.get(name, 0) + time.monotonic() - started, 3)

    def progress(self, phase: str, **fields: object) -> None:
        self._write("progress", phase=phase, **fields)

    def log(self, message: str, **fields: object) -> None:
        self._write("log", message=message, **fields)

    def result(self, fields: dict[str, object]) -> None:
        self._write("result", **fields)

    def error(self, message: str, **fields: object) -> None:
        self._write("error", message=message, **fields)

    def _write(self, kind: str, **fields: object) -> None:
        self._file.write(json.dumps({"kind": kind, "time": round(time.time(), 3), **fields}) + "\n")
        self._file.flush()
