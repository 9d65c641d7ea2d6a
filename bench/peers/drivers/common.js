// What all drivers of peers share: how they talk to bench_peers, and the roles they play.
//
//   node DRIVER.js ROLE OPTIONS     OPTIONS is JSON
//
// A driver writes lines of JSON. Times are milliseconds of the monotonic clock, which all processes
// of a machine share.
'use strict';
const readline = require('node:readline');

const now = () => Number(process.hrtime.bigint()) / 1e6;
const say = (object) => process.stdout.write(JSON.stringify(object) + '\n');
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const never = () => new Promise(() => {});

const input = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const nextLine = () => input.next();

// Counts tasks that are done, and says so when the number has changed.
class Meter {
  done = 0;
  first = 0;
  last = 0;
  #said = 0;

  start = () => {
    if (this.first === 0) this.first = now();
  };
  finish = (count = 1) => {
    this.done += count;
    this.last = now();
  };
  report = () => {
    if (this.done === this.#said) return;
    this.#said = this.done;
    say({ done: this.done, first: this.first, last: this.last });
  };
}

// The roles of a driver of tasks. `peer` has
//   prepare(uri, options)   makes tables
//   fill(uri, count)        adds so many tasks {n}, the fastest way it knows
//   adder(uri)              resolves to a function that adds one task with a given payload
//   work(uri, {mode, concurrency, lease_ms, on_start, on_done, handle})
//                           works until the process ends. mode: one_by_one, batched or responsive.
//                           on_start at the latest when it is connected and looks for tasks
function taskDriver(peer) {
  return {
    async fill({ uri, count, lease_ms }) {
      await peer.prepare(uri, { lease_ms });
      const begun = now();
      await peer.fill(uri, count, { lease_ms });
      say({ count, seconds: (now() - begun) / 1000 });
    },

    // Says ready, works from the first line it reads until the second.
    async drain({ uri, mode, concurrency }) {
      const meter = new Meter();
      say({ ready: true });
      await nextLine();
      await peer.work(uri, {
        mode,
        concurrency,
        on_start: meter.start,
        on_done: meter.finish,
        handle: () => {},
      });
      const timer = setInterval(meter.report, 20);
      await nextLine();
      clearInterval(timer);
      meter.report();
    },

    // One task after the other into an idle worker, each after a random pause.
    async latency({ uri, seconds }) {
      await peer.prepare(uri, {});
      const waits = [];
      const handle = (payload) => void waits.push(now() - payload.sent);
      await peer.work(uri, { mode: 'responsive', concurrency: 8, on_start() {}, on_done() {}, handle });
      const add = await peer.adder(uri);
      let sent = 0;
      const send = () => add({ sent: now() }).then(() => (sent += 1));
      for (let i = 0; i < 10; i += 1) {
        await send();
        await sleep(50);
      }
      while (waits.length < sent) await sleep(10);
      waits.length = 0; // that was to warm up
      sent = 0;
      for (const end = now() + seconds * 1000; now() < end; ) {
        await send();
        await sleep(Math.random() * 40);
      }
      for (const end = now() + 30000; waits.length < sent && now() < end; ) await sleep(10);
      if (waits.length < sent) throw new Error(`${sent - waits.length} tasks were not started`);
      say({ waits });
    },

    // Begins tasks, says so, and never ends them.
    async hold({ uri, concurrency, lease_ms }) {
      const handle = () => {
        say({ started: now() });
        return never();
      };
      await peer.work(uri, {
        mode: 'responsive', concurrency, lease_ms, on_start() {}, on_done() {}, handle,
      });
      say({ ready: true });
      await nextLine();
    },
  };
}

// The roles of a driver of locks. `peer` has
//   client(uri, pipelining)            an ioredis
//   locker(client, name)               {acquire(), release(held)} for one lock
function lockDriver(peer) {
  return {
    // Acquire and release, so many at once, each its own locks.
    async pairs({ uri, concurrency, seconds }) {
      const client = peer.client(uri, concurrency > 1); // alone it would only wait
      await client.ping();
      let pairs = 0;
      const loop = async (id, end) => {
        const locks = [];
        for (let i = 0; i < 16; i += 1) locks.push(peer.locker(client, `bench:${id}:${i}`));
        for (let i = 0; now() < end; i = (i + 1) % locks.length) {
          await locks[i].release(await locks[i].acquire());
          pairs += 1;
        }
      };
      const round = (time) => {
        const end = now() + time;
        return Promise.all(Array.from({ length: concurrency }, (_, id) => loop(id, end)));
      };
      await round(500); // to warm up
      pairs = 0;
      const begun = now();
      await round(seconds * 1000);
      say({ pairs, seconds: (now() - begun) / 1000 });
    },

    // Contenders for one lock. What it protects: each holder reads a number and writes the next.
    async contend({ uri, contenders, first, seconds }) {
      const client = peer.client(uri, false);
      await client.ping();
      say({ ready: true });
      await nextLine();
      const end = now() + seconds * 1000;
      const turns = [];
      const contend = async (contender) => {
        const lock = peer.locker(client, 'bench:hot');
        while (now() < end) {
          const asked = now();
          const held = await lock.acquire();
          turns.push([asked, now(), contender]);
          await client.set('bench:counter', Number(await client.get('bench:counter')) + 1);
          await lock.release(held);
        }
      };
      await Promise.all(Array.from({ length: contenders }, (_, i) => contend(first + i)));
      say({ turns });
    },
  };
}

function main(roles) {
  const [role, options] = process.argv.slice(2);
  if (!roles[role]) throw new Error(`no role '${role}'; there are: ${Object.keys(roles).join(', ')}`);
  roles[role](JSON.parse(options)).then(
    // A pipe may not have taken everything yet.
    () => process.stdout.write('', () => process.exit(0)),
    (error) => {
      console.error(error);
      process.exit(1);
    },
  );
}

module.exports = { lockDriver, main, taskDriver };
