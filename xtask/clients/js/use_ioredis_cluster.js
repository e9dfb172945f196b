// ioredis, Cluster: keys of all nodes, transactions, scans, redirections; then a node is lost.
'use strict';
const { Cluster, Redis } = require('ioredis');
const { same, refused } = require('./checking.js');
const { host, ports, keys, counts, keyOf, lost, run } = require('./cluster.js');

async function values(cluster, nodes) {
  for (const node of nodes) await node.flushall();
  const sets = await Promise.all(keys.map((key) => cluster.set(key, `v${key}`)));
  same('set of 1,000 keys', sets.every((reply) => reply === 'OK'), true);
  const found = await Promise.all(keys.map((key) => cluster.get(key)));
  same('get of 1,000 keys', found, keys.map((key) => `v${key}`));
  same('nodes', cluster.nodes('master').map(({ options }) => options.port).sort(), [...ports].sort());
  same('the keys of each node', await Promise.all(nodes.map((node) => node.dbsize())), counts);
  await refused('mget over all nodes', 'CROSSSLOT', cluster.mget(keyOf));
  same('mset of one slot', await cluster.mset({ '{tag}a': '1', '{tag}b': '2' }), 'OK');
  same('mget of one slot', await cluster.mget('{tag}a', '{tag}b'), ['1', '2']);
  same('del', await cluster.del('{tag}a', '{tag}b', '{tag}c'), 2);
  same('expire, ttl', [await cluster.expire('k3', 100), (await cluster.ttl('k3')) > 98], [1, true]);
}

async function transactions(cluster) {
  const done = await cluster.multi().set('{tag}t', '1').incr('{tag}t').get('{tag}t').exec();
  same('multi, exec', done, [[null, 'OK'], [null, 2], [null, '2']]);
  const piped = await cluster.pipeline().set('{tag}p', '1').get('{tag}p').exec();
  same('a pipeline of one slot', piped, [[null, 'OK'], [null, '1']]);
}

async function scans(cluster, nodes) {
  const found = new Set();
  for (const node of cluster.nodes('master')) {
    for await (const some of node.scanStream({ match: 'k99?', count: 100 })) some.forEach((key) => found.add(key));
  }
  same('scanStream of each node', found.size, 10);
  await refused('a key of another node', `MOVED 449 ${host}:${ports[0]}`, nodes[1].get('k2'));
}

async function automatic() {
  const cluster = new Cluster([{ host, port: ports[2] }], { enableAutoPipelining: true });
  const found = await Promise.all(keys.map((key) => cluster.get(key)));
  same('automatic pipelines', found, keys.map((key) => `v${key}`));
  cluster.disconnect();
}

async function main() {
  const nodes = ports.map((port) => new Redis({ host, port }));
  nodes.forEach((node) => node.on('error', () => {}));
  for (const protocol of [2, 3]) {
    const cluster = new Cluster([{ host, port: ports[0] }], { redisOptions: { protocol } });
    await values(cluster, nodes);
    await transactions(cluster);
    await scans(cluster, nodes);
    same('quit', await cluster.quit(), 'OK');
  }
  await automatic();
  const cluster = new Cluster([{ host, port: ports[0] }]);
  cluster.on('error', () => {});
  await lost(cluster);
}

run(main);
