// hold.js FILE [--realpath]
//
// Takes the lock of FILE. Prints "busy" if it has to wait, then "held"; prints "compromised" when
// the library says so. When its input ends it releases, and prints "released" or the error.

const lockfile = require('proper-lockfile');

const [file, realpath] = process.argv.slice(2);

const options = {
  stale: 10000,
  realpath: realpath === '--realpath',
  onCompromised: (error) => console.log(`compromised ${error.code}`),
};
const patient = { ...options, retries: { retries: 10000, minTimeout: 20, maxTimeout: 100 } };

async function take() {
  try {
    return await lockfile.lock(file, options);
  } catch (error) {
    if (error.code !== 'ELOCKED') throw error;
    console.log('busy');
    return lockfile.lock(file, patient);
  }
}

async function main() {
  const release = await take();
  console.log('held');
  process.stdin.resume();
  process.stdin.on('end', () => release().then(
    () => console.log('released'),
    (error) => console.log(error.code),
  ));
}

main().catch((error) => {
  console.log(`failed ${error.code}: ${error.message}`);
  process.exitCode = 1;
});
