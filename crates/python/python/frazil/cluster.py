"""The nodes of a sweep on a Ray cluster: an actor for each node, with a thread for each core."""

from __future__ import annotations

import os
import queue
import socket
import threading
import time

# Seconds in which a cluster must answer, and in which it must then be connected, which may take long
# on a machine at work.
PATIENCE_S = 9
ANSWERING_S = 60
# How a client of HTTP/2 begins, which Ray speaks, with a frame of no settings.
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
# Between two looks for nodes that came or went.
PERIOD_S = 2
# Deaths of an actor on a node that lives, one after the other without a row between them. Ray may
# take half a minute to see that a node is dead, so the next actor there waits longer each time.
DEATHS = 5
AFTER_DEATH_S = 3


class RayNodes:
    """All nodes of a cluster that have cores, and this version of the package."""

    def __init__(self, address):
        begun = time.monotonic()
        try:
            import ray
        except ImportError as error:
            raise ImportError("cluster= needs Ray: pip install ray") from error
        self._ray, self._owned = ray, _connect(ray, address, begun)
        self._actor = _actor_class()
        self._nodes, self._calls, self._data, self._deaths = {}, {}, {}, {}
        self._looked = 0.0
        self._address = address

    def ready(self):
        """Nodes that take cells."""
        self._look()
        return [node for node in self._nodes.values() if node.welcome]

    def _look(self):
        """Makes an actor on each node that is new."""
        if time.monotonic() - self._looked < PERIOD_S:
            return
        alive = {}
        for about in self._ray.nodes():
            cores = int(about["Resources"].get("CPU", 0))
            if about["Alive"] and cores:
                alive[about["NodeID"]] = (about["NodeManagerAddress"], cores)
        if not alive:
            raise ConnectionError(f"the Ray cluster {self._address} has no node left with cores")
        for node_id, (host, cores) in alive.items():
            deaths, died = self._deaths.get(node_id, (0, 0.0))
            if deaths >= DEATHS:
                raise RuntimeError(f"node {host} ({node_id[:8]}): its worker died {deaths} times")
            waits = died + AFTER_DEATH_S * deaths > time.monotonic()
            if node_id not in self._nodes and not waits:
                node = _Node(self, node_id, f"{host} ({node_id[:8]})", cores)
                self._nodes[node_id] = node
                self._calls[node.actor.version.remote()] = (node, [])
        self._looked = time.monotonic()

    def wait(self):
        """What has ended: nodes, cells, and their outcome; None for one whose node died."""
        calls = list(self._calls)
        if not calls:
            time.sleep(0.1)  # All nodes wait after a death.
            return
        done, _ = self._ray.wait(calls, num_returns=1, timeout=PERIOD_S)
        if done:
            # What has ended beside it too.
            done, _ = self._ray.wait(calls, num_returns=len(calls), timeout=0)
        for call in done:
            # The others of a node that died have been told with it.
            if call in self._calls:
                yield from self._ended(call)

    def _ended(self, call):
        node, cells = self._calls.pop(call)
        try:
            outcomes = self._ray.get(call)
        except self._ray.exceptions.RayTaskError as error:
            outcomes = [({"error": f"RayTaskError: {error}"}, False)] * len(cells)
        except self._ray.exceptions.RayError:
            yield from self._died(node, cells)
            return
        if not cells:
            node.welcome_if(outcomes)
            return
        self._deaths.pop(node.node_id, None)
        node.free += 1
        for cell, outcome in zip(cells, outcomes):
            yield node, cell, outcome

    def _died(self, node, cells):
        self._nodes.pop(node.node_id, None)
        deaths, _ = self._deaths.get(node.node_id, (0, 0.0))
        self._deaths[node.node_id] = (deaths + 1, time.monotonic())
        lost = list(cells)
        for call, (of, others) in list(self._calls.items()):
            if of is node:
                del self._calls[call]
                lost += others
        self._looked = 0.0
        yield node, None, None
        for cell in lost:
            yield node, cell, None

    def boxed(self, source):
        """The data of a trace in the cluster's memory, in a list, so that it is not fetched yet."""
        if source.data is None:
            return None
        if source.key not in self._data:
            self._data[source.key] = [self._ray.put(source.data)]
        return self._data[source.key]

    def call(self, reference, node, cells):
        """Notes a call whose outcomes are waited for."""
        self._calls[reference] = (node, cells)

    def drop(self, key):
        """Lets go of a trace."""
        self._data.pop(key, None)
        for node in self._nodes.values():
            if key in node.traces:
                node.traces.discard(key)
                node.actor.drop.remote(key)

    def close(self):
        """Ends the actors, and the connection if it was made here."""
        for node in self._nodes.values():
            try:
                self._ray.kill(node.actor)
            except Exception:
                pass  # It is dead, or its node is.
        if self._owned:
            self._ray.shutdown()


