'use strict';
const Redis = require('ioredis');
const { Mutex } = require('redis-semaphore');
const { lockDriver, main } = require('./common.js');

main(
  lockDriver({
    client: (uri, enableAutoPipelining) => new Redis(uri, { enableAutoPipelining }),
    locker(client, name) {
      const mutex = new Mutex(client, name, { lockTimeout: 10000, acquireTimeout: 600000 });
      return { acquire: () => mutex.acquire(), release: () => mutex.release() };
    },
  }),
);
