// What the programs for clusters share. Their arguments: a host, the ports of three nodes, and the process of the third.
'use strict';
const { same, refused, within } = require('./checking.js');

const [host, ports, lostProcess] = [process.argv[2], process.argv.slice(3, 6).map(Number), Number(process.argv[6])];

// Enough for each node to have some of them, so many.
const keys = Array.from({ length: 1000 }, (_, at) => `k${at}`);
const counts = [341, 332, 327];

// A key of each node.
const keyOf = ['k2', 'k0', 'k1'];

// Kills the third node: the keys of the others are still served, and its own are not.
async function lost(cluster) {
  await Promise.all(keyOf.map((key) => cluster.set(key, 'v')));
  process.kill(lostProcess, 'SIGKILL');
  const get = (key) => within(5000, cluster.get(key));
  same('keys of the other nodes', await Promise.all(keyOf.slice(0, 2).map(get)), ['v', 'v']);
  await refused('a key of the lost node', '', get(keyOf[2]));
  same('the others after that', await Promise.all(keyOf.slice(0, 2).map(get)), ['v', 'v']);
}

// Runs a program to its end.
async function run(main) {
  try {
    await main();
  } catch (error) {
    console.error(error);
    process.exit(1);
  }
  console.log('end');
  process.exit(0);
}

module.exports = { host, ports, keys, counts, keyOf, lost, run };
