'use strict';
const PgBoss = require('pg-boss');
const { main, taskDriver } = require('./common.js');

const queue = 'bench';
const chunk = 10000;
const batch = 500;
// Each fetch sorts the whole queue, so that more at once than there are cores to sort only wait.
const loops = { one_by_one: 4, batched: 2 };

// Without maintenance and schedules, unless it is about recovery.
async function open(uri, options = {}) {
  const boss = new PgBoss({ connectionString: uri, schedule: false, supervise: false, ...options });
  boss.on('error', (error) => {
    throw error;
  });
  await boss.start();
  return boss;
}

main(
  taskDriver({
    async prepare(uri) {
      const boss = await open(uri);
      await boss.createQueue(queue);
      await boss.stop({ graceful: false });
    },

    async fill(uri, count, { lease_ms }) {
      const boss = await open(uri);
      const expiry = lease_ms ? { expireInSeconds: lease_ms / 1000 } : {};
      for (let n = 0; n < count; n += chunk) {
        const length = Math.min(chunk, count - n);
        await boss.insert(
          Array.from({ length }, (_, i) => ({ name: queue, data: { n: n + i }, ...expiry })),
        );
      }
    },

    async adder(uri) {
      const boss = await open(uri);
      return (payload) => boss.send(queue, payload);
    },

    async work(uri, { mode, concurrency, lease_ms, on_start, on_done, handle }) {
      if (mode === 'responsive') {
        const boss = await open(
          uri,
          lease_ms ? { supervise: true, maintenanceIntervalSeconds: 1 } : {},
        );
        // It fetches once each half second, so that a small batch would leave tasks for the next.
        const batchSize = lease_ms ? concurrency : batch;
        await boss.work(queue, { batchSize, pollingIntervalSeconds: 0.5 }, (jobs) =>
          Promise.all(jobs.map((job) => handle(job.data))),
        );
        return;
      }
      // Its workers sleep between two fetches; these do not.
      const boss = await open(uri, { max: loops[mode] });
      const loop = async () => {
        for (;;) {
          const jobs = await boss.fetch(queue, { batchSize: mode === 'batched' ? batch : 1 });
          if (jobs.length === 0) return;
          for (const job of jobs) handle(job.data);
          await boss.complete(queue, jobs.map((job) => job.id));
          on_done(jobs.length);
        }
      };
      on_start(); // the first fetch counts: on a deep queue it takes seconds
      for (let i = 0; i < loops[mode]; i += 1) loop();
    },
  }),
);
