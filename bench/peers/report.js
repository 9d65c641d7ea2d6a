// Makes docs/benchmarks.md and its charts from the results of bench_peers.
//
//   node report.js RESULTS DOCS     RESULTS has peers.json and peers.about.json
'use strict';
const fs = require('node:fs');
const path = require('node:path');

const groups = [
  {
    file: 'drain-batched',
    cases: /^drain_batched/,
    title: 'Tasks drained, in batches',
    text: 'The handlers do nothing. The name of a case gives the depth of the queue at the beginning and the number of processes (p) that drain it. The open edition of BullMQ has no batches: its figures are in the next section.',
  },
  {
    file: 'drain-one-by-one',
    cases: /^drain_one_by_one/,
    title: 'Tasks drained, one by one',
    text: 'Each call fetches and completes one task. PostgreSQL waits for its disk with every commit. BullMQ works on Redis, its default, which writes nothing to disk here. If several of our threads call at the same moment, their calls are sent as one statement with one commit.',
  },
  {
    file: 'enqueue',
    cases: /^enqueue_bulk/,
    title: 'Tasks added',
    text: 'One process adds tasks in bulk to an empty queue.',
  },
  {
    file: 'start-and-recover',
    cases: /^(enqueue_to_start|recover)/,
    title: 'From enqueue to start, and after SIGKILL',
    text: '`enqueue_to_start`: one task at a time is added for an idle worker. The time runs from just before the call that adds it until its handler begins. `recover_after_sigkill`: a worker that holds 10 tasks is killed while another one is idle. The time runs from the kill until the other worker has begun all of them. Leases (or locks, or time limits) last 2 s, and crashed workers are looked for every second, wherever that can be set.',
  },
  {
    file: 'lock-pairs',
    cases: /^lock_pairs/,
    title: 'Locks, acquired and released',
    text: 'One process acquires and releases; the name of a case gives the number of concurrent callers. Each caller has locks of its own.',
  },
  {
    file: 'hot-lock',
    cases: /^hot_lock/,
    title: 'One hot lock',
    text: '16 contenders in 4 processes compete for one lock. Each holder reads a number in Redis, writes the next one and releases the lock. `wait` covers all turns. `handover` covers only turns in which the lock changed hands, and leaves out those in which the last holder took it again at once, before anybody else looked.',
  },
];

// Why we are behind where we have been seen to be.
const reasons = [
  [/^drain_one_by_one/, 'bullmq', 'BullMQ works in the memory of Redis, where nothing waits for a disk. Our completions are committed and survive a power cut. The depth of the queue makes no difference by itself: measured after a checkpoint, 500,000 tasks are drained as fast as 50,000 (`drain_single_depth` of `./dev bench tasks`: 0.99). Where the depths differ, the disk was still busy with the load. A queue in PostgreSQL is fast when it drains in batches.'],
  [/^enqueue_to_start/, 'bullmq', 'Our task is committed to disk before anybody is told of it. A task of BullMQ only has to reach the memory of Redis.'],
  [/^recover/, 'bullmq', 'Both wait for the rest of the 2 s and then for the next look at expired tasks. The result probably depends on where in these two intervals the kill falls.'],
  [/^recover/, 'pg-boss', 'Both wait for the rest of the 2 s and then for the next look at expired tasks. pg-boss counts the 2 s from the start of a job, not from the last heartbeat: a job that takes longer is run twice.'],
  [/^hot_lock_(wait_p50|turns)/, '', 'These locks are not fair: the holder that releases the lock takes it again at once, again and again, while the others sleep between two tries. This gives many turns with no wait at all, and the long waits in the other rows. Our lock goes to the waiter that has waited longest, so nearly every turn is a handover to another process.'],
  [/^lock_pairs/, '', 'The reason is probably that each of our grants also counts a fencing token and records who holds the lock, which the peer does not.'],
];

const colours = {
  ours: '#0b6e4f',
  'graphile-worker': '#6c8ebf',
  'pg-boss': '#9673a6',
  bullmq: '#d79b00',
  redlock: '#6c8ebf',
  'redis-semaphore': '#9673a6',
};

const number = (value) =>
  value >= 100
    ? Math.round(value).toLocaleString('en-US')
    : String(Number(value.toPrecision(value >= 10 ? 3 : 2)));
const escape = (text) => text.replace(/&/g, '&amp;').replace(/</g, '&lt;').replace(/>/g, '&gt;');
const unique = (list) => [...new Set(list)];

