// What the programs here share: where the server is, and a line of output for each check.
'use strict';
const { inspect, isDeepStrictEqual } = require('node:util');

const [host, port, securedPort] = [process.argv[2], Number(process.argv[3]), Number(process.argv[4])];

const short = (value) => inspect(value, { breakLength: Infinity }).slice(0, 120);

function same(what, found, wanted) {
  if (isDeepStrictEqual(found, wanted)) console.log(`ok ${what}`);
  else console.log(`differs ${what}: ${short(wanted)} was expected, ${short(found)} came`);
}

// The promise fails, with a message that has this in it.
async function refused(what, message, promise) {
  try {
    const found = await promise;
    console.log(`differs ${what}: an error was expected, ${short(found)} came`);
  } catch (error) {
    same(what, String(error.message).includes(message) || error.message, true);
  }
}

const later = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

// What `find` answers becomes the same within two seconds.
async function soon(what, find, wanted) {
  const until = Date.now() + 2000;
  let found = await find();
  while (!isDeepStrictEqual(found, wanted) && Date.now() < until) {
    await later(10);
    found = await find();
  }
  same(what, found, wanted);
}

// Fails unless the promise has come to its end within so many milliseconds.
function within(milliseconds, promise) {
  const late = later(milliseconds).then(() => Promise.reject(new Error(`nothing within ${milliseconds} ms`)));
  return Promise.race([promise, late]);
}

module.exports = { host, port, securedPort, same, refused, later, soon, within };
