// transaction.js FILE
//
// For every number N on its input it raises the member "n" of the document FILE N times, each time
// under its lock, and prints how many microseconds one took.

const fs = require('fs/promises');
const readline = require('readline');
const lockfile = require('proper-lockfile');
const writeFileAtomic = require('write-file-atomic');

const file = process.argv[2];

const options = {
  stale: 10000,
  retries: { retries: 10, minTimeout: 50, maxTimeout: 500 },
  realpath: false,
};

async function raise() {
  const release = await lockfile.lock(file, options);
  try {
    const document = JSON.parse(await fs.readFile(file, 'utf8'));
    document.n += 1;
    await writeFileAtomic(file, JSON.stringify(document, null, 2));
  } finally {
    await release();
  }
}

async function main() {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const times = Number(line);
    const started = process.hrtime.bigint();
    for (let done = 0; done < times; done += 1) await raise();
    console.log(Number(process.hrtime.bigint() - started) / 1000 / times);
  }
}

main().catch((error) => {
  console.log(`failed ${error.code}: ${error.message}`);
  process.exitCode = 1;
});
