"""redis-py, RedisCluster: keys of all nodes, many at once, pipelines, scans, redirections, RESP2 and RESP3; then a node is lost.

Arguments: host, the ports of three nodes, and the process of the third.
"""

import os
import signal
import sys

import redis
from redis.cluster import ClusterNode, RedisCluster

from checking import HOST, end, refused, same

PORTS = [int(port) for port in sys.argv[2:5]]
# Enough for each node to have some of them, so many.
KEYS = [f"k{at}" for at in range(1000)]
COUNTS = [341, 332, 327]
# A key of each node.
KEY_OF = ["k2", "k0", "k1"]


def opened(protocol):
    return RedisCluster(startup_nodes=[ClusterNode(HOST, PORTS[0])], protocol=protocol, socket_timeout=2)


def values(cluster, nodes):
    same("flushall", set(cluster.flushall().values()), {True})
    same("nodes", sorted(node.port for node in cluster.get_primaries()), sorted(PORTS))
    same("set of 1,000 keys", all(cluster.set(key, f"v{key}") for key in KEYS), True)
    same("get of 1,000 keys", [cluster.get(key) for key in KEYS], [f"v{key}".encode() for key in KEYS])
    same("the keys of each node", [node.dbsize() for node in nodes], COUNTS)
    same("dbsize of all", cluster.dbsize(target_nodes=RedisCluster.PRIMARIES), 1000)
    same("mget_nonatomic over all nodes", cluster.mget_nonatomic(KEY_OF), [b"vk2", b"vk0", b"vk1"])
    same("mset of one slot", cluster.mset({"{tag}a": 1, "{tag}b": 2}), True)
    same("mget of one slot", cluster.mget("{tag}a", "{tag}b", "{tag}c"), [b"1", b"2", None])
    same("delete over all nodes", cluster.delete(*KEY_OF, "absent"), 3)
    same("expire", (cluster.expire("k3", 100), cluster.ttl("k3") > 98), (True, True))


def pipelines(cluster):
    pipeline = cluster.pipeline()
    for key in KEYS:
        pipeline.set(key, f"p{key}")
    same("a pipeline over all nodes", pipeline.execute(), [True] * 1000)
    transaction = cluster.pipeline(transaction=True)
    transaction.set("{tag}t", 1).incr("{tag}t").get("{tag}t")
    same("a transaction", transaction.execute(), [b"OK", 2, b"2"])


def scans(cluster, nodes):
    same("scan_iter", sorted(cluster.scan_iter("k99?")), [f"k99{at}".encode() for at in range(10)])
    try:
        found = nodes[1].get("k2")
    except redis.ResponseError as error:
        found = str(error)
    same("a key of another node", found, f"449 {HOST}:{PORTS[0]}")


def lost(cluster):
    for key in KEY_OF:
        cluster.set(key, "v")
    os.kill(int(sys.argv[5]), signal.SIGKILL)
    same("keys of the other nodes", [cluster.get(key) for key in KEY_OF[:2]], [b"v", b"v"])
    refused("a key of the lost node", redis.RedisError, cluster.get, KEY_OF[2])
    same("the others after that", [cluster.get(key) for key in KEY_OF[:2]], [b"v", b"v"])


def main():
    nodes = [redis.Redis(HOST, port) for port in PORTS]
    for protocol in (2, 3):
        cluster = opened(protocol)
        values(cluster, nodes)
        pipelines(cluster)
        scans(cluster, nodes)
        cluster.close()
    lost(opened(3))
    end()


main()
