'use strict';
const Redis = require('ioredis');
const { default: Redlock } = require('redlock');
const { lockDriver, main } = require('./common.js');

const ttl = 10000;

main(
  lockDriver({
    client: (uri, enableAutoPipelining) => new Redis(uri, { enableAutoPipelining }),
    locker(client, name) {
      // Its default of 200 ms between two tries would make every wait that long.
      const redlock = new Redlock([client], { retryCount: -1, retryDelay: 10, retryJitter: 5 });
      return {
        acquire: () => redlock.acquire([name], ttl),
        release: (lock) => lock.release(),
      };
    },
  }),
);
