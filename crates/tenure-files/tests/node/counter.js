// counter.js FILE N
//
// Raises the member "n" of the document FILE N times, each time under its lock, and prints the
// number of times.

const fs = require('fs/promises');
const lockfile = require('proper-lockfile');
const writeFileAtomic = require('write-file-atomic');

const [file, times] = process.argv.slice(2);

const options = {
  stale: 10000,
  realpath: false,
  retries: { retries: 10000, minTimeout: 5, maxTimeout: 100, randomize: true },
};

async function raise() {
  const release = await lockfile.lock(file, options);
  const document = JSON.parse(await fs.readFile(file, 'utf8'));
  document.n += 1;
  await writeFileAtomic(file, JSON.stringify(document, null, 2) + '\n');
  await release();
}

async function main() {
  let raised = 0;
  for (; raised < Number(times); raised += 1) await raise();
  console.log(raised);
}

main().catch((error) => {
  console.log(`failed ${error.code}: ${error.message}`);
  process.exitCode = 1;
});
