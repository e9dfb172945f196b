// node-redis, createCluster: keys of all nodes, many at once, transactions, scans, redirections, RESP2 and RESP3; then a node is lost.
'use strict';
const { createClient, createCluster } = require('redis');
const { same, refused } = require('./checking.js');
const { host, ports, keys, counts, keyOf, lost, run } = require('./cluster.js');

const open = async (options) => {
  const cluster = createCluster({ rootNodes: [{ socket: { host, port: ports[0] } }], ...options });
  cluster.on('error', () => {});
  return cluster.connect();
};

const alone = async (port) => {
  const client = createClient({ socket: { host, port, reconnectStrategy: false } });
  client.on('error', () => {});
  return client.connect();
};

async function values(cluster, nodes) {
  for (const node of nodes) await node.flushAll();
  same('masters', cluster.masters.map(({ port }) => port).sort(), [...ports].sort());
  const sets = await Promise.all(keys.map((key) => cluster.set(key, `v${key}`)));
  same('set of 1,000 keys', sets.every((reply) => reply === 'OK'), true);
  const found = await Promise.all(keys.map((key) => cluster.get(key)));
  same('get of 1,000 keys', found, keys.map((key) => `v${key}`));
  same('the keys of each node', await Promise.all(nodes.map((node) => node.dbSize())), counts);
  same('mGet over all nodes', await cluster.mGet(keyOf), keyOf.map((key) => `v${key}`));
  same('mGet of one slot', await cluster.mGet(['{tag}a', '{tag}b']), [null, null]);
  same('mSet of one slot', await cluster.mSet({ '{tag}a': '1', '{tag}b': '2' }), 'OK');
  same('del over all nodes', await cluster.del([...keyOf, 'absent']), 3);
  await refused('rename to another slot', 'CROSSSLOT', cluster.rename('k3', 'k4'));
  same('expire, ttl', [await cluster.expire('k3', 100), (await cluster.ttl('k3')) > 98], [1, true]);
}

async function transactions(cluster) {
  same('multi, exec', await cluster.multi().set('{tag}t', '1').incr('{tag}t').get('{tag}t').exec(), ['OK', 2, '2']);
  await refused('multi over two nodes', '', cluster.multi().set('k2', '1').set('k0', '1').exec());
}

async function scans(cluster, nodes) {
  const found = new Set();
  for (const { client } of cluster.masters) {
    for await (const some of client.scanIterator({ MATCH: 'k99?', COUNT: 100 })) some.forEach((key) => found.add(key));
  }
  same('scanIterator of each node', found.size, 10);
  await refused('a key of another node', `MOVED 449 ${host}:${ports[0]}`, nodes[1].get('k2'));
}

async function main() {
  const nodes = await Promise.all(ports.map(alone));
  for (const RESP of [2, 3]) {
    const cluster = await open({ RESP });
    await values(cluster, nodes);
    await transactions(cluster);
    await scans(cluster, nodes);
    await cluster.close();
  }
  await lost(await open({}));
}

run(main);