class _Node:
    def __init__(self, nodes, node_id, name, cores):
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        self.node_id, self.name, self.free = node_id, name, cores
        self.welcome, self.traces, self._nodes = False, set(), nodes
        actor = nodes._ray.remote(nodes._actor)
        self.actor = actor.options(
            num_cpus=cores,
            max_concurrency=cores + 1,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node_id, soft=False),
        ).remote()

    def welcome_if(self, version):
        """Takes cells from now on, if the version is this one. Raises RuntimeError if not."""
        from . import __version__

        if version != __version__:
            has = f"has frazil {version}" if version else "has no package frazil"
            raise RuntimeError(f"node {self.name} {has}, this program has {__version__}")
        self.welcome = True

    def start(self, cells, source):
        """Gives a thread of it some cells."""
        self.free -= 1
        self.traces.add(source.key)
        boxed = self._nodes.boxed(source)
        words = [cell.words for cell in cells]
        call = self.actor.run.remote(source.key, words, source.words, boxed, source.reading)
        self._nodes.call(call, self, cells)


def _actor_class():
    """The class of the actors. Defined here, it is sent as a whole, also to nodes without frazil."""

    class FrazilNode:
        def __init__(self):
            try:
                from frazil.node import Node

                self.node = Node()
            except ImportError:
                self.node = None

        def version(self):
            try:
                import frazil
            except ImportError:
                return None
            return getattr(frazil, "__version__", "unknown")

        def run(self, key, cells, trace_words, boxed, reading):
            def data():
                import ray

                return ray.get(boxed[0])

            self.node.add(key, trace_words, None if boxed is None else data, reading)
            return self.node.run_all(key, cells)

        def drop(self, key):
            self.node.drop(key)

    return FrazilNode


def _answers(host, port):
    """Whether something that may be Ray speaks there. OSError: nobody takes the connection."""
    with socket.create_connection((host, port), timeout=PATIENCE_S) as stream:
        stream.sendall(PREFACE)
        head = b""
        while len(head) < 9 and (more := stream.recv(9 - len(head))):
            head += more
        # A frame of settings is the first that a server sends.
        return len(head) == 9 and head[3] == 4


def _place(address):
    """Host and port; None if Ray is to find the cluster, or speaks in another way than `_answers`."""
    if address in ("ray", "auto"):
        return None
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        raise ValueError(f"cluster {address!r}: expected \"ray\", HOST:PORT or ray://HOST:PORT")
    encrypted = os.environ.get("RAY_USE_TLS", "0").lower() in ("1", "true")
    return None if encrypted else (host.strip("[]"), int(port))


def _by(until, work):
    """The result of `work`, or its error. TimeoutError: it takes longer, and may go on."""
    outcome = queue.Queue()

    def run():
        try:
            outcome.put((work(), None))
        except BaseException as error:
            outcome.put((None, error))

    threading.Thread(target=run, daemon=True).start()
    try:
        result, error = outcome.get(timeout=max(0, until - time.monotonic()))
    except queue.Empty:
        raise TimeoutError from None
    if error is not None:
        raise error
    return result


def _connect(ray, address, begun):
    """Connects to a cluster; returns whether that was done here. Raises ConnectionError in time."""
    if ray.is_initialized():
        connected = ray.get_runtime_context().gcs_address
        if address not in ("ray", "auto", connected):
            raise ConnectionError(f"{address}: this program is connected to Ray at {connected}")
        return False
    place = _place(address)
    patience, silent = PATIENCE_S, f"no Ray cluster answers at {address}"
    try:
        # Ray itself waits for a minute, whatever answers, and no argument makes that shorter.
        if place is not None:
            # A name may be looked up for long, and bytes may come one by one.
            if not _by(begun + patience, lambda: _answers(*place)):
                raise ConnectionError("what answers does not speak HTTP/2")
            patience = ANSWERING_S
        _by(begun + patience, lambda: ray.init(
            "auto" if address == "ray" else address, log_to_driver=False, logging_level="ERROR"))
    except TimeoutError:
        raise ConnectionError(f"{silent} within {patience} s") from None
    except Exception as error:
        raise ConnectionError(f"{silent}: {error}") from error
    return True