/** Breaks a paragraph into lines of at most 120 characters; those after the first are indented. */
const wrap = (text, indent = '') => {
  const lines = [''];
  for (const word of text.split(' ')) {
    const line = lines.at(-1);
    if (line !== '' && line.length + 1 + word.length > 120) lines.push(indent + word);
    else lines[lines.length - 1] = line === '' ? word : `${line} ${word}`;
  }
  return lines.join('\n');
};

/** Whether we are behind the system of this row. */
const behind = (row) =>
  row.system !== 'ours' &&
  row.ours_over_it > 0 &&
  (row.better === 'higher' ? row.ours_over_it < 1 : row.ours_over_it > 1);

/** Whether the repeats of this row and of ours overlap, so that who is ahead may be chance. */
const level = (row, rows) => {
  const ours = rows.find((other) => other.case === row.case && other.system === 'ours');
  return ours.min <= row.max && row.min <= ours.max;
};

/** Bars from left to right, those of one case under its name; the longest of a case is full. */
function chart(title, rows) {
  const width = 760;
  const left = 130;
  const full = 340;
  let y = 30;
  const parts = [`<text x="10" y="20" font-size="15" font-weight="bold">${escape(title)}</text>`];
  for (const name of unique(rows.map((row) => row.case))) {
    const own = rows.filter((row) => row.case === name);
    const most = Math.max(...own.map((row) => row.max));
    y += 14;
    parts.push(
      `<text x="10" y="${y}" font-weight="bold">${escape(name)}</text>` +
        `<text x="${width - 10}" y="${y}" text-anchor="end" fill="#666">${escape(own[0].unit)}, ` +
        `${own[0].better} is better</text>`,
    );
    y += 6;
    for (const row of own) {
      const length = Math.max(1, (full * row.value) / most);
      const from = left + (full * row.min) / most;
      const to = left + (full * row.max) / most;
      parts.push(
        `<text x="${left - 6}" y="${y + 12}" text-anchor="end">${escape(row.system)}</text>` +
          `<rect x="${left}" y="${y + 2}" width="${length.toFixed(1)}" height="13" ` +
          `fill="${colours[row.system] ?? '#888'}"/>` +
          `<line x1="${from.toFixed(1)}" x2="${to.toFixed(1)}" y1="${y + 8.5}" y2="${y + 8.5}" ` +
          'stroke="#000" stroke-width="1"/>' +
          `<text x="${(Math.max(left + length, to) + 6).toFixed(1)}" y="${y + 12}">` +
          `${number(row.value)}${row.note ? ` (${escape(row.note)})` : ''}</text>`,
      );
      y += 17;
    }
    y += 6;
  }
  return (
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${y + 8}" ` +
    `viewBox="0 0 ${width} ${y + 8}" font-family="sans-serif" font-size="12">\n` +
    `<rect width="100%" height="100%" fill="#fff"/>\n${parts.join('\n')}\n</svg>\n`
  );
}

function table(rows) {
  const notes = unique(rows.filter((row) => row.note).map((row) => row.note));
  const systems = unique(rows.map((row) => row.system));
  const lines = [
    `| case | unit | ${systems.join(' | ')} |`,
    `|---|---|${systems.map(() => '--:').join('|')}|`,
  ];
  for (const name of unique(rows.map((row) => row.case))) {
    const own = rows.filter((row) => row.case === name);
    const cells = systems.map((system) => {
      const row = own.find((candidate) => candidate.system === system);
      if (!row) return '';
      const spread = row.repeats > 1 ? ` ±${Math.round((row.spread / 2) * 100)} %` : '';
      const text = number(row.value) + spread + (row.note ? '¹²³'[notes.indexOf(row.note)] : '');
      return behind(row) ? `**${text}**` : text;
    });
    const arrow = own[0].better === 'higher' ? '↑' : '↓';
    lines.push(`| ${name} | ${own[0].unit} ${arrow} | ${cells.join(' | ')} |`);
  }
  notes.forEach((note, i) => lines.push('', `${'¹²³'[i]} ${note}`));
  return lines.join('\n');
}

function losses(rows) {
  const found = new Map(); // rows by the reason
  for (const row of rows.filter(behind)) {
    const entry = reasons.find(
      ([cases, system]) => cases.test(row.case) && (system === '' || system === row.system),
    );
    const reason = entry ? entry[2] : 'No reason is known.';
    const times = row.better === 'higher' ? 1 / row.ours_over_it : row.ours_over_it;
    const chance = level(row, rows) ? ', within the spread' : '';
    const text = `**${row.system}** in \`${row.case}\` (${times.toFixed(times < 10 ? 2 : 0)} times${chance})`;
    found.set(reason, [...(found.get(reason) ?? []), text]);
  }
  if (found.size === 0) return 'Nowhere in this run.';
  return [...found].map(([reason, list]) => wrap(`- Behind ${list.join(', ')}. ${reason}`, '  ')).join('\n');
}

