// ioredis: strings, expiry, transactions, pipelines, scans, users, RESP2 and RESP3.
'use strict';
const { inspect } = require('node:util');
const { Redis } = require('ioredis');
const { host, port, securedPort, same, refused, later } = require('./checking.js');

async function strings(client) {
  same('flushall', await client.flushall(), 'OK');
  same('ping', await client.ping(), 'PONG');
  same('get, absent', await client.get('absent'), null);
  same('set', await client.set('key', 'value'), 'OK');
  same('get', await client.get('key'), 'value');
  same('set nx, present', await client.set('key', 'x', 'NX'), null);
  same('set get', await client.set('key', 'other', 'GET'), 'value');
  same('append', await client.append('key', '!'), 6);
  same('strlen', await client.strlen('key'), 6);
  same('getrange', await client.getrange('key', 1, -2), 'ther');
  same('getdel', await client.getdel('key'), 'other!');
  const binary = Buffer.from(Array.from({ length: 256 }, (_, at) => at));
  await client.set(binary.subarray(0, 250), binary);
  same('a key and value of all bytes', await client.getBuffer(binary.subarray(0, 250)), binary);
  const big = '0123456789'.repeat(100_000);
  same('set, a million bytes', await client.set('big', big), 'OK');
  same('get, a million bytes', await client.get('big'), big);
  same('mset', await client.mset({ a: '1', b: '2', ä: 'ö' }), 'OK');
  same('mget', await client.mget('a', 'absent', 'ä'), ['1', null, 'ö']);
  same('exists', await client.exists('a', 'b', 'absent'), 2);
  same('del', await client.del('b', 'absent'), 1);
  same('incr', [await client.incr('n'), await client.incrby('n', 9), await client.decr('n')], [1, 10, 9]);
  same('incrbyfloat', await client.incrbyfloat('n', 0.5), '9.5');
  await refused('incr of a word', 'not an integer', client.incr('ä'));
  await refused('an unknown command', 'unknown command', client.call('NONSENSE'));
}

async function expiry(client) {
  same('set ex', await client.set('lives', 'v', 'EX', 100), 'OK');
  same('ttl', [99, 100].includes(await client.ttl('lives')), true);
  same('persist', await client.persist('lives'), 1);
  same('ttl, none', await client.ttl('lives'), -1);
  same('expire', await client.expire('lives', 50), 1);
  same('getex', await client.getex('lives', 'EX', 30), 'v');
  await client.set('short', 's', 'PX', 60);
  await later(100);
  same('get, expired', await client.get('short'), null);
}

async function transactions(client) {
  same('multi, exec', await client.multi().set('t', '1').incr('t').get('t').exec(), [[null, 'OK'], [null, 2], [null, '2']]);
  const pipeline = client.pipeline();
  for (let at = 0; at < 1000; at++) pipeline.set(`p${at}`, at);
  same('a pipeline of 1,000', (await pipeline.exec()).every(([error, reply]) => !error && reply === 'OK'), true);
  const other = client.duplicate();
  await client.watch('t');
  await other.set('t', 'changed');
  same('watch, changed', await client.multi().set('t', 'mine').exec(), null);
  await client.watch('t');
  same('watch, unchanged', await client.multi().set('t', 'mine').exec(), [[null, 'OK']]);
  const mixed = await client.pipeline().incr('t').get('t').exec();
  same('an error within a pipeline', [mixed[0][0] instanceof Error, mixed[1][1]], [true, 'mine']);
  other.disconnect();
}

async function scans(client) {
  const found = new Set();
  for await (const keys of client.scanStream({ match: 'p99?', count: 100 })) keys.forEach((key) => found.add(key));
  same('scanStream', found.size, 10);
  same('keys', (await client.keys('p99[01]')).sort(), ['p990', 'p991']);
  same('dbsize', (await client.dbsize()) >= 1000, true);
}

async function connection(client) {
  same('client id', (await client.client('ID')) > 0, true);
  same('client setname', await client.client('SETNAME', 'me'), 'OK');
  same('client getname', await client.client('GETNAME'), 'me');
  same('info', (await client.info('server')).includes('redis_version:7.'), true);
  same('config get', inspect(await client.config('GET', 'maxmemory')).includes('maxmemory'), true);
}

async function more() {
  const prefixed = new Redis({ host, port, keyPrefix: 'app:' });
  await prefixed.set('key', 'mine');
  const pipelined = new Redis({ host, port, enableAutoPipelining: true });
  same('a prefix', await pipelined.get('app:key'), 'mine');
  const all = await Promise.all(Array.from({ length: 500 }, (_, at) => pipelined.get(`p${at}`)));
  same('automatic pipelines', all, Array.from({ length: 500 }, (_, at) => String(at)));
  const named = new Redis({ host, port, connectionName: 'named', db: 0 });
  same('a name and a database', await named.client('GETNAME'), 'named');
  [prefixed, pipelined, named].forEach((client) => client.disconnect());
}

async function users() {
  const closed = new Redis({ host, port: securedPort, lazyConnect: true, maxRetriesPerRequest: 0 });
  closed.on('error', () => {});
  await refused('no password', 'NOAUTH', closed.get('key'));
  const single = new Redis({ host, port: securedPort, password: 'secret' });
  same('a password', await single.set('key', 'v'), 'OK');
  const app = new Redis(`redis://app:word@${host}:${securedPort}`);
  same('a user', await app.set('app:key', 'v'), 'OK');
  await refused("another's key", 'NOPERM', app.get('key'));
  await refused("another's command", 'NOPERM', app.config('GET', 'maxmemory'));
  [closed, single, app].forEach((client) => client.disconnect());
}

async function main() {
  for (const protocol of [2, 3]) {
    const client = new Redis({ host, port, protocol });
    await strings(client);
    await expiry(client);
    await transactions(client);
    await scans(client);
    await connection(client);
    same('quit', await client.quit(), 'OK');
  }
  await more();
  await users();
  console.log('end');
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
