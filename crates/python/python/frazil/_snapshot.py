"""The entries of a cache in a file.

The file is a line that names the format, the CRC-32 of the rest, and a pickle of the entries, the
coldest first. It is written beside its place and then renamed, so it is there as a whole or not at
all.
"""

import os
import pickle
import tempfile
import zlib

MAGIC = b"frazil-python-snapshot 1\n"


def save(cache, path):
    path = os.fspath(path)
    entries, _ = cache.__getstate__()
    content = pickle.dumps(entries, protocol=pickle.HIGHEST_PROTOCOL)
    folder = os.path.dirname(os.path.abspath(path))
    with tempfile.NamedTemporaryFile("wb", dir=folder, prefix=".frazil-", delete=False) as file:
        try:
            file.write(MAGIC + zlib.crc32(content).to_bytes(4, "little"))
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise
    return len(entries)


def load(cache, path):
    with open(path, "rb") as file:
        content = file.read()
    head = len(MAGIC) + 4
    if content[: len(MAGIC)] != MAGIC:
        raise ValueError(f"{path} is no snapshot of a frazil.Cache")
    if zlib.crc32(content[head:]).to_bytes(4, "little") != content[len(MAGIC) : head]:
        raise ValueError(f"{path} is damaged: its checksum is wrong")
    entries = pickle.loads(content[head:])
    cache.__setstate__((entries, None))
    return len(entries)