function page(rows, about) {
  const { machine, versions } = about;
  const memory = `${Math.round(parseInt(machine.memory, 10) / 2 ** 20)} GiB`;
  const compared = rows.filter((row) => row.system !== 'ours' && row.ours_over_it > 0 && !row.note);
  const equal = compared.filter((row) => level(row, rows));
  const ahead = compared.filter((row) => !behind(row) && !level(row, rows));
  const lines = [
    '# Benchmarks: Leasehold beside its peers',
    '',
    '<!-- Made by `./dev bench peers --report` from build/bench/peers.json. Edit bench/peers/report.js. -->',
    '',
    wrap(
      `We are ahead in ${ahead.length} of ${compared.length} comparisons, and level (the repeats overlap) ` +
        `in ${equal.length}. Every case in which we are behind is bold in the tables, and ` +
        '[Where we are behind](#where-we-are-behind) gives the reason.',
    ),
    '',
    ...(about.quick ? ['**Made with `--quick`: it shows that it runs, not how fast.**', ''] : []),
    '## How it was measured',
    '',
    wrap(
      `Measured on ${about.date}, on a machine with ${machine.cores} cores (${machine.processor}), ${memory} of memory and ` +
        `${machine.kernel}. Clients and servers share this machine. All systems use the same private PostgreSQL and the same ` +
        'private Redis. They run one after another, in turns, ' +
        `${about.repeats} ${about.repeats === 1 ? 'time' : 'times'} each. The figure is the median, and ± is half of the distance ` +
        `between the best and the worst repeat. A run without a natural end takes ${about.seconds} s. Queues are ` +
        `${about.depths.map((depth) => depth.toLocaleString('en-US')).join(' and ')} tasks deep.`,
    ),
    '',
    wrap(`- PostgreSQL ${versions.postgresql}: ${about.postgresql}`, '  '),
    wrap(`- Redis ${versions.redis}: ${about.redis}`, '  '),
    wrap(
      `- ${Object.entries(versions)
        .filter(([name]) => name !== 'postgresql' && name !== 'redis')
        .map(([name, version]) => `${name} ${String(version).replace(/^v/, '')}`)
        .join(', ')}`,
      '  ',
    ),
    '',
    wrap(
      'Each peer is used as its own documentation recommends for speed; [bench/peers](../bench/peers/README.md) describes how. ' +
        'The peers are Node programs and ours is a C++ program: the comparison is of what a user of each gets, language ' +
        'included. Start-up is not counted. The absolute figures are those of a small machine; compare within a row.',
    ),
    '',
    wrap(
      'To repeat it, run `./dev bench peers`, then `./dev bench peers --report` to make this page' +
        `${about.command ? `. These figures come from \`./dev bench peers ${about.command.trim()}\`` : ''}.`,
    ),
    '',
  ];
  if (about.remark) lines.push(wrap(about.remark), '');
  for (const group of groups) {
    const own = rows.filter((row) => group.cases.test(row.case));
    if (own.length === 0) continue;
    lines.push(`## ${group.title}`, '', wrap(group.text), '', `![${group.title}](benchmarks/${group.file}.svg)`, '');
    lines.push(table(own), '');
  }
  lines.push('## Where we are behind', '', losses(rows), '');
  return lines.join('\n');
}

const [results, docs] = process.argv.slice(2);
if (!docs) {
  console.error('usage: node report.js RESULTS DOCS');
  process.exit(2);
}
const read = (file) => {
  try {
    return JSON.parse(fs.readFileSync(path.join(results, file), 'utf8'));
  } catch (error) {
    console.error(`${error.message}; run ./dev bench peers first`);
    process.exit(1);
  }
};
const rows = read('peers.json');
const about = read('peers.about.json');
const charts = path.join(docs, 'benchmarks');
fs.mkdirSync(charts, { recursive: true });
for (const group of groups) {
  const own = rows.filter((row) => group.cases.test(row.case));
  if (own.length > 0) {
    fs.writeFileSync(path.join(charts, `${group.file}.svg`), chart(group.title, own));
  }
}
fs.writeFileSync(path.join(docs, 'benchmarks.md'), page(rows, about));
console.log(`written: ${path.join(docs, 'benchmarks.md')} and ${charts}`);
