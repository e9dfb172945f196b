// node-redis: strings, expiry, transactions, pipelines, scans, users, a pool, RESP2 and RESP3, its client-side cache.
'use strict';
const { createClient, createClientPool, RESP_TYPES } = require('redis');
const { host, port, securedPort, same, refused, later, soon } = require('./checking.js');

const open = async (options) => {
  const client = createClient({ socket: { host, port, reconnectStrategy: false }, ...options });
  client.on('error', () => {});
  return client.connect();
};

async function strings(client) {
  same('flushAll', await client.flushAll(), 'OK');
  same('ping', await client.ping(), 'PONG');
  same('get, absent', await client.get('absent'), null);
  same('set', await client.set('key', 'value'), 'OK');
  same('get', await client.get('key'), 'value');
  same('set NX, present', await client.set('key', 'x', { NX: true }), null);
  same('set GET', await client.set('key', 'other', { GET: true }), 'value');
  same('append', await client.append('key', '!'), 6);
  same('strLen', await client.strLen('key'), 6);
  same('getRange', await client.getRange('key', 1, -2), 'ther');
  same('getDel', await client.getDel('key'), 'other!');
  const binary = Buffer.from(Array.from({ length: 256 }, (_, at) => at));
  await client.set(binary.subarray(0, 250), binary);
  const buffers = client.withTypeMapping({ [RESP_TYPES.BLOB_STRING]: Buffer });
  same('a key and value of all bytes', Buffer.from(await buffers.get(binary.subarray(0, 250))), binary);
  const big = '0123456789'.repeat(100_000);
  same('set, a million bytes', await client.set('big', big), 'OK');
  same('get, a million bytes', await client.get('big'), big);
  same('mSet', await client.mSet({ a: '1', b: '2', ä: 'ö' }), 'OK');
  same('mGet', await client.mGet(['a', 'absent', 'ä']), ['1', null, 'ö']);
  same('exists', await client.exists(['a', 'b', 'absent']), 2);
  same('del', await client.del(['b', 'absent']), 1);
  same('incr', [await client.incr('n'), await client.incrBy('n', 9), await client.decr('n')], [1, 10, 9]);
  same('incrByFloat', await client.incrByFloat('n', 0.5), '9.5');
  same('type', await client.type('n'), 'string');
  await refused('incr of a word', 'not an integer', client.incr('ä'));
  await refused('an unknown command', 'unknown command', client.sendCommand(['NONSENSE']));
}

async function expiry(client) {
  same('set EX', await client.set('lives', 'v', { expiration: { type: 'EX', value: 100 } }), 'OK');
  same('ttl', [99, 100].includes(await client.ttl('lives')), true);
  same('persist', await client.persist('lives'), 1);
  same('ttl, none', await client.ttl('lives'), -1);
  same('expire', await client.expire('lives', 50), 1);
  same('getEx', await client.getEx('lives', { type: 'EX', value: 30 }), 'v');
  await client.set('short', 's', { expiration: { type: 'PX', value: 60 } });
  await later(100);
  same('get, expired', await client.get('short'), null);
}

async function transactions(client) {
  same('multi, exec', await client.multi().set('t', '1').incr('t').get('t').exec(), ['OK', 2, '2']);
  const sets = Array.from({ length: 1000 }, (_, at) => client.set(`p${at}`, String(at)));
  same('a pipeline of 1,000', (await Promise.all(sets)).every((reply) => reply === 'OK'), true);
  same('execAsPipeline', await client.multi().set('q', '1').get('q').execAsPipeline(), ['OK', '1']);
  const other = await client.duplicate().connect();
  await client.watch('t');
  await other.set('t', 'changed');
  await refused('watch, changed', 'watched keys has been changed', client.multi().set('t', 'mine').exec());
  await client.watch('t');
  same('watch, unchanged', await client.multi().set('t', 'mine').exec(), ['OK']);
  other.destroy();
}

async function scans(client) {
  const found = new Set();
  for await (const keys of client.scanIterator({ MATCH: 'p99?', COUNT: 100 })) keys.forEach((key) => found.add(key));
  same('scanIterator', found.size, 10);
  same('keys', (await client.keys('p99[01]')).sort(), ['p990', 'p991']);
  same('dbSize', (await client.dbSize()) >= 1000, true);
}

async function connection(client) {
  same('clientId', (await client.clientId()) > 0, true);
  same('clientSetName', await client.clientSetName('me'), 'OK');
  same('clientGetName', await client.clientGetName(), 'me');
  same('clientInfo', (await client.clientInfo()).name, 'me');
  same('info', (await client.info('server')).includes('redis_version:7.'), true);
  same('configGet', 'maxmemory' in (await client.configGet('maxmemory')), true);
  same('commandCount', (await client.commandCount()) > 50, true);
}

async function clientSideCache() {
  const writer = await open({});
  const reader = await open({ RESP: 3, clientSideCache: { ttl: 0, maxEntries: 100, evictPolicy: 'LRU' } });
  await writer.set('cached', '1');
  same('cache: get', await reader.get('cached'), '1');
  same('cache: get again', await reader.get('cached'), '1');
  await writer.set('cached', '2');
  await soon("cache: another's set is seen", () => reader.get('cached'), '2');
  await writer.del('cached');
  await soon("cache: another's del is seen", () => reader.get('cached'), null);
  await writer.set('cached', '3');
  await soon('cache: a new value is seen', () => reader.get('cached'), '3');
  await writer.flushAll();
  await soon('cache: flushAll is seen', () => reader.get('cached'), null);
  [writer, reader].forEach((client) => client.destroy());
}

async function pool() {
  const clients = await createClientPool({ socket: { host, port } }, { minimum: 1, maximum: 4 }).connect();
  const sums = await Promise.all(Array.from({ length: 200 }, () => clients.incr('pooled')));
  same('a pool', Math.max(...sums), 200);
  clients.destroy();
}

async function users() {
  const secured = { host, port: securedPort, reconnectStrategy: false };
  await refused('no password', 'NOAUTH', open({ socket: secured }).then((client) => client.get('key')));
  await refused('a wrong password', 'WRONGPASS', open({ socket: secured, password: 'wrong' }));
  for (const RESP of [2, 3]) {
    const single = await open({ socket: secured, password: 'secret', RESP });
    same(`a password, RESP${RESP}`, await single.set('key', 'v'), 'OK');
    const app = await open({ socket: secured, username: 'app', password: 'word', RESP });
    same(`a user, RESP${RESP}`, await app.set('app:key', 'v'), 'OK');
    await refused("another's key", 'NOPERM', app.get('key'));
    await refused("another's command", 'NOPERM', app.configGet('maxmemory'));
    [single, app].forEach((client) => client.destroy());
  }
}

async function main() {
  for (const RESP of [2, 3]) {
    const client = await open({ RESP });
    await strings(client);
    await expiry(client);
    await transactions(client);
    await scans(client);
    await connection(client);
    await client.close();
  }
  await clientSideCache();
  await pool();
  await users();
  console.log('end');
  process.exit(0);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
