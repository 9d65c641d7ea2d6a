'use strict';
const { Queue, Worker } = require('bullmq');
const Redis = require('ioredis');
const { main, taskDriver } = require('./common.js');

const name = 'bench';
const chunk = 5000;
const connect = (uri) => new Redis(uri, { maxRetriesPerRequest: null });
const options = { removeOnComplete: true };

main(
  taskDriver({
    async prepare() {},

    async fill(uri, count) {
      const queue = new Queue(name, { connection: connect(uri) });
      for (let n = 0; n < count; n += chunk) {
        const length = Math.min(chunk, count - n);
        await queue.addBulk(
          Array.from({ length }, (_, i) => ({ name, data: { n: n + i }, opts: options })),
        );
      }
    },

    async adder(uri) {
      const queue = new Queue(name, { connection: connect(uri) });
      return (payload) => queue.add(name, payload, options);
    },

    async work(uri, { concurrency, lease_ms, on_start, on_done, handle }) {
      const recovery = lease_ms ? { lockDuration: lease_ms, stalledInterval: 1000 } : {};
      const worker = new Worker(
        name,
        async (job) => {
          on_start();
          return handle(job.data);
        },
        { connection: connect(uri), concurrency, ...recovery },
      );
      worker.on('error', (error) => {
        throw error;
      });
      worker.on('completed', () => on_done());
      await worker.waitUntilReady();
      on_start();
    },
  }),
);
