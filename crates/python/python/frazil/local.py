"""The one node of a sweep on this machine: a process with a thread for each core."""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import threading

from .node import read_message, write_message

# Deaths one after the other without a row between them.
DEATHS = 5


class LocalNodes:
    """A process, and another one after each death."""

    def __init__(self, threads):
        self._threads, self._deaths = threads, 0
        self._answers = queue.Queue()
        self._node = _Process(threads, self._answers)

    def ready(self):
        """Nodes that take cells."""
        return [self._node]

    def wait(self):
        """What has ended: nodes, cells, and their outcome; None for one whose process died."""
        try:
            process, message = self._answers.get(timeout=1)
        except queue.Empty:
            return
        if process is not self._node:
            return
        if message is None:
            self._deaths += 1
            if self._deaths >= DEATHS:
                raise RuntimeError(f"the worker process ended {DEATHS} times without a row")
            process.close()
            self._node = _Process(self._threads, self._answers)
            yield process, None, None
            for cell in sum(process.cells.values(), []):
                yield process, cell, None
        elif message[0] == "rows":
            self._deaths = 0
            cells = process.cells.pop(message[1])
            process.free += 1
            for cell, outcome in zip(cells, message[2]):
                yield process, cell, outcome

    def drop(self, key):
        """Lets go of a trace."""
        self._node.drop(key)

    def close(self):
        """Ends the process."""
        self._node.close()


class _Process:
    name = "local"

    def __init__(self, threads, answers):
        self.free, self.cells, self._number, self._traces = threads, {}, 0, set()
        command = [sys.executable, "-m", "frazil.node", str(threads)]
        path = os.pathsep.join(entry for entry in sys.path if entry)
        # A session of its own: Ctrl-C is for the driver, which ends it.
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
            env={**os.environ, "PYTHONPATH": path},
        )
        threading.Thread(target=self._read, args=(answers,), daemon=True).start()

    def _read(self, answers):
        while (message := read_message(self._process.stdout)) is not None:
            answers.put((self, message))
        answers.put((self, None))

    def _send(self, message):
        try:
            write_message(self._process.stdin, message)
        except (BrokenPipeError, ValueError):
            pass  # It died, which its reader tells.

    def start(self, cells, source):
        """Gives a thread of it some cells."""
        if source.key not in self._traces:
            self._traces.add(source.key)
            self._send(("trace", source.key, source.words, source.data, source.reading))
        self._number += 1
        self.cells[self._number] = cells
        self.free -= 1
        self._send(("cells", self._number, source.key, [cell.words for cell in cells]))

    def drop(self, key):
        self._traces.discard(key)
        self._send(("drop", key))

    def close(self):
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            try:
                pipe.close()
            except OSError:
                pass
