'use strict';
const { makeWorkerUtils, run, Logger } = require('graphile-worker');
const { main, taskDriver } = require('./common.js');

const logger = new Logger(() => () => {});
const chunk = 10000;

const withUtils = async (uri, use) => {
  const utils = await makeWorkerUtils({ connectionString: uri, logger });
  try {
    return await use(utils);
  } finally {
    await utils.release();
  }
};

main(
  taskDriver({
    prepare: (uri) => withUtils(uri, (utils) => utils.migrate()),

    fill: (uri, count) =>
      withUtils(uri, async (utils) => {
        for (let n = 0; n < count; n += chunk) {
          const length = Math.min(chunk, count - n);
          await utils.addJobs(
            Array.from({ length }, (_, i) => ({ identifier: 'bench', payload: { n: n + i } })),
          );
        }
      }),

    async adder(uri) {
      const utils = await makeWorkerUtils({ connectionString: uri, logger });
      return (payload) => utils.addJob('bench', payload);
    },

    // As its page on performance says.
    async work(uri, { mode, concurrency, on_start, on_done, handle }) {
      const batching =
        mode === 'batched'
          ? { localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 }
          : {};
      const runner = await run({
        preset: {
          worker: {
            connectionString: uri,
            concurrentJobs: concurrency,
            maxPoolSize: concurrency + 1,
            logger,
            ...batching,
          },
        },
        taskList: {
          bench(payload) {
            on_start();
            return handle(payload);
          },
        },
      });
      runner.events.on('job:complete', () => on_done());
      on_start();
    },
  }),
);
