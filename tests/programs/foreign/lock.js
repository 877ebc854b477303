#!/usr/bin/env node
// Keeps locks with npm's redlock 5 and ioredis, told what to do by foreign_test.cpp.
//
// usage: REDLOCK_TEST_NPM=FOLDER lock.js PORT...     several ports: a quorum; FOLDER has node_modules/
//
// A line each on standard input and an answer to it:
//   try NAME TTL       one attempt, TTL in ms: held, busy
//   acquire NAME TTL   waits, the way this client's users do: held
//   release NAME       released, lost
// The first line of output is "ready", or "missing …" where what this needs is not installed.
'use strict';

const folder = process.env.REDLOCK_TEST_NPM;
const load = (name) => {
  try {
    return require(`${folder}/node_modules/${name}`);
  } catch (error) {
    if (error.code !== 'MODULE_NOT_FOUND') throw error;
    console.log(`missing ${name} of npm: REDLOCK_TEST_NPM names no folder that has it`);
    process.exit();
  }
};
const Redis = load('ioredis');
const {default: Redlock, ExecutionError} = load('redlock');

const once = {retryCount: 0};
const forever = {retryCount: -1};
const redlock = new Redlock(process.argv.slice(2).map((port) => new Redis({port: Number(port)})));
const held = new Map();

// A lock that somebody else has is the same error to this library as a server that fails, but for what lies inside.
const refused = async (error) => {
  if (!(error instanceof ExecutionError)) return false;
  const errors = (await Promise.all(error.attempts)).flatMap(({votesAgainst}) => [...votesAgainst.values()]);
  return errors.every(({name}) => name === 'ResourceLockedError');
};

const answerOr = async (no, action) => {
  try {
    return await action();
  } catch (error) {
    if (await refused(error)) return no;
    throw error;
  }
};

const attempt = (name, ttl, settings) => answerOr('busy', async () => {
  held.set(name, await redlock.acquire([name], Number(ttl), settings));
  return 'held';
});

const verbs = {
  try: (name, ttl) => attempt(name, ttl, once),
  acquire: (name, ttl) => attempt(name, ttl, forever),
  release: (name) => answerOr('lost', async () => {
    await redlock.release(held.get(name), once);
    return 'released';
  }),
};

(async () => {
  console.log('ready');
  for await (const line of require('readline').createInterface({input: process.stdin})) {
    const [verb, ...words] = line.split(' ');
    console.log(await verbs[verb](...words));
  }
  process.exit();
})();
