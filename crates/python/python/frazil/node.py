"""One node of a sweep: it decodes each trace once and replays cells of it on some threads.

`python -m frazil.node N` is such a node, with N threads, for `frazil.sweep` on one machine. It
reads pickled messages from standard input, writes answers to standard output, and ends with its
input, that is, with the process that began it.
"""

from __future__ import annotations

import os
import pickle
import struct
import sys
import threading

from . import _frazil, __version__
from .replay import _in_python


class Node:
    """Decoded traces, shared by the threads that replay them."""

    def __init__(self):
        self._traces = {}
        self._lock = threading.Lock()

    def add(self, key, words, source, options):
        """Tells of a trace, which is decoded when the first cell needs it.

        source: a function that gives its data, or None if it is a file or generated.
        """
        with self._lock:
            self._traces.setdefault(key, _Trace(words, source, options))

    def drop(self, key):
        """Lets go of a trace that has no more cells."""
        with self._lock:
            self._traces.pop(key, None)

    def run_all(self, key, cells):
        """The outcome of `run` for the words of each cell."""
        return [self.run(key, words) for words in cells]

    def run(self, key, words):
        """The row of a cell, and whether its trace was decoded for it; never raises."""
        trace = self._traces[key]
        try:
            decoded, first = trace.decoded()
            rows, _ = _frazil.rows(words, [(trace.name, decoded)], None, False)
            return rows[0], first
        except Exception as error:
            text = _in_python(str(error)) if type(error) is ValueError else str(error)
            return {"error": f"{type(error).__name__}: {text}"}, False


class _Trace:
    def __init__(self, words, source, options):
        self.words, self.source, self.options = words, source, options
        self.name = next(word[8:] for word in words if word.startswith("--trace="))
        self._lock = threading.Lock()
        self._decoded, self._error = None, None

    def decoded(self):
        """The trace, and whether it was decoded just now. Raises the same error every time."""
        with self._lock:
            if self._error is not None:
                raise self._error
            if self._decoded is not None:
                return self._decoded, False
            try:
                memory = []
                if self.source is not None:
                    memory = [(self.name, _frazil.Records(self.source(), *self.options))]
                self._decoded = _frazil.Decoded(self.words, memory)
                self.source = None
            except Exception as error:
                self._error = error
                raise
            return self._decoded, True


def read_message(stream):
    """The next message, or None at the end."""
    head = stream.read(8)
    if len(head) < 8:
        return None
    length = struct.unpack("<Q", head)[0]
    body = stream.read(length)
    return pickle.loads(body) if len(body) == length else None


def write_message(stream, message):
    body = pickle.dumps(message, protocol=5)
    stream.write(struct.pack("<Q", len(body)))
    stream.write(body)
    stream.flush()


def _serve(threads):
    from concurrent.futures import ThreadPoolExecutor

    answers = os.fdopen(os.dup(1), "wb")
    # What a library prints must not get among the answers.
    os.dup2(2, 1)
    node, lock = Node(), threading.Lock()

    def answer(number, key, cells):
        outcomes = node.run_all(key, cells)
        with lock:
            write_message(answers, ("rows", number, outcomes))

    with lock:
        write_message(answers, ("hello", __version__, None))
    pool = ThreadPoolExecutor(threads)
    while (message := read_message(sys.stdin.buffer)) is not None:
        what, *arguments = message
        if what == "trace":
            key, words, source, options = arguments
            node.add(key, words, None if source is None else lambda source=source: source, options)
        elif what == "drop":
            node.drop(*arguments)
        else:
            pool.submit(answer, *arguments)
    # Whoever wanted the rows of cells under way has gone.
    os._exit(0)


if __name__ == "__main__":
    _serve(int(sys.argv[1]))
