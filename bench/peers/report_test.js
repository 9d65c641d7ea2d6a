// Runs report.js on a sample and looks at what it makes.
'use strict';
const assert = require('node:assert');
const { execFileSync, spawnSync } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');

const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'peers-report-'));
process.on('exit', () => fs.rmSync(dir, { recursive: true }));
const report = path.join(__dirname, 'report.js');
const docs = path.join(dir, 'docs');

const row = (name, system, value, ours, better, more = {}) => ({
  case: name, system, value, unit: better === 'higher' ? 'tasks/s' : 'ms', ours_over_it: ours / value,
  better, min: value * 0.9, max: value * 1.1, spread: 0.2, repeats: 3, ...more,
});
const rows = [
  row('drain_batched_50k_1p', 'ours', 40000, 40000, 'higher'),
  row('drain_batched_50k_1p', 'pg-boss', 10000, 40000, 'higher'),
  row('drain_one_by_one_50k_1p', 'ours', 4000, 4000, 'higher'),
  row('drain_one_by_one_50k_1p', 'bullmq', 12000, 4000, 'higher'),
  row('enqueue_to_start_p50', 'ours', 3, 3, 'lower'),
  row('enqueue_to_start_p50', 'pg-boss', 250, 3, 'lower', { note: 'a <note>' }),
  row('lock_pairs_1', 'ours', 5, 5, 'higher'),
  row('lock_pairs_1', 'redlock', 5.1, 5, 'higher'),
];
const about = {
  date: '2026-01-02', machine: { processor: 'P', cores: 2, memory: '25165824 kB', kernel: 'K' },
  versions: { ours: '1.2.3', redlock: 'v5.0.0', postgresql: '15', redis: '7' },
  postgresql: 'fsync = on', redis: 'no persistence', repeats: 3, seconds: 5, depths: [50000],
  processes: [1], quick: false, command: '--repeats 3 ',
};

// Without results it says what to do.
const without = spawnSync('node', [report, dir, docs], { encoding: 'utf8' });
assert.strictEqual(without.status, 1);
assert.match(without.stderr, /run \.\/dev bench peers first/);

fs.writeFileSync(path.join(dir, 'peers.json'), JSON.stringify(rows));
fs.writeFileSync(path.join(dir, 'peers.about.json'), JSON.stringify(about));
execFileSync('node', [report, dir, docs]);

const page = fs.readFileSync(path.join(docs, 'benchmarks.md'), 'utf8');
assert.match(page, /We are ahead in 1 of 3 comparisons, and level \(the repeats overlap\) in 1\./); // one has a note
assert.match(page, /24 GiB of memory/);
assert.match(page, /redlock 5\.0\.0/);
assert.match(page, /\| drain_batched_50k_1p \| tasks\/s ↑ \| 40,000 ±10 % \| 10,000 ±10 % \|/);
assert.match(page, /\*\*12,000 ±10 %\*\*/); // ahead of us
assert.match(page, /Behind \*\*bullmq\*\* in `drain_one_by_one_50k_1p` \(3\.00 times\)/);
assert.match(page, /`lock_pairs_1` \(1\.02 times, within the spread\)/);
assert.doesNotMatch(page, /hot-lock/); // nothing was measured
for (const chart of page.match(/benchmarks\/[a-z-]+\.svg/g)) {
  const svg = fs.readFileSync(path.join(docs, chart), 'utf8');
  assert.match(svg, /^<svg [^]*<\/svg>\n$/);
  assert.doesNotMatch(svg, /NaN|undefined|<note>/);
}
console.log('report.js is well');
