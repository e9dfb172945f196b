// What the programs for clusters share. Their arguments: a host, the ports of three nodes, and the process of the third.
'use strict';

const [host, ports, lostProcess] = [process.argv[2], process.argv.slice(3, 6).map(Number), Number(process.argv[6])];

// Enough for each node to have some of them, so many.
const keys = Array.from({ length: 1000 }, (_, at) => `k${at}`);
const counts = [341, 332, 327];

// A key of each node.
const keyOf = ['k2', 'k0', 'k1'];

// Kills the third node.
const lose = () => process.kill(lostProcess, 'SIGKILL');

module.exports = { host, ports, keys, counts, keyOf, lose };
